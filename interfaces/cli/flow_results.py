"""The result of a run of a workflow as it is printed: for people, as JSON, and as an exit code."""

import json

from steptrail.domain.base import full_form
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.state import FlowState
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.cli.exits import Exit, exit_of_status
from steptrail.interfaces.cli.flow_going_on import how_a_flow_goes_on
from steptrail.interfaces.cli.flow_summaries import task_name
from steptrail.interfaces.cli.going_on import GivenWords
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.projections.rendering import asked_for, asked_for_data, many
from steptrail.runtime.flow.result import FlowResult


def exit_of_flow(result: FlowResult) -> Exit:
    """Return the exit code of `run`, `resume` and `retry` for where the run stands."""
    has_errors = result.status is ExecutionStatus.COMPLETED and result.has_errors()
    return Exit.ERRORS if has_errors else exit_of_status(result.status)


def flow_status(state: FlowState) -> str:
    """Return the status for people: with the number of recorded errors, and the reason of a stop."""
    count = len(state.errors)
    errors = f" ({many(count, 'error')})" if count else ""
    return f"{state.status.value}{errors}"


def error_text(error: NodeError) -> str:
    """Return a failure of a node on one line."""
    name = task_name(error.node_id, error.visit, error.item)
    return one_line(f"{name}, {error.failure.value}: {error.message}")


def flow_result_data(result: FlowResult) -> dict[str, JsonValue]:
    """Return the result as JSON."""
    state = result.state
    finished = state.run.finished if state.run is not None else None
    return {
        "flowId": result.id,
        "executionId": result.execution_id,
        "name": state.name,
        "status": result.status.value,
        "stopReason": result.stop_reason.value if result.stop_reason else None,
        "stored": result.stored,
        "resolvedBy": finished.resolved_by if finished is not None else None,
        "error": full_form(result.error) if result.error is not None else None,
        "errors": [full_form(error) for error in result.errors],
        **asked_for_data(state),
        "output": result.output,
        "vars": result.envelope.vars,
        "usage": dict(result.usage.to_dict()),
        "cost": result.cost.to_dict() if result.cost else None,
        "activeSeconds": state.active_seconds,
        "version": state.version,
    }


def print_flow_result(output: Output, result: FlowResult, given: GivenWords) -> None:
    """Print where the run stands, and the command that goes on, with what was given."""
    state = result.state
    output.line(f"status   {flow_status(state)}")
    finished = state.run.finished if state.run is not None else None
    if finished is not None:
        output.line(f"stopped  {finished.stop_reason.value}, decided by {finished.resolved_by}")
    if result.error is not None:
        output.line(f"error    {error_text(result.error)}")
    for error in result.errors:
        output.line(f"recorded {error_text(error)}")
    for what, asked in asked_for(state):
        output.line(f"{what:<8} {one_line(asked.by_whom)}")
    output.line(f"tokens   {result.usage.total}")
    if result.cost is not None:
        output.line(f"cost     {one_line(str(result.cost))}")
    output.line(f"time     {state.active_seconds:.2f} s active")
    if result.status is not ExecutionStatus.COMPLETED:
        output.line(f"next     {one_line(str(how_a_flow_goes_on(state, given)))}")
    if result.status is ExecutionStatus.COMPLETED:
        output.line("output")
        output.text(json.dumps(result.output, ensure_ascii=False, indent=2))
