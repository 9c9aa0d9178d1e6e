"""Fills the tables of runs with rows that no log stands behind: as many as wanted, always the same.

Of a hundred runs 80 complete, 6 reach the limit of steps, 8 fail, 4 are stopped and 2 are open. They are spread over 30
days and 40 tenants.
"""

import random
from collections.abc import Iterator

from steptrail.infrastructure.views.database import Statements
from steptrail.infrastructure.views.generation import Generation
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.table import ColumnKind, Row, Scalar, Table
from steptrail.projections.runs_view import tables
from steptrail.projections.runs_view.daily import count_run
from steptrail.projections.runs_view.memory import RunMoment
from steptrail.projections.runs_view.sums import FAILURES_DAILY, MODELS_DAILY, RETRIES_DAILY, TOOLS_DAILY
from steptrail.projections.runs_view.view import RunsView

DAY = 86_400_000_000
BEGINNING = 20_000 * DAY
"""The instant of the first run."""
_SPAN = 30 * DAY
_EACH = 50
"""How many positions of the log a run takes."""
_AT_ONCE = 2_000
_FLOW = 7
"""Which of the eight names is that of a workflow."""
_ENDS = (
    ("completed", "completed", 80),
    ("stopped", "steps_limit", 6),
    ("failed", "error", 8),
    ("stopped", "cancelled", 4),
    ("in_progress", None, 1),
    ("waiting", None, 1),
)
_ERRORS = (("tool_error", "builtins:KeyError"), ("rate_limit", "httpx:HTTPError"), ("timeout", "builtins:TimeoutError"))
_TOOLS = ("search", "refund", "mail", "lookup", "order")


def fill(generation: Generation, runs: int, *, first: int = 0, of: int | None = None) -> None:
    """Add so many runs behind the first ones, of `of` in all, to the tables of a generation."""
    for begin in range(first, first + runs, _AT_ONCE):
        changes = Changes()
        for number in range(begin, min(begin + _AT_ONCE, first + runs)):
            _add_run(changes, number, of or runs)

        def write(statements: Statements, changes: Changes = changes) -> None:
            generation.apply(statements, RunsView(), changes)

        generation.database.write(write)


def row_of(table: Table, **given: Scalar) -> Row:
    """Return a row with nothing in the columns that are not given: None, zero, or an empty text."""
    empty: dict[ColumnKind, Scalar] = {ColumnKind.INTEGER: 0, ColumnKind.TEXT: "", ColumnKind.BOOLEAN: False}
    row = {each.name: None if each.is_optional else empty[each.kind] for each in table.columns}
    return {**row, **given}


def _add_run(changes: Changes, number: int, of: int) -> None:
    chance = random.Random(number)  # noqa: S311
    execution, at = (number + 1) * _EACH, BEGINNING + _SPAN * number // of
    status, reason = chance.choices([end[:2] for end in _ENDS], [end[2] for end in _ENDS])[0]
    steps = 1 + min(40, int(chance.expovariate(0.18)))
    active = int(chance.lognormvariate(15, 1))
    ended_at = None if reason is None else at + 2 * active
    which, tenant = chance.randrange(8), f"tenant-{chance.randrange(40):02}"
    name, kind = f"agent-{which}", "flow" if which == _FLOW else "agent"
    error = chance.choice(_ERRORS)
    failed = status == "failed"
    priced, retries = chance.random() < 0.95, int(chance.random() < 0.12)
    signature = f"{chance.randrange(24):016x}" if failed else None
    # Every fifth is the second run of the stream before it.
    stream, ordinal = (number - 1, 2) if number % 5 == 4 else (number, 1)
    row = row_of(
        tables.EXECUTIONS,
        execution=execution,
        stream=f"agent:s-{stream:06}",
        kind=kind,
        ordinal=ordinal,
        name=name,
        model="large" if chance.random() < 0.3 else "small",
        tenant=tenant,
        parent=f"agent:s-{number - 1:06}" if number % 10 == 3 else None,
        root=f"agent:s-{number - 1:06}" if number % 10 == 3 else None,
        status=status,
        stop_reason=reason,
        resolved_by=None
        if reason is None
        else chance.choice(("ToolCallPresenceCheck", "StepsLimit", "ErrorPolicyCriterion")),
        answered=reason == "completed",
        waits_for="approval" if status == "waiting" else None,
        error_type=error[0] if failed else None,
        error_class=error[1] if failed else None,
        signature=signature,
        segments=1,
        steps=steps,
        retries=retries,
        started_at=at,
        ended_at=ended_at,
        active_us=active,
        wall_us=2 * active,
        idle_us=active,
        people_us=active if status == "waiting" else 0,
        tokens_input=200 * steps,
        tokens_output=40 * steps,
        cost_nanos=chance.randrange(10**9) if priced else None,
        version=_EACH,
    )
    changes.put(tables.EXECUTIONS, row)
    for step in range(1, steps + 1):
        _add_step(changes, row, step, failed and step == steps)
    for tag, value in (("user", f"u{chance.randrange(500)}"), ("plan", chance.choice(("free", "paid")))):
        changes.put(tables.TAGS, {"name": tag, "value": value, "execution": execution})
    if ended_at is not None:
        count_run(row, RunMoment(execution, _EACH, ended_at, changes))
    if signature is not None:
        meaning = {"error_type": error[0], "error_class": error[1], "tool": "refund", "template": "no <s>"}
        changes.put(tables.SIGNATURES, {"signature": signature, **meaning})
        key = (at // DAY, tenant, kind, name, signature)
        changes.add(FAILURES_DAILY, key, {"calls": 1, "retried": retries})
    if chance.random() < 0.02:
        vote = {"criterion": "StepsLimit", "decision": "allow", "shadow": "stop", "phase": "boundary"}
        changes.put(tables.EVALUATIONS, row_of(tables.EVALUATIONS, execution=execution, version=9, n=0, **vote))


def _add_step(changes: Changes, run: Row, step: int, is_failed: bool) -> None:
    chance = random.Random(f"{run['execution']} {step}")  # noqa: S311
    place: dict[str, Scalar] = {"execution": run["execution"], "step": step, "started_at": run["started_at"]}
    status = "failed" if is_failed or chance.random() < 0.02 else "completed"
    error: dict[str, Scalar] = dict.fromkeys(("error_type", "error_class"))
    if status == "failed":
        error = {"error_type": "tool_error", "error_class": "builtins:KeyError"}
    day = _day(run)
    owner = (day, run["tenant"], run["kind"], run["name"])
    changes.put(tables.STEPS, row_of(tables.STEPS, **place, status=status, tool_calls=1))
    model: dict[str, Scalar] = {"model": run["model"], "duration_us": 900_000, "cost_nanos": 1_000, "tokens_input": 200}
    for attempt, how in enumerate(_tries(chance), 1):
        sent: dict[str, Scalar] = {"attempt": attempt, "status": how, **model}
        if how != "completed":
            sent["error_type"] = "rate_limit"
        changes.put(tables.INFERENCES, row_of(tables.INFERENCES, **place, **sent))
        amounts = {"calls": 1, "duration_us": 900_000, "cost_nanos": 1_000, "tokens_input": 200}
        changes.add(MODELS_DAILY, (*owner, run["model"], how, "" if how == "completed" else "rate_limit"), amounts)
    tool, effect = chance.choice(_TOOLS), chance.choice(("read", "idempotent", "unsafe"))
    if run["kind"] == "flow":
        visit: dict[str, Scalar] = {"execution": run["execution"], "node": tool, "visit": step}
        shown: dict[str, Scalar] = {**visit, **error, "status": status, "effect": effect, "number": step, "attempts": 1}
        changes.put(tables.VISITS, row_of(tables.VISITS, **shown))
        tried: dict[str, Scalar] = {"item": -1, "attempt": 1, "effect": effect, "status": status}
        changes.put(tables.TRIES, row_of(tables.TRIES, **visit, **error, **tried))
    else:
        called: dict[str, Scalar] = {"tool": tool, "effect": effect, "status": status, "attempts": 1}
        changes.put(tables.TOOL_CALLS, row_of(tables.TOOL_CALLS, **place, **called, **error, duration_us=300_000))
        if chance.random() < 0.02:
            lost: dict[str, Scalar] = {"attempt": 1, "tool": tool, "status": "failed", "error_type": "timeout"}
            changes.put(tables.ATTEMPTS, row_of(tables.ATTEMPTS, **place, **lost, duration_us=100_000))
            changes.add(RETRIES_DAILY, (*owner, tool, "timeout"), {"tries": 1, "duration_us": 100_000})
    what = (run["kind"], run["name"], tool, status, error["error_type"] or "", error["error_class"] or "")
    changes.add(TOOLS_DAILY, (run["tenant"], day, *what), {"calls": 1, "attempts": 1, "duration_us": 300_000})


def _tries(chance: random.Random) -> Iterator[str]:
    if chance.random() < 0.01:
        yield "failed"
    yield "completed"


def _day(run: Row) -> int:
    at = run["started_at"]
    assert isinstance(at, int)
    return at // DAY
