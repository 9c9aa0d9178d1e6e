"""How soon workers went on with what was due, read from the logs of the sessions."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from steptrail.domain.agent.events import ExecutionResumed, WaitStarted
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import SegmentEnd


class Delays(NamedTuple):
    """Seconds from due to running, and from the last event of a worker that died to the first of the next one.

    A session is due when it is started, when what it waits for has come, and when the time of its wait is over.
    """

    due: tuple[float, ...] = ()
    crashed: tuple[float, ...] = ()

    def __add__(self, other: object) -> "Delays":
        """Return the delays of both."""
        if not isinstance(other, Delays):
            return NotImplemented
        return Delays(self.due + other.due, self.crashed + other.crashed)

    def __repr__(self) -> str:
        """Return them in words: the median, and what a hundredth of them took longer than."""
        return "; ".join(
            f"{word}: p50 {quantile(each, 0.5):.2f} s, p99 {quantile(each, 0.99):.2f} s of {len(each)}"
            for word, each in (("due to running", self.due), ("dead to running", self.crashed))
            if each
        )


def delays_in(records: Sequence[Recorded[Any]]) -> Delays:
    """Return the delays of one session."""
    due, crashed = list[float](), list[float]()
    for before, record in pairwise(records):
        if not isinstance(record.event, ExecutionResumed):
            continue
        if record.event.ended_by is SegmentEnd.CRASH:
            crashed.append((record.at - before.at) / 1e6)
        elif (since := _due_at(before)) is not None:
            due.append(max(0, record.at - since) / 1e6)
    return Delays(tuple(due), tuple(crashed))


def _due_at(before: Recorded[Any]) -> int | None:
    """Return when the session was due that went on next, in microseconds of UTC; None where this event does not say."""
    return before.event.until if isinstance(before.event, WaitStarted) else before.at


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which that part of them lies; 0.0 of none."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0.0
