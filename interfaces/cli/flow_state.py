"""The state of a run of a workflow as `show` prints it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steptrail.domain.base import full_form
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import ExecutionFinished, FlowRetried, FlowStarted
from steptrail.domain.flow.state import FlowState
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.cli.flow_results import error_text, flow_result_data, flow_status
from steptrail.interfaces.cli.flow_summaries import task_name
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.summaries import clock_time
from steptrail.projections.rendering import asked_for, error_lines, since_text
from steptrail.runtime.flow.result import FlowResult

TYPES = (FlowStarted.TYPE, FlowRetried.TYPE, ExecutionFinished.TYPE)
"""The stored types of the events that say how the executions ended."""

_CUT = 100


def flow_state_data(state: FlowState, records: Sequence[Recorded[Any]]) -> dict[str, JsonValue]:
    """Return the state as JSON; `records` are its events of `TYPES`."""
    visits: Mapping[str, int] = state.run.visits_of if state.run is not None else {}
    nodes = state.definition.nodes if state.definition is not None else ()
    return {
        **flow_result_data(FlowResult(state)),
        "phase": state.phase.value,
        "startedAt": state.started_at.isoformat(),
        "updatedAt": to_datetime(state.fold.updated_at).isoformat(),
        "metadata": dict(state.metadata),
        "executions": [
            {
                "executionId": execution,
                "status": end.status.value if end is not None else state.status.value,
                "stopReason": end.stop_reason.value if end is not None else None,
                "recordedErrors": end.recorded_errors if end is not None else len(state.errors),
            }
            for execution, end in _executions(records)
        ],
        "nodes": [{"id": node.id, "kind": _kind(node), "visits": visits.get(node.id, 0)} for node in nodes],
        "lastError": None if (failed := _last_error(state)) is None else full_form(failed),
        "open": [
            {"node": task.node, "visit": task.visit, "item": task.item, "phase": task.phase.value}
            for task in state.tasks
        ],
    }


def print_flow_state(output: Output, state: FlowState, records: Sequence[Recorded[Any]]) -> None:
    """Print the state; `records` are its events of `TYPES`."""
    reason = f" ({state.stop_reason.value})" if state.stop_reason else ""
    output.line(f"run      {state.flow_id}")
    output.line(f"workflow {one_line(state.name)}")
    output.line(f"status   {flow_status(state)}{reason}, {state.phase.value} at version {state.version}")
    output.line(f"started  {clock_time(state.fold.created_at)} UTC")
    output.line(f"updated  {clock_time(state.fold.updated_at)} UTC")
    result = FlowResult(state)
    for error in result.errors:
        output.line(f"recorded {error_text(error)}")
    for what, asked in asked_for(state):
        output.line(f"{what:<8} {one_line(f'{asked.by_whom}, {since_text(asked.at, state.as_of)}')}")
    cost = f"{state.cost}, " if state.cost is not None else ""
    output.line(f"spent    {state.usage.total} tokens, {cost}{state.active_seconds:.2f} s active")
    ended = [
        [execution, end.status.value, end.stop_reason.value, end.resolved_by, str(end.recorded_errors)]
        if end is not None
        else [execution, state.status.value, "", "", str(len(state.errors))]
        for execution, end in _executions(records)
    ]
    output.section("executions", ["EXECUTION", "STATUS", "STOP REASON", "DECIDED BY", "ERRORS"], ended)
    output.section(f"nodes of {state.execution_id}", ["NODE", "KIND", "VISITS", "OPEN"], _nodes(state))
    given = state.envelope.vars.items()
    values = [[name, one_line(json.dumps(value, ensure_ascii=False), _CUT)] for name, value in given]
    output.section("variables", ["NAME", "VALUE"], values)
    if (failed := _last_error(state)) is not None:
        output.line()
        output.line("last error")
        output.line(f"  {'node':<9} {error_text(failed)}")
        for what, text in error_lines(failed.error) if failed.error is not None else ():
            output.line(f"  {what:<9} {one_line(text)}")


def _last_error(state: FlowState) -> NodeError | None:
    """Return the failure that ended the run, else the newest that was recorded."""
    return FlowResult(state).error or (state.errors[-1] if state.errors else None)


def _nodes(state: FlowState) -> list[list[str]]:
    visits: Mapping[str, int] = state.run.visits_of if state.run is not None else {}
    doing: dict[str, list[str]] = {}
    for task in state.tasks:
        doing.setdefault(task.node, []).append(f"{task_name('', task.visit, task.item)} {task.phase.value}".strip())
    nodes = state.definition.nodes if state.definition is not None else ()
    return [[node.id, _kind(node), str(visits.get(node.id, 0)), ", ".join(doing.get(node.id, []))] for node in nodes]


def _kind(node: Any) -> str:
    return str(node.__struct_config__.tag)


def _executions(records: Sequence[Recorded[Any]]) -> Iterator[tuple[str, ExecutionFinished | None]]:
    """Yield each execution with its end, None for one that is open."""
    execution: str | None = None
    for record in records:
        match record.event:
            case FlowStarted(execution_id=started) | FlowRetried(execution_id=started):
                execution = started
            case ExecutionFinished() as end if execution is not None:
                yield execution, end
                execution = None
            case _:
                pass
    if execution is not None:
        yield execution, None
