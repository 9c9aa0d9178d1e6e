"""The rests of a waterfall, which agents and workflows have in the same way."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from steptrail.domain.kernel.event import EventKind
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import (
    ExecutionFinished,
    ExecutionPaused,
    PauseLifted,
    SessionScored,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.shared.forks import Forked
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd
from steptrail.projections.waterfall import Rest, Waterfall, WaterfallRow

_FOR_A_WORKER = "for a worker"


class Rests(ABC):
    """Draws the rests of a waterfall, and has `apply` draw the rows between them."""

    def __init__(self) -> None:
        self.rows: list[WaterfallRow | Rest] = []
        self._rest: Rest | None = None
        self._wait: str | None = None
        self._began: int | None = None
        self._alive = self._last = 0

    def drawing(self, records: Iterable[Recorded[Any]]) -> Waterfall:
        """Return the waterfall of these events."""
        for record in records:
            at, version = record.at, record.version
            if isinstance(record.event, SessionScored):
                continue  # it is no time of the run
            if self._began is None:
                self._began = self._alive = at
            self._last = max(at, self._last)
            match record.event:
                case WaitStarted(kind=kind):
                    self._wait = kind
                    self._rests(kind, at, version)
                case WaitEnded(by=by):
                    self._wait = None
                    if not self._is_paused:
                        self._goes_on(at, by)
                case ExecutionPaused(by=by):
                    self._rests("paused", at, version, by)
                case Forked(status=ExecutionStatus.PAUSED, by=by):
                    self._rests("paused", at, version, by)
                    self.apply(record)
                case PauseLifted(by=by) if self._is_paused:
                    self._rests(_FOR_A_WORKER, at, version, by)
                case ExecutionFinished():
                    self._wait = None
                    self._goes_on(at)
                    self.apply(record)
                case _:
                    self.apply(record)
            if record.event.counts_as is not EventKind.OUTSIDE:
                self._alive = at
        return Waterfall(rows=self.rows, began=self._began or 0, last=self._last)

    @property
    def _is_paused(self) -> bool:
        """Whether a pause lasts, or nobody has gone on with the run since it was lifted."""
        return self._rest is not None and self._rest.kind in {"paused", _FOR_A_WORKER}

    @abstractmethod
    def apply(self, record: Recorded[Any]) -> None:
        """Take in the next event that is not about a rest, or that ends the execution."""

    def _rests(self, kind: str, at: int, version: int, by: str | None = None) -> None:
        """Begin a rest; one that goes on as another, such as a pause in a wait, ends."""
        self._goes_on(at)
        self._rest = Rest(kind=kind, began=at, version=version, by=by)
        self.rows.append(self._rest)

    def _goes_on(self, at: int, by: str | None = None) -> None:
        """End the rest, if there is one."""
        if self._rest is not None:
            self._rest.ended, self._rest.by = at, by or self._rest.by
            self._rest = None

    def resumed(self, at: int, version: int, ended_by: SegmentEnd, worker: str, *, waits_on: bool) -> None:
        """Begin a segment: between it and the one before was a rest, also where no event says so.

        `waits_on` says whether a run that was paused in a wait goes on with that wait.
        """
        if self._rest is None:
            # A pause that is not known here began before the stretch.
            kinds = {SegmentEnd.CRASH: "crashed", SegmentEnd.TAKE_OVER: "taken over", SegmentEnd.PAUSE: "paused"}
            kind = kinds.get(ended_by, _FOR_A_WORKER)
            self.rows.append(Rest(kind=kind, began=self._alive, version=version, ended=at, by=worker))
        elif self._is_paused:
            self._goes_on(at)
            if waits_on and self._wait is not None:
                self._rests(self._wait, at, version)
