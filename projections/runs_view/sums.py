"""The tables of sums: what ended, by day. A day that is over does not change any more.

Something is counted on the day of UTC on which it ended. Its streams below are counted as runs of their own, so nothing
is counted twice. Where tenants multiply the rows, the sums of all of them together stand in a table beside.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from steptrail.projections.kernel.table import Column, ColumnKind, Table
from steptrail.projections.runs_view.tables import TOKENS, named


def _text(name: str, says: str) -> Column:
    return Column(name, ColumnKind.TEXT, says)


def _sum(name: str, says: str, unit: str = "") -> Column:
    return Column(name, ColumnKind.INTEGER, says, unit)


def _with_totals(table: Table) -> Table:
    """Return a table of sums beside which one has the sums of all tenants together."""
    totals = Table(
        name=named(table.name.replace(named(""), "all_")),
        says=f"{table.says} Of all tenants together.",
        key=[name for name in table.key if name != "tenant"],
        columns=[column for column in table.columns if column.name != "tenant"],
        is_sums=True,
    )
    return replace(table, totals=totals)


_DAY = Column("day", ColumnKind.INTEGER, "The day of UTC on which it ended.", "days since 1970-01-01")
_TENANT = _text("tenant", "The tenant of the run; empty for none.")
_NAMED = (
    _text("kind", "The kind of the stream: `agent` or `flow`."),
    _text("name", "The name of the agent or of the workflow."),
)
_BY_TENANT = (_TENANT, _DAY, *_NAMED)
"""The first columns of a table in whose key the rows of a tenant lie together, for all days."""
_BY_DAY = (_DAY, _TENANT, *_NAMED)
"""Those of the other tables, which are few enough to be looked through for a tenant, or for all."""
_TOKENS = tuple(_sum(name, f"Tokens of the kind {name.removeprefix('tokens_')}.", "tokens") for name in TOKENS)
_COST = _sum("cost_nanos", "The cost of what has a price.", "10^-9 dollars")

RUNS_DAILY = _with_totals(
    Table(
        name=named("runs_daily"),
        says="Executions that ended, by how they ended.",
        key=("tenant", "day", "kind", "name", "status", "stop_reason", "answered"),
        columns=(
            *_BY_TENANT,
            _text("status", "The status with which it ended: completed, failed or stopped."),
            _text("stop_reason", "Why it stopped."),
            Column("answered", ColumnKind.BOOLEAN, "Whether it ended with an answer of its own."),
            _sum("runs", "How many there were."),
            _sum("steps", "Their steps, or visits of nodes."),
            _sum("tool_calls", "Their calls of tools, or tries of nodes."),
            _sum("errors", "Their failed steps, or visits and items."),
            _sum("retries", "Their tries again."),
            _sum("approvals", "Their questions to people."),
            _sum("active_us", "The time in which they were at work.", "microseconds"),
            _sum("wall_us", "The time from their starts to their ends.", "microseconds"),
            _sum("idle_us", "The time of their rests.", "microseconds"),
            _sum("people_us", "The part of that in which they waited for a person, or were paused.", "microseconds"),
            *_TOKENS,
            _sum("wasted_tokens", "The part of their tokens that failed steps used.", "tokens"),
            _COST,
            _sum("wasted_nanos", "The part of that cost that failed steps used.", "10^-9 dollars"),
            _sum(
                "unpriced_runs", "How many of them have a cost that is not whole: no prices, or usage without a price."
            ),
        ),
        is_sums=True,
    )
)

MODELS_DAILY = Table(
    name=named("models_daily"),
    says="Model calls of agents that ended.",
    key=("day", "tenant", "kind", "name", "model", "status", "error_type"),
    columns=(
        *_BY_DAY,
        _text("model", "The model that was asked for."),
        _text("status", "completed, failed or interrupted."),
        _text("error_type", "The class of its error; empty for none."),
        _sum("calls", "How many there were."),
        _sum("duration_us", "How long they took.", "microseconds"),
        *_TOKENS,
        _COST,
        _sum("unpriced_calls", "How many of them have no cost."),
    ),
    is_sums=True,
)

TOOLS_DAILY = _with_totals(
    Table(
        name=named("tools_daily"),
        says="Tool calls of agents, and visits of the nodes of workflows, that ended for good. "
        "The answers are not counted.",
        key=("tenant", "day", "kind", "name", "tool", "status", "error_type", "error_class"),
        columns=(
            *_BY_TENANT,
            _text("tool", "The tool, or the node."),
            _text("status", "The status with which it ended, as in `tool_calls` or `visits`."),
            _text("error_type", "The class of its error; empty for none."),
            _text("error_class", "The class of its exception; empty for none."),
            _sum("calls", "How many there were."),
            _sum("attempts", "How many tries they had."),
            _sum("duration_us", "How long the newest try of each call took, and all tries of a visit.", "microseconds"),
        ),
        is_sums=True,
    )
)

RETRIES_DAILY = Table(
    name=named("retries_daily"),
    says="Tries of tool calls and of nodes that another try in the same execution, or of a tool call a cancellation, "
    "came after; on the day of that. One that ended because the stream below it rested is not counted: what comes "
    "after it is a look.",
    key=("day", "tenant", "kind", "name", "tool", "error_type"),
    columns=(
        _DAY._replace(says="The day of UTC on which the next try began."),
        *_BY_DAY[1:],
        _text("tool", "The tool, or the node."),
        _text("error_type", "The class of the error of the try; empty for none."),
        _sum("tries", "How many there were."),
        _sum("duration_us", "How long they took.", "microseconds"),
        *_TOKENS,
        _COST,
    ),
    is_sums=True,
)

FAILURES_DAILY = Table(
    name=named("failures_daily"),
    says="Failures by signature.",
    key=("day", "tenant", "kind", "name", "signature"),
    columns=(
        *_BY_DAY,
        _text("signature", "The signature of the error; see `signatures`."),
        _sum("runs", "Executions that failed because of it."),
        _sum("calls", "Model calls, tool calls and visits of nodes that ended with it."),
        _sum("retried", "Tries that failed with it and were made again."),
    ),
    is_sums=True,
)

SPREAD_MEASURES = ("active", "wall", "idle", "people")
"""The times of an execution whose percentiles are told: the columns of `executions` that end with `_us`."""

SPREAD_DAILY = _with_totals(
    Table(
        name=named("spread_daily"),
        says="How the times of executions that ended are spread, for percentiles. A bucket is four per cent wide.",
        key=("tenant", "day", "kind", "name", "bucket"),
        columns=(
            *_BY_TENANT,
            Column("bucket", ColumnKind.INTEGER, "floor(ln(microseconds) / ln(1.04)); -1 for no time at all."),
            # Beside each other and not one below the other: so a question reads a third of the rows.
            *(_sum(f"{time}_runs", f"How many have their `{time}_seconds` in it.") for time in SPREAD_MEASURES),
        ),
        is_sums=True,
    )
)

SUMS = (RUNS_DAILY, MODELS_DAILY, TOOLS_DAILY, RETRIES_DAILY, FAILURES_DAILY, SPREAD_DAILY)
"""The tables of sums that the public face shows."""

OF_ALL_TENANTS: Mapping[Table, Table] = {table: table.totals for table in SUMS if table.totals is not None}
"""A table of sums -> the one without tenants."""
