"""Processes that erase are killed, and race: a session is whole, or it is gone, and one of them has erased it."""

import asyncio
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead
from steptrail.domain.shared.events import MetadataChanged
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.examination import examine
from tests.conftest import store_of
from tests.harness.ready_python import KILL, ready_python
from tests.runner.kit import agent_of

EVENTS, PAGE = 4_000, 500
KILLS = 9
PROGRAM = """
import asyncio, sys
from steptrail import Steptrail

async def main(url, session):
    async with Steptrail.open(url) as trail:
        print("ready", flush=True)
        sys.stdin.readline()
        await trail.erase(session, by="ana", reason="test")
        print("done", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store in a file, and of one on a server."""
    return store_of(request, tmp_path)


async def long_session(url: str, name: str) -> None:
    store, head = open_store(url, durability="normal"), EMPTY_STREAM
    for number in range(EVENTS // PAGE):
        events = tuple((1, MetadataChanged(changes={"note": "x" * 200}, by="x")) for _ in range(PAGE))
        head = await store.append(f"agent:{name}", head, Commit(CommitHead(commit_id=f"c{number}", actor="x"), events))
    await store.close()


def eraser(url: str, session: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [ready_python(), "-c", PROGRAM, url, session],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.acceptance("8.7-5")
def test_a_session_whose_eraser_is_killed_is_whole_or_gone(store_url: str) -> None:
    gone = 0
    for number in range(KILLS):
        name = f"s{number}"
        asyncio.run(long_session(store_url, name))
        process = eraser(store_url, name)
        begin(process)
        time.sleep(number * 0.008)
        process.send_signal(KILL)
        process.communicate()
        gone += asyncio.run(is_gone(store_url, f"agent:{name}"))
    assert gone < KILLS
    asyncio.run(examined(store_url))


async def is_gone(url: str, stream: str) -> bool:
    store = open_store(url)
    try:
        erasure = await store.erasure(stream)
        records = [each async for each in store.log(stream=stream)]
        assert len(records) == (EVENTS if erasure is None else 1)
        return erasure is not None
    finally:
        await store.close()


async def examined(url: str) -> None:
    store = open_store(url)
    try:
        seen = await examine(store)
        # What was written here without a journal is in no list.
        assert [finding for finding in seen.findings if finding.check not in {"leases", "index"}] == []
    finally:
        await store.close()


def test_of_two_processes_one_erases_and_the_other_is_told(store_url: str) -> None:
    asyncio.run(long_session(store_url, "s"))
    processes = [eraser(store_url, "s") for _ in range(2)]
    for process in processes:
        begin(process)
    told = [process.communicate() for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 1]
    (error,) = [stderr for _, stderr in told if stderr]
    assert "SessionErased" in error or "SessionBusy" in error
    assert asyncio.run(is_gone(store_url, "agent:s"))
    asyncio.run(examined(store_url))


ARCHIVER = """
import os, sys
from datetime import timedelta
from steptrail import Steptrail
from steptrail.interfaces.python.archive import ArchiveFile

ArchiveFile.proved = lambda path: os._exit(9)
with Steptrail.open_sync(sys.argv[1]) as trail:
    trail.retain(older_than=timedelta(microseconds=1), dry_run=False, archive=sys.argv[2])
"""


def test_what_a_killed_archiver_has_not_finished_is_removed_by_the_next(tmp_path: Path) -> None:
    url, archive = f"sqlite:///{tmp_path / 'runs.db'}", tmp_path / "archive"
    with Steptrail.open_sync(url) as trail:
        trail.run(agent_of(["Done."]).build(), "hi", session="a")
    for _ in range(2):
        assert subprocess.run([ready_python(), "-c", ARCHIVER, url, archive]).returncode == 9
        (left,) = archive.iterdir()
        assert left.suffix == ".new"
    with Steptrail.open_sync(url) as trail:
        trail.retain(older_than=timedelta(microseconds=1), dry_run=False, archive=archive)
        assert trail.erasure("a") is not None
    assert [each.name for each in archive.iterdir()] == ["agent-a.jsonl"]
