"""A page of a list of runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from steptrail.domain.instants import Datetime, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.projections.asking.cursor import Cursor
from steptrail.projections.asking.filters import RunOrder
from steptrail.projections.runs_view.tables import TOKENS

ORDERED_BY = {
    RunOrder.NEWEST: "execution",
    RunOrder.OLDEST: "execution",
    RunOrder.DEAREST: "cost_nanos",
    RunOrder.SLOWEST: "active_us",
    RunOrder.MOST_RETRIES: "retries",
}
"""The column that a list is in the order of; of equals, the newest execution comes first."""


class AnswerPart(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an answer."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON, in camel case, instants in ISO 8601."""
        made: dict[str, JsonValue] = to_builtins(self)
        return made


class RunRow(AnswerPart, frozen=True, kw_only=True):
    """One run, as of its event `version`. Its columns are those of the view `executions`.

    `stream` is the id with its prefix, `cost_usd` None where there are no prices, and a lower bound when the run
    `is_unpriced`. `is_crashed` tells that it is in progress and no process runs it.
    """

    execution: int
    stream: str
    ordinal: int
    kind: str
    name: str
    model: str | None
    tenant: str
    parent: str | None
    root: str | None
    status: str
    stop_reason: str | None
    resolved_by: str | None
    answered: bool
    waits_for: str | None
    error_type: str | None
    error_class: str | None
    signature: str | None
    segments: int
    steps: int
    tool_calls: int
    errors: int
    retries: int
    approvals: int
    started_at: Datetime
    ended_at: Datetime | None
    active_seconds: float
    wall_seconds: float
    idle_seconds: float
    people_seconds: float
    tokens: Mapping[str, int]
    cost_usd: float | None
    is_unpriced: bool
    first_version: int
    version: int
    is_crashed: bool = False


_STORED_AS: Mapping[str, Sequence[str]] = {
    "active_seconds": ("active_us",),
    "wall_seconds": ("wall_us",),
    "idle_seconds": ("idle_us",),
    "people_seconds": ("people_us",),
    "tokens": TOKENS,
    "cost_usd": ("cost_nanos",),
    "is_crashed": (),
}
"""The columns that a field of a row is made of, where that is not the one of its name."""

RUN_COLUMNS = tuple(column for name in RunRow.__struct_fields__ for column in _STORED_AS.get(name, (name,)))
"""The columns that a row of a list is made of, in their order."""


class RunCount(AnswerPart, frozen=True, kw_only=True):
    """How many runs a list has: exactly `runs`, or more than that. As text, such as `212` or `10,000+`."""

    runs: int
    is_more: bool

    def __str__(self) -> str:
        return f"{self.runs:,}{'+' if self.is_more else ''}"


def in_units(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns in the units that people read, under the names that these have in answers and in views.

    Microseconds become seconds, 10^-9 dollars become dollars, and the five kinds of tokens are `tokens` together.
    """
    told: dict[str, Any] = {"tokens": {name.removeprefix("tokens_"): columns[name] for name in TOKENS}}
    for name, value in columns.items():
        if name.endswith("_us"):
            told[f"{name.removesuffix('_us')}_seconds"] = value / 1e6
        elif name.endswith("_nanos"):
            told[f"{name.removesuffix('_nanos')}_usd"] = None if value is None else value / 10**9
        elif name not in TOKENS:
            told[name] = value
    return told


def run_row(found: Sequence[Any]) -> RunRow:
    """Return the run of a row of `RUN_COLUMNS`."""
    row = in_units(dict(zip(RUN_COLUMNS, found, strict=True)))
    for name in ("answered", "is_unpriced"):
        row[name] = bool(row[name])
    for name in ("started_at", "ended_at"):
        row[name] = None if row[name] is None else to_datetime(row[name])
    return RunRow(**row)


def page_of_runs(found: Sequence[Sequence[Any]], order: RunOrder, limit: int) -> tuple[Sequence[RunRow], str | None]:
    """Return the rows of a page, and the place that the next one comes after; None when there is no more.

    `found` has one row more than the page if there is more.
    """
    rows = found[:limit]
    if len(found) <= limit or not rows:
        return [run_row(row) for row in rows], None
    last: dict[str, Any] = dict(zip(RUN_COLUMNS, rows[-1], strict=True))
    cursor = Cursor(order, last[ORDERED_BY[order]], last["execution"])
    return [run_row(row) for row in rows], cursor.to_text()
