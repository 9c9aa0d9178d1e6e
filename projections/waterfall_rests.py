"""The rests of a waterfall, which agents and workflows have in the same way."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import ExecutionFinished, ExecutionPaused, WaitEnded, WaitStarted
from steptrail.domain.shared.run import SegmentEnd
from steptrail.projections.waterfall import Rest, Waterfall, WaterfallRow


class Rests(ABC):
    """Draws the rests of a waterfall, and has `apply` draw the rows between them."""

    def __init__(self) -> None:
        self.rows: list[WaterfallRow | Rest] = []
        self._rest: Rest | None = None
        self._began: int | None = None
        self._before = self._last = 0

    def drawing(self, records: Iterable[Recorded[Any]]) -> Waterfall:
        """Return the waterfall of these events."""
        for record in records:
            at, version = record.at, record.version
            if self._began is None:
                self._began = self._last = at
            self._before, self._last = self._last, max(at, self._last)
            match record.event:
                case WaitStarted(kind=kind):
                    self._rests(kind, at, version)
                case WaitEnded(by=by):
                    self._goes_on(at, by)
                case ExecutionPaused(by=by):
                    self._rests("paused", at, version, by)
                case ExecutionFinished():
                    self._goes_on(at)
                    self.apply(record)
                case _:
                    self.apply(record)
        return Waterfall(rows=self.rows, began=self._began or 0, last=self._last)

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

    def resumed(self, at: int, version: int, ended_by: SegmentEnd, worker: str) -> None:
        """Begin a segment: between it and the one before was a rest, also where no event says so."""
        if self._rest is not None:
            if self._rest.kind == "paused":
                self._goes_on(at)
            return
        kinds = {SegmentEnd.CRASH: "crashed", SegmentEnd.TAKE_OVER: "taken over", SegmentEnd.START: "for a worker"}
        if (kind := kinds.get(ended_by)) is not None:
            self.rows.append(Rest(kind=kind, began=self._before, version=version, ended=at, by=worker))
