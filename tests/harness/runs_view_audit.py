"""Compares the rows of runs with what the machines say, and the sums with a plain recount of the rows."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.flow.evolve import evolve_all as evolve_flow, initial as initial_flow
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.prices import Cost
from steptrail.projections import project_execution_time, project_stop_reasons
from steptrail.projections.kernel.table import ColumnKind, Row, Table
from steptrail.projections.runs_view.sums import (
    FAILURES_DAILY,
    MODELS_DAILY,
    OF_ALL_TENANTS,
    RETRIES_DAILY,
    RUNS_DAILY,
    SPREAD_DAILY,
    SUMS,
    TOOLS_DAILY,
)
from steptrail.projections.runs_view.tables import (
    ATTEMPTS,
    EXECUTIONS,
    INFERENCES,
    OUTCOMES,
    RESTS,
    ROWS,
    SIGNATURES,
    STEPS,
    SUSPENDED,
    TOKENS,
    TOOL_CALLS,
    TRIES,
    VISITS,
)
from tests.harness.projecting import Tables

_KINDS = {ColumnKind.INTEGER: int, ColumnKind.TEXT: str, ColumnKind.BOOLEAN: bool}
_DAY = 86_400 * 10**6


def fits_its_tables(tables: Tables) -> None:
    """Check that each row has exactly the columns of its table, each with a value of its kind."""
    for table in (*ROWS, *SUMS, *OF_ALL_TENANTS.values()):
        for row in tables.of(table):
            assert row.keys() == {column.name for column in table.columns}, table.name
            for column in table.columns:
                value = row[column.name]
                if value is None:
                    assert column.is_optional, f"{table.name}.{column.name}"
                else:
                    assert type(value) is _KINDS[column.kind], f"{table.name}.{column.name} is {value!r}"
                if isinstance(value, int):
                    assert -(2**63) <= value < 2**63, f"{table.name}.{column.name} is {value!r}"


def refers_to_what_is_there(tables: Tables) -> None:
    """Check that each row belongs to an execution, and each signature has a row."""
    executions = {row["execution"] for row in tables.of(EXECUTIONS)}
    signatures = {row["signature"] for row in tables.of(SIGNATURES)} | {None}
    for table in ROWS:
        for row in tables.of(table):
            assert "execution" not in row or row["execution"] in executions, table.name
            assert row.get("signature") in signatures, table.name


def is_the_sum_of_its_rows(tables: Tables, at: dict[tuple[str, int], int]) -> None:
    """Check the sums. `at` is the instant of each event, by its stream and its version."""
    assert _sums(tables, RUNS_DAILY) == _added(RUNS_DAILY, _runs(tables))
    assert _sums(tables, MODELS_DAILY) == _added(MODELS_DAILY, _model_calls(tables, at))
    assert _sums(tables, TOOLS_DAILY) == _added(TOOLS_DAILY, _tool_calls(tables, at))
    assert _sums(tables, FAILURES_DAILY) == _added(FAILURES_DAILY, _failures(tables, at))
    assert _sums(tables, RETRIES_DAILY) == _added(RETRIES_DAILY, _retries(tables, at))
    assert _sums(tables, SPREAD_DAILY) == _added(SPREAD_DAILY, _spread(tables))
    for table, of_all in OF_ALL_TENANTS.items():
        assert _sums(tables, of_all) == _added(of_all, iter([dict(row) for row in tables.of(table)]))
    for row in tables.of(EXECUTIONS):
        rests = [rest for rest in tables.of(RESTS) if rest["execution"] == row["execution"] and rest["ended_at"]]
        lasted = [(max(0, _int(rest["ended_at"]) - _int(rest["started_at"])), rest["is_for_people"]) for rest in rests]
        if row["ended_at"] is not None:
            assert row["idle_us"] == sum(time for time, _ in lasted)
            assert row["people_us"] == sum(time for time, is_for_people in lasted if is_for_people)


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _sums(tables: Tables, table: Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {
        tuple(row[name] for name in table.key): {column.name: row[column.name] for column in table.amounts}
        for row in tables.of(table)
    }


def _added(table: Table, rows: Iterator[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        sum_ = sums.setdefault(tuple(row[name] for name in table.key), {column.name: 0 for column in table.amounts})
        for name in sum_:
            sum_[name] += int(row.get(name) or 0)
    return sums


def _ended(tables: Tables) -> Iterator[dict[str, Any]]:
    for row in tables.of(EXECUTIONS):
        if row["ended_at"] is not None:
            yield {**row, "day": _int(row["ended_at"]) // _DAY}


def _runs(tables: Tables) -> Iterator[dict[str, Any]]:
    for row in _ended(tables):
        yield {**row, "runs": 1, "unpriced_runs": row["cost_nanos"] is None or row["is_unpriced"]}


def _spread(tables: Tables) -> Iterator[dict[str, Any]]:
    for row in _ended(tables):
        for measure in ("active", "wall", "idle", "people"):
            time = row[f"{measure}_us"]
            bucket = math.floor(math.log(time) / math.log(1.04)) if time else -1
            yield {**row, "bucket": bucket, f"{measure}_runs": 1}


def _of_run(tables: Tables, table: Table) -> Iterator[tuple[dict[str, Any], Row]]:
    runs = {row["execution"]: row for row in tables.of(EXECUTIONS)}
    for row in tables.of(table):
        run = runs[row["execution"]]
        yield {**row, **{name: run[name] for name in ("tenant", "kind", "name")}}, run


def _day(run: Row, version: Any, at: dict[tuple[str, int], int]) -> int:
    return at[str(run["stream"]), version] // _DAY


def _model_calls(tables: Tables, at: dict[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
    for row, run in _of_run(tables, INFERENCES):
        if row["end_version"] is not None:
            counts = {
                "calls": 1,
                "unpriced_calls": row["cost_nanos"] is None,
                "error_type": row["error_type"] or "",
            }
            yield {**row, **counts, "day": _day(run, row["end_version"], at)}


def _closed(tables: Tables, at: dict[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
    """Yield the tool calls that count, and the visits, with the day on which they are counted."""
    steps = {(row["execution"], row["step"]): row["end_version"] for row in tables.of(STEPS)}
    for row, run in _of_run(tables, TOOL_CALLS):
        closed_at = steps[row["execution"], row["step"]] or (run["ended_at"] and run["version"])
        if closed_at and not row["is_answer"]:
            yield {**row, "day": _day(run, closed_at, at)}
    for row, run in _of_run(tables, VISITS):
        in_its_run = row["status"] in {"failed", "cancelled"}
        if run["ended_at"] is not None if in_its_run else row["ended_at"] is not None:
            day = _day(run, run["version"] if in_its_run else row["end_version"], at)
            yield {**row, "tool": row["node"], "duration_us": row["active_us"], "day": day}


def _tool_calls(tables: Tables, at: dict[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
    for row in _closed(tables, at):
        error = {name: row[name] or "" for name in ("error_type", "error_class")}
        yield {**row, **error, "calls": 1}


def _failures(tables: Tables, at: dict[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
    found = [{**row, "runs": 1} for row in _ended(tables)]
    found += [{**row, "calls": 1} for row in (*_model_calls(tables, at), *_closed(tables, at))]
    found += [{**row, "retried": 1} for row in (*_lost_tries_of_calls(tables, at), *_lost_tries_of_nodes(tables))]
    for row in found:
        if row["signature"] is not None:
            yield row


def _lost_tries_of_calls(tables: Tables, at: dict[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
    """Yield the tries of tool calls, on the day on which another one came after it, or the call was given up."""
    for row, run in _of_run(tables, ATTEMPTS):
        call = next(
            call
            for call in tables.of(TOOL_CALLS)
            if (call["execution"], call["step"], call["call"]) == (row["execution"], row["step"], row["call"])
        )
        later = [
            other["version"]
            for other in tables.of(ATTEMPTS)
            if (other["execution"], other["step"], other["call"]) == (row["execution"], row["step"], row["call"])
            and _int(other["attempt"]) == _int(row["attempt"]) + 1
        ]
        if not later and call["attempts"] == row["attempt"]:
            later = [call["end_version"]]
        yield {**row, "day": _day(run, later[0], at) if later else _int(call["started_at"]) // _DAY}


def _retries(tables: Tables, at: dict[tuple[str, int], int]) -> Iterator[dict[str, Any]]:
    for row in (*_lost_tries_of_calls(tables, at), *_lost_tries_of_nodes(tables)):
        if row["status"] != SUSPENDED:
            yield {**row, "error_type": row["error_type"] or "", "tries": 1}


def _lost_tries_of_nodes(tables: Tables) -> Iterator[dict[str, Any]]:
    """Yield the tries of nodes, on the day on which another one came after it."""
    tried = [row for row, _ in _of_run(tables, TRIES) if row["attempt"]]
    places = ("execution", "node", "visit", "item")
    for row in tried:
        same = [each for each in tried if all(each[name] == row[name] for name in places)]
        later = [each for each in same if _int(each["attempt"]) > _int(row["attempt"])]
        if later:
            day = _int(min(later, key=lambda each: _int(each["attempt"]))["started_at"]) // _DAY
            yield {**row, "tool": row["node"], "day": day}


def agrees_with_the_agent(stream: str, records: Sequence[Recorded[Any]], tables: Tables) -> None:
    """Check the rows of a session, which is no fork, against its state and the other projections of it."""
    stops = {stop.execution_id: stop for stop in project_stop_reasons(records)}
    times = project_execution_time(records)
    rows = tables.of(EXECUTIONS)
    assert [row["ordinal"] for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        state = evolve_all(initial(stream), records[: _int(row["version"])])
        _agrees_with_state(row, state, tables)
        _rests_as_its_status_says(row, tables)
        stop = stops.get(state.execution_id or "")
        assert (row["ended_at"] is None) == (stop is None)
        if stop is not None:
            said = (row["status"], row["stop_reason"], row["resolved_by"], row["answered"], row["version"])
            assert said == (stop.status, stop.stop_reason, stop.resolved_by, stop.answered, stop.version)
            time = times[stop.execution_id]
            assert math.isclose(_int(row["active_us"]) / 1e6, time.recorded_seconds, abs_tol=1e-4)
    newest = evolve_all(initial(stream), records)
    assert newest.fold.executions == len(rows)
    if rows:
        assert rows[-1]["status"] == newest.status


def _rests_as_its_status_says(row: Row, tables: Tables) -> None:
    """Check that a run that is paused or waits is in one rest, of that kind, and one that has ended in none."""
    kinds = {"paused": ["pause"], "waiting": [row["waits_for"]]}
    rests = [
        rest["kind"] for rest in tables.of(RESTS) if (rest["execution"], rest["ended_at"]) == (row["execution"], None)
    ]
    assert row["status"] in {"pending", "in_progress"} or rests == kinds.get(str(row["status"]), [])


def _agrees_with_state(row: Row, state: AgentState, tables: Tables) -> None:
    run = state.fold.execution
    assert run is not None
    assert (row["ordinal"], row["name"], row["model"]) == (run.ordinal, run.agent.name, run.agent.model.model)
    assert (row["status"], row["answered"]) == (state.status, run.finished is not None and run.finished.answered)
    assert row["waits_for"] == (run.wait.kind if run.wait is not None and run.finished is None else None)
    assert (row["steps"], row["errors"]) == (len(run.steps), run.total_failures)
    assert row["tool_calls"] == sum(run.tool_calls.values())
    assert (row["started_at"], row["ended_at"]) == (run.started_at, run.finished_at)
    assert row["active_us"] == run.active_us
    assert row["tree_tokens"] == run.usage.total
    own = run.usage - run.usage_below
    told = (own.input, own.output, own.cache_write, own.cache_read, own.reasoning)
    assert tuple(row[name] for name in TOKENS) == told
    assert row["tree_cost_nanos"] == _nanos(run.cost)
    wasted = sum(step.usage.total for step in run.steps if step.errors)
    assert row["wasted_tokens"] == wasted
    counted = [step for step in run.steps if step.reply is not None or step.errors]
    newest = counted[-1].errors[0].error.error_class if counted and counted[-1].errors else None
    raised = [vote.context["exception"] for vote in run.decided_votes if "exception" in vote.context]
    assert row["error_class"] in ({newest, *map(str, raised)} if row["status"] == "failed" else {None})
    if row["status"] == "failed" and not raised:
        assert row["error_class"] == newest
    execution = row["execution"]
    steps = [step for step in tables.of(STEPS) if step["execution"] == execution][: len(run.steps)]
    for told_step, step in zip(steps, run.steps, strict=True):
        assert (told_step["step"], told_step["errors"]) == (step.number, len(step.errors))
        assert (told_step["status"] == "failed") == step.has_errors
        assert told_step["active_us"] == round(step.duration_seconds * 1e6)
        assert (told_step["tokens_input"], told_step["tokens_output"]) == (step.usage.input, step.usage.output)
        calls = [
            call
            for call in tables.of(TOOL_CALLS)
            if (call["execution"], call["step"]) == (execution, told_step["step"])
        ]
        for told_call, call in zip(calls, step.tool_executions, strict=True):
            said = (told_call["tool"], told_call["status"], told_call["attempts"], told_call["effect_id"])
            assert said == (call.name, call.status, call.attempt, call.effect_id)
            assert told_call["error_class"] == (call.error.error_class if call.error is not None else None)
            assert told_call["error_type"] == (call.error.type if call.error is not None else None)
            assert told_call["is_answer"] == call.is_answer
            answer = call.approval.answer if call.approval is not None else None
            assert told_call["approval"] == (answer or ("asked" if call.approval is not None else None))
    tries = [each for each in tables.of(ATTEMPTS) if each["execution"] == execution]
    retried = [call for call in tables.of(TOOL_CALLS) if call["execution"] == execution and _int(call["attempts"]) > 1]
    if run.finished is not None:
        again = sum(each["execution"] == execution and each["retries"] is True for each in tables.of(OUTCOMES))
        made = {(call["step"], call["call"]): call["attempts"] for call in retried}
        rested = [each for each in tries if each["status"] == SUSPENDED]
        looks = sum(each["attempt"] != made.get((each["step"], each["call"]), each["attempt"]) for each in rested)
        assert row["retries"] == again + sum(_int(call["attempts"]) - 1 for call in retried) - looks
    assert Counter((each["step"], each["call"]) for each in tries) >= Counter(
        {(call["step"], call["call"]): _int(call["attempts"]) - 1 for call in retried}
    )


def _nanos(cost: Cost | None) -> int | None:
    return None if cost is None else int(cost.usd * 10**9)


def agrees_with_the_flow(stream: str, records: Sequence[Recorded[Any]], tables: Tables) -> None:
    """Check the rows of a run of a workflow against its state. What a retry goes on with is counted once."""
    rows = tables.of(EXECUTIONS)
    _tells_the_streams_below(stream, records, tables)
    tokens = nodes = 0
    for row in rows:
        state = evolve_flow(initial_flow(stream), records[: _int(row["version"])])
        run = state.run
        assert run is not None
        if run.retries == 0:
            tokens = nodes = 0
        tokens, nodes = tokens + _int(row["tree_tokens"]), nodes + _int(row["steps"])
        assert (row["ordinal"], row["name"], row["status"]) == (run.ordinal, state.name, state.status)
        _rests_as_its_status_says(row, tables)
        assert (tokens, nodes) == (run.usage.total, run.finished_visits)
        assert row["active_us"] == run.active.us(state.as_of)
        assert (row["started_at"], row["ended_at"]) == (run.started_at, run.finished_at)
        assert row["waits_for"] == (run.wait.kind if run.wait is not None else None)
        if run.finished is not None:
            said = (row["stop_reason"], row["resolved_by"], row["answered"])
            assert said == (run.finished.stop_reason, run.finished.resolved_by, run.finished.answered)
        if run.retries == 0:
            assert row["tree_cost_nanos"] == _nanos(run.cost)
    if rows:
        state = evolve_flow(initial_flow(stream), records)
        assert state.fold.executions == len(rows)
        visits = [row for row in tables.of(VISITS) if row["execution"] == rows[-1]["execution"]]
        still = {
            (row["node"], row["visit"]) for row in visits if row["status"] in {"in_progress", "failed", "cancelled"}
        }
        assert still == {(visit.node, visit.visit) for visit in state.open_visits}
        assert sum(_int(row["attempts"]) for row in tables.of(VISITS)) == sum(
            row["attempt"] != 0 for row in tables.of(TRIES)
        )


def _tells_the_streams_below(stream: str, records: Sequence[Recorded[Any]], tables: Tables) -> None:
    # A retry of the run counts the tries of an effect from 1 again.
    children = {(row["effect_id"], row["attempt"], row["child"]) for row in tables.of(TRIES)}
    for version in range(1, len(records) + 1):
        for task in evolve_flow(initial_flow(stream), records[:version]).tasks:
            if task.stream is not None:
                assert (task.effect_id, task.attempt, task.stream) in children
