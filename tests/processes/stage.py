"""What the scenarios are written with: start a process at a site, wait for it, and read what it left in the log."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.trail import Steptrail
from steptrail.testing.crash import Fault
from tests.harness.stored_events import stored_events
from tests.harness.worker_pool import Worker, WorkerPool
from tests.processes.agents.agents import Options
from tests.processes.agents.site import SESSION, Site
from tests.processes.agents.worker import perform

E = TypeVar("E", bound=AgentEvent)
T = TypeVar("T")

COMPLETED = ("completed", "completed", "All done.")
on_both_stores = pytest.mark.parametrize("stage", ["sqlite", "postgresql"], indirect=True)
"""Run a scenario once with the store in a file, and once on a server."""

_NO_OPTIONS: Options = {}
_LONGEST_SECONDS = 60
"""A process that is still going then hangs: the scenario fails, and no assertion is about time."""


class Ended(NamedTuple):
    """How a process ended: its exit code, and what it answered."""

    code: int
    said: dict[str, JsonValue]

    @property
    def result(self) -> tuple[JsonValue, JsonValue, JsonValue]:
        return self.said.get("status"), self.said.get("stop_reason"), self.said.get("output")


class Stage(Site):
    """A site as the test sees it. Every process that was started is ended by `clear`."""

    def __init__(self, folder: Path, pool: WorkerPool) -> None:
        super().__init__(folder)
        self._pool = pool
        self._started: list[Worker[dict[str, JsonValue]]] = []

    def start(
        self,
        command: str,
        agent: str,
        options: Options = _NO_OPTIONS,
        *,
        fault: str | None = None,
        text: str = "Run the errands.",
    ) -> Worker[dict[str, JsonValue]]:
        """Start a process that runs one command."""
        cut = Fault.parse(fault) if fault else None
        worker = self._pool.start(perform, command, agent, self.folder, dict(options), text, cut)
        self._started.append(worker)
        return worker

    def end(self, worker: Worker[dict[str, JsonValue]]) -> Ended:
        """Wait for a process; a traceback of it fails the test."""
        ended = worker.end()
        assert ended.said == "", ended.said
        return Ended(ended.code, ended.result or {})

    def perform(
        self,
        command: str,
        agent: str,
        options: Options = _NO_OPTIONS,
        *,
        fault: str | None = None,
        text: str = "Run the errands.",
    ) -> Ended:
        """Run one command to its end, however it ends."""
        return self.end(self.start(command, agent, options, fault=fault, text=text))

    def clear(self) -> None:
        for worker in self._started:
            worker.kill()
            worker.end()

    def wait_for(self, gate: str) -> None:
        """Wait until a process has come to the gate."""
        self._until(lambda: self.has_reached(gate), f"nobody has come to {gate}")

    def wait_for_event(self, event: type[AgentEvent]) -> None:
        """Wait until the log holds an event of that type."""
        self._until(lambda: bool(self.of(event)), f"no {event.__name__} was recorded")

    def wait_for_entries(self, what: str, count: int) -> None:
        """Wait until the ledger has so many entries of that kind."""
        self._until(lambda: self.ledger.counts()[what] >= count, f"fewer than {count} came to {what}")

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _LONGEST_SECONDS
        while not condition():
            assert time.monotonic() < deadline, otherwise
            time.sleep(0.01)

    def session(self, ask: Callable[[Session], Awaitable[T]]) -> T:
        """Do something with the session in this process."""

        async def asked() -> T:
            async with Steptrail.open(self.url, durability="normal") as trail:
                return await ask(trail.session(SESSION))

        return asyncio.run(asked())

    def records(self) -> Sequence[Recorded[AgentEvent]]:
        """Return what is in the log; nothing before there is one."""
        is_there = self.url.startswith("postgresql:") or (self.folder / "runs.db").exists()
        return self.session(stored_events) if is_there else ()

    def events(self) -> list[AgentEvent]:
        return [record.event for record in self.records()]

    def of(self, event: type[E]) -> list[E]:
        """Return the events of one type."""
        return [each for each in self.events() if isinstance(each, event)]
