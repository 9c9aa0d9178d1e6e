"""A run as bars over time: a row a step or visit, a lane a call, a part of it each try, and rests in between.

It is made of any stretch of events. What began before the stretch is left out, and what has not ended has no end.
Instants are microseconds of UTC.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from steptrail.domain.agent.events import ContinuationEvaluated
from steptrail.domain.kernel.record import Recorded

Outcome: TypeAlias = Literal["open", "completed", "failed", "interrupted", "suspended", "refused", "kept"]
"""How a try ended; `refused` is a call that did not run."""

_FOLDED = 0.04
"""The share of the axis that a rest takes at most."""


@dataclass(slots=True, kw_only=True)
class Bar:
    """One try. `version` is the event that began it, and `said` the class of the error it ended with."""

    began: int
    version: int
    attempt: int = 1
    ended: int | None = None
    outcome: Outcome = "open"
    said: str = ""


@dataclass(slots=True, kw_only=True)
class Lane:
    """A call of a model or a tool, or the work of a node, with its tries in order."""

    kind: Literal["model", "tool", "node"]
    name: str
    bars: list[Bar] = field(default_factory=list[Bar])


def end_newest(lane: Lane | None, at: int, outcome: Outcome, said: str = "") -> None:
    """End the newest try of a lane, if it is open. One that was cut off or suspended learns later only how it ended."""
    if lane is None or not lane.bars:
        return
    bar = lane.bars[-1]
    if bar.outcome in {"open", "interrupted", "suspended"}:
        bar.ended = at if bar.ended is None else bar.ended
        bar.outcome, bar.said = outcome, said


@dataclass(slots=True, kw_only=True)
class WaterfallRow:
    """A step of an agent, or a visit of a node. `said` is how it ended, in words; empty for well.

    `decision` is the event that says whether the run goes on after a step.
    """

    name: str
    began: int
    version: int
    lanes: list[Lane] = field(default_factory=list[Lane])
    ended: int | None = None
    outcome: Outcome = "open"
    said: str = ""
    decision: Recorded[ContinuationEvaluated] | None = None

    def close(self, at: int, outcome: Outcome, said: str = "") -> None:
        """End the row, with all in it that is open."""
        self.ended, self.outcome, self.said = at, outcome, said


@dataclass(slots=True, kw_only=True)
class Rest:
    """A stretch in which nothing was done: a wait, a pause, a crash. `by` is who ended or began it."""

    kind: str
    began: int
    version: int
    ended: int | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """The rows and rests of a stretch of events, in the order in which they began."""

    rows: Sequence[WaterfallRow | Rest]
    began: int
    last: int

    def rests(self) -> Iterator[Rest]:
        """Yield the rests."""
        return (row for row in self.rows if isinstance(row, Rest))


class TimeAxis:
    """Places instants between 0 and 1. A rest takes little room, however long it is. What is open goes on to `now`."""

    def __init__(self, drawn: Waterfall, now: int) -> None:
        is_open = any(row.ended is None for row in drawn.rows)
        self.end = max(drawn.last, now) if is_open else drawn.last
        self.began = drawn.began
        rests: list[tuple[int, int]] = []
        for rest in drawn.rests():
            began, ended = rest.began, self.end if rest.ended is None else rest.ended
            if rests and began <= rests[-1][1]:
                rests[-1] = (rests[-1][0], max(ended, rests[-1][1]))
            elif ended > began:
                rests.append((began, ended))
        self._rests = rests
        busy = self.end - self.began - sum(ended - began for began, ended in rests)
        folded = max(busy, 1) * _FOLDED
        # Pairs of an instant and its place, and straight lines between them.
        self._knots: list[tuple[int, float]] = [(self.began, 0.0)]
        for began, ended in rests:
            at, place = self._knots[-1]
            place += began - at
            self._knots += [(began, place), (ended, place + min(folded, ended - began))]
        at, place = self._knots[-1]
        self._knots.append((self.end, place + self.end - at))
        self._length = self._knots[-1][1] or 1.0

    def place(self, at: int) -> float:
        """Return where an instant lies."""
        for (before, low), (after, high) in zip(self._knots, self._knots[1:], strict=False):
            if at <= after:
                share = (at - before) / (after - before) if after > before else 0.0
                return max(0.0, (low + max(0.0, share) * (high - low)) / self._length)
        return 1.0

    def at_work(self, began: int, ended: int | None) -> int:
        """Return how many microseconds between two instants no rest takes; None goes on to the end."""
        end = self.end if ended is None else ended
        rested = sum(max(0, min(until, end) - max(since, began)) for since, until in self._rests)
        return max(0, end - began - rested)

    def span(self, began: int, ended: int | None) -> tuple[float, float]:
        """Return where a bar begins, and how wide it is."""
        start, end = self.place(began), self.place(self.end if ended is None else ended)
        return start, max(0.0, end - start)
