"""The minimap of a long run: all its steps, or visits of nodes, as some columns, of which the page shows a window."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.counting import SHORTLY_SECONDS, Counting
from steptrail.interfaces.http.inspector.words import duration
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.rendering import many

MINIMAP_HEIGHT: Final = 32.0
"""The height of the highest column."""
_COLUMNS: Final = 200
_MOST_ERRORS: Final = 20
_RUN: Final = "execution = (SELECT execution FROM executions WHERE stream = $1 AND ordinal = $2)"


class _Source(NamedTuple):
    """The view with a row a step or a visit: its name, its column of numbers, and what is a failure in it."""

    view: str
    number: str
    failed: str
    word: str
    name: str


_STEPS: Final = _Source("steps", "step", "errors", "step", "NULL")
_VISITS: Final = _Source(
    "visits", "number", "CASE WHEN status IN ('failed', 'recorded') THEN 1 ELSE 0 END", "visit", "node"
)


class MapColumn(NamedTuple):
    """Some steps or visits one after the other: where they stand, the last event of them, and their words."""

    x: float
    width: float
    height: float
    until: int
    tone: str
    said: str


class Minimap(NamedTuple):
    """The columns, and the first errors, each in words and with its event."""

    columns: Sequence[MapColumn]
    errors: Sequence[tuple[str, int]]


async def minimap(
    trail: Steptrail, counting: Counting, access: Access, row: RunSummary, ordinal: int | None
) -> Minimap | None:
    """Return the minimap of an execution; None where it is not counted."""
    of, source = (row.stream, ordinal or row.executions), _VISITS if row.kind == "flow" else _STEPS
    view, number, failed, _, name = source

    async def question(_: object) -> tuple[Sequence[Sequence[Any]], Sequence[Sequence[Any]]]:
        async def rows(text: str) -> Sequence[Sequence[Any]]:
            return (await trail.views.sql(text, *of, fresh=None)).rows

        # Not the index: of a run that goes on, it knows only how many there were when the run was at rest.
        ((most,),) = await rows(f"SELECT max({number}) FROM {view} WHERE {_RUN}")  # noqa: S608
        each = max(1, -(-int(most or 0) // _COLUMNS))
        columns = await rows(
            f"SELECT min({number}), max({number}), max(coalesce(end_version, version)), sum(active_seconds), "  # noqa: S608
            f"sum({failed}), min({name}) FROM {view} WHERE {_RUN} GROUP BY {number} / {each} ORDER BY 1"
        )
        errors = await rows(
            f"SELECT {number}, version, {name} FROM {view} WHERE {_RUN} AND {failed} > 0 "  # noqa: S608
            f"ORDER BY {number} LIMIT {_MOST_ERRORS}"
        )
        return columns, errors

    found = (await counting.ask(access, question, patience=SHORTLY_SECONDS)).answer
    if found is None or not found[0]:
        return None
    errors = [(name or f"{source.word} {number}", int(version)) for number, version, name in found[1]]
    return Minimap(_columns(found[0], source.word), errors)


def _columns(rows: Sequence[Sequence[Any]], word: str) -> Sequence[MapColumn]:
    most = max(float(row[3] or 0) for row in rows) or 1.0
    width = 1000 / len(rows)
    made: list[MapColumn] = []
    for place, (first, last, until, active, errors, name) in enumerate(rows):
        named = name or f"{word} {first}" if first == last else f"{word}s {first} to {last}"
        failed = f", {many(errors, 'error')}" if errors else ""
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
