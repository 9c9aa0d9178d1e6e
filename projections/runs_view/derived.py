"""Public views that are made of several tables of runs, or of a part of one."""

from collections.abc import Sequence

from steptrail.projections.kernel.face import PublicColumn, PublicKind, PublicView, view_of
from steptrail.projections.kernel.table import Table
from steptrail.projections.runs_view import tables
from steptrail.projections.runs_view.spread import WIDTH
from steptrail.projections.runs_view.sums import OF_ALL_TENANTS, RUNS_DAILY, SPREAD_DAILY, SPREAD_MEASURES

_SINCE = "0.1"
_BITS = [2**place for place in range(10)]
"""Bucket 1,023 would be of runs of eight thousand years."""


def _picked(table: Table, names: Sequence[str], alias: str) -> tuple[PublicColumn, ...]:
    """Return columns of the view of a table, read under an alias."""
    shown = {column.name: column for column in view_of(table, _SINCE).columns}
    return tuple(shown[name]._replace(sql=f"{alias}.{shown[name].sql}") for name in names)


def _column(name: str, sql: str, kind: PublicKind, says: str, unit: str = "") -> PublicColumn:
    return PublicColumn(name, sql, kind, says, _SINCE, unit)


def _instant(name: str, sql: str, says: str) -> tuple[PublicColumn, ...]:
    as_number = f"{name.removesuffix('_at')}_us"
    return (
        _column(name, sql, PublicKind.INSTANT, says),
        _column(as_number, sql, PublicKind.INTEGER, says, "microseconds of UTC"),
    )


def _sum(name: str, column: str, says: str, kind: PublicKind = PublicKind.INTEGER, unit: str = "") -> PublicColumn:
    # PostgreSQL makes a numeric of the sum of many bigints.
    return _column(name, f"CAST(sum({column}) AS bigint)", kind, says, unit)


_DAYS = _picked(RUNS_DAILY, ("day", "day_us"), "of_day")


def _of_stream(expression: str) -> str:
    return f"(SELECT {expression} FROM {tables.EXECUTIONS.name} AS one WHERE one.stream = e.stream)"  # noqa: S608 - ours


SESSIONS = PublicView(
    "sessions",
    "Sessions of agents and runs of workflows, as the newest execution of each stands, with the sums over all of them.",
    f"{tables.EXECUTIONS.name} AS e WHERE NOT EXISTS "  # noqa: S608 - names of ours
    f"(SELECT 1 FROM {tables.EXECUTIONS.name} AS later WHERE later.stream = e.stream AND later.ordinal > e.ordinal)",
    (
        *_picked(tables.EXECUTIONS, ("stream", "kind", "name", "tenant", "parent", "root", "execution"), "e"),
        _column("executions", "e.ordinal", PublicKind.INTEGER, "How many executions it has had"),
        *_picked(tables.EXECUTIONS, ("status", "stop_reason", "resolved_by", "answered", "waits_for"), "e"),
        *_picked(tables.EXECUTIONS, ("error_type", "error_class", "signature"), "e"),
        *_instant("began_at", _of_stream("min(one.started_at)"), "When its first execution began"),
        *_picked(tables.EXECUTIONS, ("started_at", "started_us", "ended_at", "ended_us"), "e"),
        _column("steps", _of_stream("CAST(sum(one.steps) AS bigint)"), PublicKind.INTEGER, "Steps of all executions"),
        _column(
            "active_seconds",
            _of_stream("CAST(sum(one.active_us) AS bigint)"),
            PublicKind.SECONDS,
            "The time in which all executions were at work",
        ),
        _column(
            "cost_usd",
            _of_stream("CAST(sum(one.cost_nanos) AS bigint)"),
            PublicKind.DOLLARS,
            "The cost of the executions that have prices; None when none has",
        ),
        *_picked(tables.EXECUTIONS, ("version",), "e"),
    ),
)

WAITS = PublicView(
    "waits",
    "What executions wait for now: a person, a retry, a child, or the end of a pause. That a process has died is seen "
    "when another one goes on, and so not here.",
    f"{tables.RESTS.name} AS r JOIN {tables.EXECUTIONS.name} AS e ON e.execution = r.execution "
    "WHERE r.ended_at IS NULL",
    (
        *_picked(tables.EXECUTIONS, ("stream", "name", "tenant"), "e"),
        *_picked(tables.RESTS, ("execution", "version", "kind", "is_for_people"), "r"),
        *_instant("since_at", "r.started_at", "Since when"),
        _column("until", "r.until", PublicKind.INSTANT, "When it ends by itself; None when it does not"),
        _column("until_us", "r.until", PublicKind.INTEGER, "The same", "microseconds of UTC"),
        *_picked(tables.RESTS, ("by",), "r"),
    ),
)

_SHARED = [column.name for column in tables.ATTEMPTS.columns]
_NEWEST = ["attempts" if name == "attempt" else name for name in _SHARED]
UNITED_ATTEMPTS = PublicView(
    "attempts",
    "All tries of tool calls, also the last one of each, which is the row of the call too.",
    f"(SELECT {', '.join(_SHARED)} FROM {tables.ATTEMPTS.name} "  # noqa: S608 - names of ours
    f"UNION ALL SELECT {', '.join(_NEWEST)} FROM {tables.TOOL_CALLS.name} WHERE attempts > 0) AS united",
    tuple(
        each._replace(says="failed, interrupted or suspended; of the newest try, the status of the call")
        if each.name == "status"
        else each
        for each in view_of(tables.ATTEMPTS, _SINCE).columns
    ),
)


def _failed(what: str, table: Table, name: str, at: str, join: str = "") -> str:
    alias = "f"
    owner = "f" if table is tables.EXECUTIONS else "e"
    return (
        f"SELECT '{what}' AS what, {owner}.execution AS execution, {owner}.stream AS stream, {owner}.name AS agent, "  # noqa: S608
        f"{owner}.tenant AS tenant, {name} AS name, {alias}.status AS status, {alias}.signature AS signature, "
        f"{at} AS at, {alias}.version AS version FROM {table.name} AS {alias}{join} WHERE {alias}.signature IS NOT NULL"
    )


_OWNED = f" JOIN {tables.EXECUTIONS.name} AS e ON e.execution = f.execution"
FAILURES = PublicView(
    "failures",
    "Errors: of the executions that failed because of one, of model calls, of tool calls with the tries before the "
    "newest, and of tries of nodes.",
    "("
    + " UNION ALL ".join(
        (
            _failed("run", tables.EXECUTIONS, "f.name", "f.ended_at"),
            _failed("model", tables.INFERENCES, "f.model", "f.started_at", _OWNED),
            _failed("tool", tables.TOOL_CALLS, "f.tool", "f.started_at", _OWNED),
            _failed("tool", tables.ATTEMPTS, "f.tool", "f.started_at", _OWNED),
            _failed("node", tables.TRIES, "f.node", "f.started_at", _OWNED),
        )
    )
    + f") AS one LEFT JOIN {tables.SIGNATURES.name} AS s ON s.signature = one.signature",
    (
        _column("what", "one.what", PublicKind.TEXT, "run, model, tool or node"),
        _column("execution", "one.execution", PublicKind.INTEGER, "The execution in which it happened"),
        _column("stream", "one.stream", PublicKind.TEXT, "The stream of that execution"),
        _column("agent", "one.agent", PublicKind.TEXT, "The name of the agent or of the workflow"),
        _column("tenant", "one.tenant", PublicKind.TEXT, "The tenant; empty for none"),
        _column("name", "one.name", PublicKind.TEXT, "The agent, the model, the tool or the node that failed"),
        _column("status", "one.status", PublicKind.TEXT, "The status with which it ended"),
        *_picked(tables.SIGNATURES, ("error_type", "error_class", "template"), "s"),
        _column("signature", "one.signature", PublicKind.TEXT, "Equal for failures that are alike"),
        *_instant("failed_at", "one.at", "When the run ended, or the try was started; None when none was"),
        _column("version", "one.version", PublicKind.INTEGER, "The version in the stream, as in the row that it is of"),
    ),
)

_OWNER = _picked(RUNS_DAILY, ("tenant", "kind", "name"), "of_day")
STOP_REASONS_DAILY = PublicView(
    "stop_reasons_daily",
    "Executions that ended, by why they stopped.",
    f"{RUNS_DAILY.name} AS of_day GROUP BY day, tenant, kind, name, stop_reason",
    (
        *_DAYS,
        *_OWNER,
        *_picked(RUNS_DAILY, ("stop_reason",), "of_day"),
        _sum("runs", "runs", "How many there were"),
    ),
)

COSTS_DAILY = PublicView(
    "costs_daily",
    "What the executions used and cost that ended.",
    f"{RUNS_DAILY.name} AS of_day GROUP BY day, tenant, kind, name",
    (
        *_DAYS,
        *_OWNER,
        _sum("runs", "runs", "How many there were"),
        *(
            _sum(name, name, f"Tokens of the kind {name.removeprefix('tokens_')}", unit="tokens")
            for name in tables.TOKENS
        ),
        _sum("wasted_tokens", "wasted_tokens", "The part of the tokens that failed steps used", unit="tokens"),
        _sum("cost_usd", "cost_nanos", "The cost of what has a price", PublicKind.DOLLARS),
        _sum("wasted_usd", "wasted_nanos", "The part of that cost that failed steps used", PublicKind.DOLLARS),
        _sum("unpriced_runs", "unpriced_runs", "How many of the executions have a cost that is not whole"),
    ),
)


def _middle(bucket: str) -> str:
    """Return SQL for the microseconds that stand for a bucket: 1.04 to the power of a half more.

    It is a product of powers by the bits of the bucket, because not every build of SQLite has `exp`.
    """
    factors = [f"CASE WHEN ({bucket} & {bit}) = 0 THEN 1 ELSE {_power(bit)} END" for bit in _BITS]
    return f"CASE WHEN {bucket} < 0 THEN 0 ELSE {_power(0.5)} * {' * '.join(factors)} END"


def _power(exponent: float) -> str:
    return f"CAST({WIDTH**exponent!r} AS double precision)"


_SPREAD = view_of(SPREAD_DAILY, _SINCE)
SPREAD_WITH_TIMES = _SPREAD._replace(
    columns=(
        *_SPREAD.columns,
        _column(
            "middle_seconds",
            _middle("bucket"),
            PublicKind.SECONDS,
            "The time that stands for the bucket, at most two per cent off",
        ),
    )
)


def _percentile(percent: int) -> PublicColumn:
    reached = f"min(CASE WHEN upto * 100 >= total * {percent} THEN bucket END)"
    return _column(
        f"p{percent}_seconds", _middle(reached), PublicKind.SECONDS, f"What {percent} per cent of them did not exceed"
    )


_COUNTED = " UNION ALL ".join(
    f"SELECT '{measure}' AS measure, day, kind, name, bucket, {measure}_runs AS runs "  # noqa: S608 - names of ours
    f"FROM {OF_ALL_TENANTS[SPREAD_DAILY].name} WHERE {measure}_runs > 0"
    for measure in SPREAD_MEASURES
)
_WINDOW = "OVER (PARTITION BY measure, day, kind, name"
PERCENTILES_DAILY = PublicView(
    "percentiles_daily",
    "Percentiles of the times of executions that ended, of all tenants together, at most two per cent off. For other "
    "groups add up `spread_daily`.",
    "(SELECT measure, day, kind, name, bucket, runs, "  # noqa: S608 - names of ours
    f"sum(runs) {_WINDOW} ORDER BY bucket) AS upto, sum(runs) {_WINDOW}) AS total "
    f"FROM ({_COUNTED}) AS counted) AS ranked GROUP BY measure, day, kind, name",
    (
        _column("measure", "ranked.measure", PublicKind.TEXT, "Which time: active, wall, idle or people"),
        *_picked(SPREAD_DAILY, ("day", "day_us", "kind", "name"), "ranked"),
        _sum("runs", "runs", "How many there were"),
        *map(_percentile, (50, 90, 95, 99)),
    ),
)

DERIVED = (SESSIONS, WAITS, FAILURES, STOP_REASONS_DAILY, COSTS_DAILY, PERCENTILES_DAILY)
"""The views beside those of single tables."""
