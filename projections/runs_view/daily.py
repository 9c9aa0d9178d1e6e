"""Adds to the sums of a day what has ended on it. Each function takes the row that says how it ended."""

from collections.abc import Mapping
from typing import Any

from steptrail.projections.kernel.table import Row, Scalar, Table, taker
from steptrail.projections.runs_view.memory import RunMemory, RunMoment
from steptrail.projections.runs_view.spread import bucket_of
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
from steptrail.projections.runs_view.values import day_of

_MEASURES = ("active", "wall", "idle", "people")


def count_run(row: Row, moment: RunMoment) -> None:
    """Count an execution that has ended."""
    key = {**row, "day": day_of(moment.at)}
    is_whole = row["cost_nanos"] is not None and not row["is_unpriced"]
    _add(RUNS_DAILY, key, _amounts(RUNS_DAILY, row, runs=1, unpriced_runs=int(not is_whole)), moment)
    for measure in _MEASURES:
        lasted = row[f"{measure}_us"]
        key["measure"], key["bucket"] = measure, bucket_of(lasted) if isinstance(lasted, int) else -1
        _add(SPREAD_DAILY, key, {"runs": 1}, moment)
    if row["signature"] is not None:
        _add(FAILURES_DAILY, key, {"runs": 1}, moment)


def count_model_call(run: RunMemory, row: Row, moment: RunMoment) -> None:
    """Count a model call that has ended."""
    key = _key(run, moment, model=row["model"], status=row["status"], error_type=row["error_type"] or "")
    amounts = _amounts(MODELS_DAILY, row, calls=1, unpriced_calls=int(row["cost_nanos"] is None))
    _add(MODELS_DAILY, key, amounts, moment)


def count_tool_call(run: RunMemory, row: Row, moment: RunMoment) -> None:
    """Count a tool call, or a visit of a node, that has ended for good."""
    error_type, error_class = row["error_type"] or "", row["error_class"] or ""
    said = {"tool": row["tool"], "status": row["status"], "error_type": error_type, "error_class": error_class}
    _add(TOOLS_DAILY, _key(run, moment, **said), _amounts(TOOLS_DAILY, row, calls=1), moment)


def count_retry(run: RunMemory, row: Row, moment: RunMoment) -> None:
    """Count a try of a tool call or of a node after which something else came."""
    key = _key(run, moment, tool=row["tool"], error_type=row["error_type"] or "")
    _add(RETRIES_DAILY, key, _amounts(RETRIES_DAILY, row, tries=1), moment)


def count_failure(run: RunMemory, row: Row, moment: RunMoment, *, is_retried: bool = False) -> None:
    """Count the error of a row, if it has one."""
    if row["signature"] is not None:
        key = _key(run, moment, signature=row["signature"])
        _add(FAILURES_DAILY, key, {"retried" if is_retried else "calls": 1}, moment)


def _key(run: RunMemory, moment: RunMoment, **said: Scalar) -> Row:
    """Return the columns of keys that say of which run and of which day something is, with others."""
    return {"day": day_of(moment.at), "tenant": run.tenant, "kind": run.kind, "name": run.name, **said}


_AMOUNTS = {table: tuple(column.name for column in table.amounts) for table in SUMS}
_KEYS = {
    table: [(each, taker(each.key)) for each in (table, OF_ALL_TENANTS.get(table)) if each is not None]
    for table in SUMS
}
"""A table of sums -> itself and the one of all tenants, each with what takes its key out of a row."""


def _amounts(table: Table, row: Mapping[str, Any], **counts: int) -> dict[str, int]:
    """Return the columns of a row that a table adds up, without those that are 0, and these counts."""
    for name in _AMOUNTS[table]:
        if amount := row.get(name):
            counts[name] = amount
    return counts


def _add(table: Table, key: Row, amounts: Mapping[str, int], moment: RunMoment) -> None:
    for each, key_of in _KEYS[table]:
        moment.changes.add(each, key_of(key), amounts)
