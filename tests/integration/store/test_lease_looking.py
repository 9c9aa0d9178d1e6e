"""Asking who runs a session, on a store that is only read: true while the owner lives, and nobody is disturbed."""

import asyncio
from pathlib import Path

import pytest

from steptrail.domain.errors import SessionBusy
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.lease_looking import look_at_leases
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.testing import ScriptedModel


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


def files(tmp_path: Path) -> list[str]:
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.name.endswith("-shm"))


def never_answering() -> Agent:
    return AgentBuilder("slow").with_model(ScriptedModel(["at last"], delay=60)).build()


async def test_given_a_run_in_another_store_then_a_reader_sees_its_owner_and_leaves_no_trace(
    url: str, tmp_path: Path
) -> None:
    writing = open_store(url)
    reading = open_store(url, read_only=True)
    assert await reading.is_leased("agent:s1") is False
    lease = await writing.acquire("agent:s1", owner="worker-7")
    before = files(tmp_path)
    assert await reading.is_leased("agent:s1") is True
    assert await reading.is_leased("agent:s2") is False
    leases = await reading.leases()
    assert leases is not None
    (seen,) = leases
    assert (seen.stream, seen.is_live) == ("agent:s1", True)
    assert (seen.owner or "").startswith("worker-7 (pid ")
    with pytest.raises(SessionBusy) as refused:
        await writing.acquire("agent:s1", owner="worker-8")
    assert seen.owner == refused.value.owner
    assert files(tmp_path) == before
    await lease.release()
    assert await reading.is_leased("agent:s1") is False
    await reading.close()
    await writing.close()


async def test_given_many_who_look_then_nobody_who_takes_is_told_that_it_is_busy(url: str) -> None:
    taking, looking = open_store(url), [open_store(url, read_only=True) for _ in range(3)]

    async def look(number: int) -> None:
        for _ in range(40):
            assert await looking[number].is_leased("agent:s1") is not None

    async def take() -> None:
        for _ in range(40):
            await (await taking.acquire("agent:s1", owner="worker-7")).release()

    await asyncio.gather(take(), *(look(number) for number in range(3)))
    for store in (taking, *looking):
        await store.close()


def test_given_lease_files_that_are_not_what_they_seem_then_the_owner_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "guard").touch()
    (tmp_path / "of-nobody.lease").touch()
    (tmp_path / "left.holder").touch()
    (tmp_path / "aa.1.left.1.lease").touch()
    (tmp_path / "bb.1.left.1.lease").write_text("[1", encoding="utf-8")
    (tmp_path / "cc.1.gone.1.lease").write_text("7", encoding="utf-8")
    seen = look_at_leases(tmp_path, patience=1)
    assert seen is not None
    assert [(lease.stream, lease.owner, lease.is_live) for lease in seen] == [(None, None, False)] * 3
    assert not (tmp_path / "gone.holder").exists()
    assert look_at_leases(tmp_path / "none", patience=1) == []


async def test_given_a_session_that_a_process_runs_then_why_says_so_and_afterwards_that_it_is_paused(url: str) -> None:
    running, asking = Steptrail.open(url), Steptrail.open(url, read_only=True)
    task = asyncio.create_task(running.run(never_answering(), "hi", session="s1"))
    while await asking.store.version("agent:s1") < 6:
        await asyncio.sleep(0)
    assert (await asking.session("s1").why()).verdict.startswith("not stopped: running, in inferring")
    await asking.close()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await running.session("s1").why()).verdict.startswith("not stopped: paused")
    await running.close()
