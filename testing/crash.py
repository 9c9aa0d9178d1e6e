"""Kill a real process at a named point of the runner, and count from outside what it did.

A child process opens its store with `trail_with_fault`; the fault goes to it as text on its command line. Tools append
their effects to a `Ledger`, a file that is independent of the event log, so that the two can be compared.
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from steptrail.domain.agent import events as stored
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.record import Recorded
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import FAULT_POINTS, Reach


@dataclass(frozen=True, slots=True)
class Fault:
    """The `ordinal`-th time, from 1, that a process reaches a fault point. Its text form is `before-tool:2`."""

    point: str
    ordinal: int

    def __post_init__(self) -> None:
        if self.point not in FAULT_POINTS:
            raise ConfigurationError(f"{self.point!r} is no fault point: they are {', '.join(FAULT_POINTS)}")
        if self.ordinal < 1:
            raise ConfigurationError(f"a fault happens the first time or later, not the {self.ordinal}th")

    def __str__(self) -> str:
        return f"{self.point}:{self.ordinal}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form back. Raises `ConfigurationError` for what is none."""
        point, _, ordinal = text.partition(":")
        if not ordinal.isdecimal():
            raise ConfigurationError(f"{text!r} is no fault: write a point and an ordinal, such as before-tool:1")
        return cls(point, int(ordinal))


class PointCounter:
    """A `Reach` that counts: how often an undisturbed run comes by each point, and so where it can be killed."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()

    def __call__(self, point: str) -> None:
        self.reached[point] += 1


def kill_at(fault: Fault | None) -> Reach:
    """Return a `Reach` that kills its own process with SIGKILL at `fault`; without one it only counts."""
    counter = PointCounter()

    def reach(point: str) -> None:
        counter(point)
        if fault is not None and point == fault.point and counter.reached[point] == fault.ordinal:
            os.kill(os.getpid(), signal.SIGKILL)

    return reach


def trail_with_fault(url: str, fault: Fault | None) -> Steptrail:
    """Open the store at `url` in a process that is killed at `fault`; without one it goes on to its end.

    Raises what `Steptrail.open` raises for an address.
    """
    return Steptrail(Environment(store=open_store(url), reach=kill_at(fault)))


class LedgerEntry(NamedTuple):
    """One line of a ledger: what happened, in which effect, and in which process."""

    what: str
    effect: str
    pid: int


class Ledger:
    """A file that several processes append lines to. A line that `write` has returned for survives a SIGKILL."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, what: str, effect: str = "") -> None:
        """Append one entry and bring it to the disk."""
        line = json.dumps(LedgerEntry(what, effect, os.getpid())) + "\n"
        # One write of a file opened for appending is never mixed with another process's.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def entries(self) -> list[LedgerEntry]:
        """Return every entry, oldest first; a ledger that nobody wrote to is empty."""
        if not self.path.exists():
            return []
        return [LedgerEntry(*json.loads(line)) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def counts(self) -> Counter[str]:
        """Return how often each thing happened."""
        return Counter(entry.what for entry in self.entries())


def finished_effects(records: Sequence[Recorded[stored.AgentEvent]]) -> Counter[str]:
    """Return the effect ids of the executions whose end the log knows, with how often each was started before it.

    An effect that was started again after its end counts as `<effect id> again`, so that it can never go unnoticed.
    """
    running: dict[int, str] = {}
    started: Counter[str] = Counter()
    finished: Counter[str] = Counter()
    for record in records:
        match record.event:
            case stored.ToolExecutionStarted(position=position, effect_id=effect):
                running[position] = effect
                started[effect] += 1
                if effect in finished:
                    finished[f"{effect} again"] += 1
            case stored.ToolExecutionCompleted(position=position) | stored.ToolExecutionFailed(position=position):
                if position in running:
                    effect = running.pop(position)
                    finished[effect] = started[effect]
            case stored.ToolExecutionSettledLate(effect_id=effect):
                finished[effect] = started[effect]
            case _:
                continue
    return finished


def repeated(
    entries: Iterable[LedgerEntry], records: Sequence[Recorded[stored.AgentEvent]], *, done: str = "done"
) -> list[str]:
    """Return the effects that ran again although the log knew their end: none, unless exactly-once is broken.

    `entries` are those that tools wrote as `done` when they had taken effect. A tool whose process was killed between
    its effect and the commit of its end may have run once more; the log shows that as a second start.
    """
    taken = Counter(entry.effect for entry in entries if entry.what == done)
    finished = finished_effects(records)
    again = [effect for effect in finished if effect.endswith(" again")]
    return sorted([*again, *(effect for effect, starts in finished.items() if taken[effect] > starts)])
