"""The rests of a waterfall, which agents and workflows have in the same way."""

from steptrail.domain.shared.run import SegmentEnd
from steptrail.projections.waterfall import Rest, Waterfall, WaterfallRow

__all__ = ["Rests"]


class Rests:
    """Collects the rows of a waterfall, and begins and ends the rests between them."""

    def __init__(self) -> None:
        self.rows: list[WaterfallRow | Rest] = []
        self._rest: Rest | None = None
        self._began: int | None = None
        self._before = self._last = 0

    def saw(self, at: int) -> None:
        """Note the time of the next event."""
        if self._began is None:
            self._began = self._last = at
        self._before, self._last = self._last, max(at, self._last)

    def rest(self, kind: str, at: int, version: int, by: str | None = None) -> None:
        """Begin a rest; one that goes on as another, such as a pause in a wait, ends."""
        self.goes_on(at)
        self._rest = Rest(kind=kind, began=at, version=version, by=by)
        self.rows.append(self._rest)

    def goes_on(self, at: int, by: str | None = None) -> None:
        """End the rest, if there is one."""
        if self._rest is not None:
            self._rest.ended, self._rest.by = at, by or self._rest.by
            self._rest = None

    def resumed(self, at: int, version: int, ended_by: SegmentEnd, worker: str) -> None:
        """Begin a segment: between it and the one before was a rest, also where no event says so."""
        if self._rest is not None:
            if self._rest.kind == "paused":
                self.goes_on(at)
            return
        kinds = {SegmentEnd.CRASH: "crashed", SegmentEnd.TAKE_OVER: "taken over", SegmentEnd.START: "for a worker"}
        if (kind := kinds.get(ended_by)) is not None:
            self.rows.append(Rest(kind=kind, began=self._before, version=version, ended=at, by=worker))

    def drawing(self) -> Waterfall:
        """Return what was drawn so far."""
        return Waterfall(rows=self.rows, began=self._began or 0, last=self._last)
