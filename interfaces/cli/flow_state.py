"""The state of a run of a workflow as `show` prints it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steptrail.domain.base import full_form
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import ExecutionFinished, FlowRetried, FlowStarted
from steptrail.domain.flow.files import in_words
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.cli.flow_results import error_text, flow_result_data, flow_status
from steptrail.interfaces.cli.flow_summaries import task_name
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.states import (
    EXECUTION_HEADS,
    ShownExecution,
    executions_of,
    print_head,
    print_lines,
    stream_data,
)
from steptrail.projections.rendering import error_lines
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
        **stream_data(state),
        "phase": state.phase.value,
        "executions": [
            {**each.to_dict(), "recordedErrors": _recorded_errors(each, state)} for each in _executions(state, records)
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
    names = [("run", state.flow_id), ("workflow", state.name)]
    status = f"{flow_status(state)}{reason}, {state.phase.value}"
    recorded = [*map(error_text, FlowResult(state).errors)]
    print_head(output, state, names, status=status, seconds=state.active_seconds, recorded=recorded)
    rows = [[*each.cells(), str(_recorded_errors(each, state))] for each in _executions(state, records)]
    output.section("executions", [*EXECUTION_HEADS, "ERRORS"], rows)
    output.section(f"nodes of {state.execution_id}", ["NODE", "KIND", "VISITS", "OPEN"], _nodes(state))
    given = [(name, in_words(value, state.files)) for name, value in state.envelope.vars.items()]
    values = [[name, one_line(json.dumps(value, ensure_ascii=False), _CUT)] for name, value in given]
    output.section("variables", ["NAME", "VALUE"], values)
    if (failed := _last_error(state)) is not None:
        known = error_lines(failed.error) if failed.error is not None else ()
        lines = [("node", error_text(failed)), *known]
        print_lines(output, "last error", [f"{what:<9} {one_line(text)}" for what, text in lines])


def _executions(state: FlowState, records: Sequence[Recorded[Any]]) -> Iterator[ShownExecution]:
    return executions_of(state.flow_id, state, records, FlowStarted, FlowRetried)


def _recorded_errors(execution: ShownExecution, state: FlowState) -> int:
    return len(state.errors) if execution.end is None else execution.end.recorded_errors


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
