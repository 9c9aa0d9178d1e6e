"""The minimap of a long run of an agent: all its steps as some columns, of which the page shows a window."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.counting import SHORTLY_SECONDS, Counting
from steptrail.interfaces.http.inspector.words import duration
from steptrail.interfaces.python.trail import Steptrail

__all__ = ["MINIMAP_HEIGHT", "MapColumn", "Minimap", "minimap"]

MINIMAP_HEIGHT: Final = 32.0
"""The height of the highest column."""
_COLUMNS: Final = 200
_MOST_ERRORS: Final = 20
_RUN: Final = "execution = (SELECT execution FROM executions WHERE stream = $1 AND ordinal = $2)"


class MapColumn(NamedTuple):
    """Some steps one after the other: where they stand, the last event of them, and their words."""

    x: float
    width: float
    height: float
    until: int
    tone: str
    said: str


class Minimap(NamedTuple):
    """The columns, and the first steps with an error, each with its event."""

    columns: Sequence[MapColumn]
    errors: Sequence[tuple[int, int]]


async def minimap(
    trail: Steptrail, counting: Counting, access: Access, row: RunSummary, ordinal: int | None
) -> Minimap | None:
    """Return the minimap of an execution; None where its steps are not counted."""
    of = (row.stream, ordinal or row.executions)
    each = max(1, -(-row.steps // _COLUMNS))

    async def question(_: object) -> tuple[Sequence[Sequence[Any]], Sequence[Sequence[Any]]]:
        columns = await trail.views.sql(
            "SELECT min(step), max(step), max(coalesce(end_version, version)), sum(active_seconds), sum(errors) "  # noqa: S608
            f"FROM steps WHERE {_RUN} GROUP BY step / {each} ORDER BY 1",
            *of,
            fresh=None,
        )
        errors = await trail.views.sql(
            f"SELECT step, version FROM steps WHERE {_RUN} AND errors > 0 ORDER BY step LIMIT {_MOST_ERRORS}",  # noqa: S608
            *of,
            fresh=None,
        )
        return columns.rows, errors.rows

    found = (await counting.ask(access, question, patience=SHORTLY_SECONDS)).answer
    if found is None or not found[0]:
        return None
    return Minimap(_columns(found[0]), [(int(step), int(version)) for step, version in found[1]])


def _columns(rows: Sequence[Sequence[Any]]) -> Sequence[MapColumn]:
    most = max(float(row[3] or 0) for row in rows) or 1.0
    width = 1000 / len(rows)
    made: list[MapColumn] = []
    for place, (first, last, until, active, errors) in enumerate(rows):
        named = f"step {first}" if first == last else f"steps {first} to {last}"
        failed = f", {errors} error{'s' if errors > 1 else ''}" if errors else ""
        made.append(
            MapColumn(
                x=round(place * width, 1),
                width=round(width * 0.85, 1),
                height=round(max(2.0, float(active or 0) / most * MINIMAP_HEIGHT), 1),
                until=int(until),
                tone="bad" if errors else "busy",
                said=f"{named}: {duration(float(active or 0))}{failed}",
            )
        )
    return made
