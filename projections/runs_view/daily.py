"""Adds to the sums of a day what has ended on it. Each function takes the row that says how it ended."""

from collections.abc import Mapping
from typing import Any

from steptrail.projections.kernel.table import Row, Table
from steptrail.projections.runs_view import sums
from steptrail.projections.runs_view.memory import RunMemory, RunMoment
from steptrail.projections.runs_view.spread import bucket_of
from steptrail.projections.runs_view.values import day_of


def count_run(row: Row, moment: RunMoment) -> None:
    """Count an execution that has ended."""
    day, tenant, kind, name = day_of(moment.at), row["tenant"], row["kind"], row["name"]
    is_whole = row["cost_nanos"] is not None and not row["is_unpriced"]
    amounts = _amounts(sums.RUNS_DAILY, row, runs=1, unpriced_runs=int(not is_whole))
    ended = row["status"], row["stop_reason"], row["answered"]
    moment.changes.add(sums.RUNS_DAILY, (tenant, day, kind, name, *ended), amounts)
    for measure in sums.SPREAD_MEASURES:
        lasted = row[f"{measure}_us"]
        bucket = bucket_of(lasted) if isinstance(lasted, int) else -1
        moment.changes.add(sums.SPREAD_DAILY, (tenant, day, kind, name, bucket), {f"{measure}_runs": 1})
    if row["signature"] is not None:
        moment.changes.add(sums.FAILURES_DAILY, (day, tenant, kind, name, row["signature"]), {"runs": 1})


def count_model_call(run: RunMemory, row: Row, moment: RunMoment) -> None:
    """Count a model call that has ended."""
    ended = row["model"], row["status"], row["error_type"] or ""
    amounts = _amounts(sums.MODELS_DAILY, row, calls=1, unpriced_calls=int(row["cost_nanos"] is None))
    moment.changes.add(sums.MODELS_DAILY, (day_of(moment.at), run.tenant, run.kind, run.name, *ended), amounts)


def count_tool_call(run: RunMemory, row: Row, moment: RunMoment) -> None:
    """Count a tool call, or a visit of a node, that has ended for good."""
    ended = row["tool"], row["status"], row["error_type"] or "", row["error_class"] or ""
    amounts = _amounts(sums.TOOLS_DAILY, row, calls=1)
    moment.changes.add(sums.TOOLS_DAILY, (run.tenant, day_of(moment.at), run.kind, run.name, *ended), amounts)


def count_retry(run: RunMemory, row: Row, moment: RunMoment) -> None:
    """Count a try of a tool call or of a node after which something else came."""
    ended = row["tool"], row["error_type"] or ""
    amounts = _amounts(sums.RETRIES_DAILY, row, tries=1)
    moment.changes.add(sums.RETRIES_DAILY, (day_of(moment.at), run.tenant, run.kind, run.name, *ended), amounts)


def count_failure(run: RunMemory, row: Row, moment: RunMoment, *, is_retried: bool = False) -> None:
    """Count the error of a row, if it has one."""
    if (signature := row["signature"]) is not None:
        key = day_of(moment.at), run.tenant, run.kind, run.name, signature
        moment.changes.add(sums.FAILURES_DAILY, key, {"retried" if is_retried else "calls": 1})


_AMOUNTS = {table: tuple(column.name for column in table.amounts) for table in sums.SUMS}


def _amounts(table: Table, row: Mapping[str, Any], **counts: int) -> dict[str, int]:
    """Return the columns of a row that a table adds up, without those that are 0, and these counts."""
    for name in _AMOUNTS[table]:
        if amount := row.get(name):
            counts[name] = amount
    return counts
