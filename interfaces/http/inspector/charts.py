"""Charts by day, as pages draw them: columns in thousandths of the width. The same numbers stand in a table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, NamedTuple

HEIGHT: Final = 96.0
"""The height of the highest column."""
_MOST_DAYS: Final = 120


class DaySeries(NamedTuple):
    """Numbers by day with a name, and the class of the style sheet."""

    name: str
    tone: str
    by_day: Mapping[str, float]


class DayColumn(NamedTuple):
    """A column, or a part of one: its place, its class, and its words."""

    day: str
    x: float
    y: float
    width: float
    height: float
    tone: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DayChart:
    """A chart: `most` says in words how high the highest column is."""

    title: str
    most: str
    first: str
    last: str
    columns: Sequence[DayColumn]
    legend: Sequence[DaySeries]


def days_between(found: Sequence[str], today: date) -> Sequence[str]:
    """Return every day from the first one that is given to the last, at most some months, and not far beyond today.

    Tomorrow is told where the clock of another machine is there already; one that is months ahead is wrong.
    """
    last = min(max([today, *map(date.fromisoformat, found)]), today + timedelta(days=1))
    first = max(min([last, *map(date.fromisoformat, found)]), last - timedelta(days=_MOST_DAYS - 1))
    return [(first + timedelta(days=each)).isoformat() for each in range((last - first).days + 1)]


def chart(
    title: str, days: Sequence[str], series: Sequence[DaySeries], said: Callable[[float], str], *, stacked: bool = True
) -> DayChart:
    """Return a chart of some days. DaySeries are stacked, or each is drawn before the one before it."""
    used = [each for each in series if any(each.by_day.get(day) for day in days)]
    join = sum if stacked else max
    most = max((join([each.by_day.get(day, 0) for each in used] or [0]) for day in days), default=0)
    step = 1000 / max(1, len(days))
    columns: list[DayColumn] = []
    for place, day in enumerate(days):
        top = HEIGHT
        for each in used:
            value = each.by_day.get(day, 0)
            if not value or not most:
                continue
            height = max(1.5, value / most * HEIGHT)
            top = top - height if stacked else HEIGHT - height
            words = f"{day}, {each.name}: {said(value)}"
            columns.append(
                DayColumn(
                    day,
                    round(place * step + step * 0.1, 1),
                    round(max(0.0, top), 1),
                    round(step * 0.8, 1),
                    round(height, 1),
                    each.tone,
                    words,
                )
            )
    return DayChart(title=title, most=said(most), first=days[0], last=days[-1], columns=columns, legend=used)
