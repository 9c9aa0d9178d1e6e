"""The waterfall of a run as its page draws it: places in thousandths of the width, and the same in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.http.inspector.words import duration
from steptrail.projections.kinds import PROJECTIONS
from steptrail.projections.waterfall import Bar, Lane, Rest, TimeAxis, WaterfallRow

LANE = 14
"""The height of a lane."""
_LEAST = 3.0
"""The width of a bar at least, so that it can be seen."""
_MOST_LANES = 40
_MOST_SAID = 6
"""So many lanes of a row are said in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBar:
    """A bar: its place, its height from the top, the class of the style sheet, and its words."""

    x: float
    width: float
    y: int
    tone: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRow:
    """A row: a step, a visit, or a rest. `said` are its words; `more` counts lanes that are not drawn.

    `active` is the time in seconds without the rests in it, and `has_error` tells that it, or a try in it, failed.
    """

    row: WaterfallRow | Rest
    is_rest: bool
    name: str
    said: str
    took: str
    height: int
    bars: Sequence[DrawnBar]
    active: float = 0.0
    has_error: bool = False
    more: int = 0


def drawn_rows(stream: str, records: Sequence[Recorded[Event]], now: int | None) -> Sequence[DrawnRow]:
    """Return the rows of a stretch of events. What has no end in it is open, up to `now`.

    Without `now` the run goes on behind the stretch, and so does what has no end in it.
    """
    projections = PROJECTIONS.of(stream)
    if projections is None or projections.waterfall is None or not records:
        return ()
    drawn = projections.waterfall(records)
    axis, unended = TimeAxis(drawn, now or 0), "goes on" if now is None else "open"
    return [_rest(row, axis, unended) if isinstance(row, Rest) else _row(row, axis, unended) for row in drawn.rows]


def _rest(rest: Rest, axis: TimeAxis, unended: str) -> DrawnRow:
    said = rest.kind.replace("_", " ") + (f", {rest.by}" if rest.by else "")
    return DrawnRow(
        row=rest,
        is_rest=True,
        name="crashed" if rest.kind == "crashed" else "rest",
        said=said if rest.ended is not None else f"{said}, {unended}",
        took=_took(rest.began, rest.ended, axis, unended),
        height=LANE,
        bars=[_bar(axis, rest.began, rest.ended, 0, "rest", said)],
    )


def _row(row: WaterfallRow, axis: TimeAxis, unended: str) -> DrawnRow:
    lanes = row.lanes[:_MOST_LANES]
    unsaid = [f"{len(row.lanes) - _MOST_SAID} more"] if len(row.lanes) > _MOST_SAID else []
    alone = [] if lanes else [_bar(axis, row.began, row.ended, 0, row.outcome, row.name)]
    bars = alone + [_of_lane(lane, bar, axis, number * LANE) for number, lane in enumerate(lanes) for bar in lane.bars]
    return DrawnRow(
        row=row,
        is_rest=False,
        name=row.name,
        said="; ".join([*map(_words, lanes[:_MOST_SAID]), *unsaid, *([row.said] if row.said else [])]),
        took=_took(row.began, row.ended, axis, unended),
        height=LANE * max(1, len(lanes)),
        bars=bars,
        active=axis.at_work(row.began, row.ended) / 1e6,
        has_error="failed" in {row.outcome, *(bar.outcome for lane in row.lanes for bar in lane.bars)},
        more=len(row.lanes) - len(lanes),
    )


def _of_lane(lane: Lane, bar: Bar, axis: TimeAxis, y: int) -> DrawnBar:
    tone = lane.kind if bar.outcome == "completed" else bar.outcome
    again = f", try {bar.attempt}" if bar.attempt > 1 else ""
    said = f", {bar.said}" if bar.said else ""
    return _bar(axis, bar.began, bar.ended, y, tone, f"{lane.name}{again}: {bar.outcome}{said}")


def _bar(axis: TimeAxis, began: int, ended: int | None, y: int, tone: str, said: str) -> DrawnBar:
    start, width = axis.span(began, ended)
    wide = max(_LEAST, width * 1000)
    return DrawnBar(x=round(min(start * 1000, 1000 - wide), 1), width=round(wide, 1), y=y, tone=tone, said=said)


def _words(lane: Lane) -> str:
    """Return a lane in words: `refund 3 times (rate_limit, timeout, completed)`."""
    if len(lane.bars) == 1:
        (bar,) = lane.bars
        took = f" {duration((bar.ended - bar.began) / 1e6)}" if bar.ended is not None else ""
        how = "" if bar.outcome == "completed" else f" {_how(bar)}"
        return f"{lane.name}{took}{how}"
    ends = ", ".join(map(_how, lane.bars[:8]))
    return f"{lane.name} {len(lane.bars)} times ({ends})"


def _how(bar: Bar) -> str:
    return bar.outcome + (f" ({bar.said})" if bar.said else "")


def _took(began: int, ended: int | None, axis: TimeAxis, unended: str) -> str:
    took = duration(((axis.end if ended is None else ended) - began) / 1e6)
    return took if ended is not None else f"{took}, {unended}"
