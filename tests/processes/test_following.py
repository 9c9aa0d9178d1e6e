"""Processes that follow a log while others write to it, and are killed on the way."""

import asyncio
import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from steptrail.interfaces.python.trail import Steptrail
from tests.harness.ready_python import KILL, ready_python
from tests.processes.agents.log_traffic import ENOUGH
from tests.processes.agents.site import Site

Place = tuple[int, str, int]
"""Position, session, version."""

_TRAFFIC = "tests.processes.agents.log_traffic"
_ROOT = Path(__file__).parents[2]
_LONGEST_SECONDS = 60
"""A process that has not come that far by then hangs: the scenario fails, and no assertion is about time."""


class Traffic(Site):
    """A log with writers and readers in processes of their own."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        (folder / "store").write_text(url, encoding="utf-8")
        self._started: list[subprocess.Popen[bytes]] = []

    def writer(self, name: str) -> "subprocess.Popen[bytes]":
        return self._start("-m", _TRAFFIC, "write", str(self.folder), name)

    def reader(self, name: str, after: int = 0) -> "subprocess.Popen[bytes]":
        return self._start("-m", _TRAFFIC, "read", str(self.folder), name, f"--after={after}")

    def command_line(self, name: str) -> "subprocess.Popen[bytes]":
        with (self.folder / name).open("ab") as out:
            return self._start("-m", "steptrail", "tail", "--follow", "--json", "--store", self.url, out=out.fileno())

    def _start(self, *line: str, out: int | None = None) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([ready_python(), *line], cwd=_ROOT, stdout=out)
        self._started.append(process)
        return process

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill a process that has not come to its end."""
        assert process.poll() is None
        process.send_signal(KILL)
        process.wait()

    def clear(self) -> None:
        for process in self._started:
            process.send_signal(KILL)
            process.wait()

    def seen(self, name: str) -> list[Place]:
        """Return what a reader has written down; a line on its way is not there yet."""
        path = self.folder / name
        whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
        lines = [json.loads(line) for line in whole.splitlines()]
        return [(line["position"], line["sessionId"], line["version"]) for line in lines]

    def count(self, name: str) -> int:
        """Return how many events a reader has written down."""
        path = self.folder / name
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def stored(self) -> list[Place]:
        async def read() -> list[Place]:
            async with Steptrail.open(self.url) as trail:
                entries = trail.subscribe(follow=False)
                return [(entry.position, entry.id, entry.record.version) async for entry in entries]

        return asyncio.run(read())

    def wait_for(self, name: str, count: int) -> None:
        """Wait until a reader has written down that many events."""
        deadline = time.monotonic() + _LONGEST_SECONDS
        while self.count(name) < count:
            assert time.monotonic() < deadline, f"{name} has seen {self.count(name)} events of {count}"
            time.sleep(0.01)


@pytest.fixture
def traffic(tmp_path: Path, store_url: str) -> Iterator[Traffic]:
    made = Traffic(tmp_path, store_url)
    asyncio.run(Steptrail.open(made.url).close())
    yield made
    made.clear()


def test_each_reader_sees_each_event_once_and_each_session_in_order_whoever_is_killed(traffic: Traffic) -> None:
    names = ("first", "second", "tail")
    restless = traffic.reader("first")
    traffic.reader("second")
    traffic.command_line("tail")
    writers = {name: traffic.writer(name) for name in ("a", "b")}
    for _ in range(3):
        traffic.wait_for("first", traffic.count("first") + 500)
        for name, writer in writers.items():
            traffic.kill(writer)
            writers[name] = traffic.writer(name)
        traffic.kill(restless)
        restless = traffic.reader("first", after=traffic.seen("first")[-1][0])
    traffic.open(ENOUGH)
    assert [writer.wait(_LONGEST_SECONDS) for writer in writers.values()] == [0, 0]

    log = traffic.stored()
    versions: defaultdict[str, list[int]] = defaultdict(list)
    for _, session, version in log:
        versions[session].append(version)
    assert len(versions) == 7
    for session in versions:
        assert versions[session] == list(range(1, len(versions[session]) + 1))
    for name in names:
        traffic.wait_for(name, len(log))
        assert traffic.seen(name) == log
