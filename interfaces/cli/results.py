"""The result of a run as it is printed: for people, and as JSON."""

import json
from typing import Any

from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.retrying import can_be_retried
from steptrail.domain.json_value import JsonValue
from steptrail.interfaces.cli.going_on import GivenWords, how_to_go_on
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.summaries import how_it_stopped
from steptrail.projections.rendering import asked_for, asked_for_data, error_data
from steptrail.runtime.agent.result import RunResult


def result_data(result: RunResult[Any]) -> dict[str, JsonValue]:
    """Return the result as JSON."""
    state, outcome = result.state, result.outcome
    decider = outcome.deciding_vote if outcome else None
    return {
        "sessionId": result.session_id,
        "executionId": result.execution_id,
        "status": result.status.value,
        "stopReason": result.stop_reason.value if result.stop_reason else None,
        "answered": result.answered,
        "stored": result.stored,
        "resolvedBy": outcome.resolved_by if outcome else None,
        "decidedBy": decider.to_dict() if decider else None,
        "error": error_data(deciding_error(state)),
        **asked_for_data(state),
        "output": state.output,
        "outputJson": state.output_json,
        "steps": state.step_count,
        "tokens": result.usage.total,
        "usage": dict(result.usage.to_dict()),
        "ownUsage": dict(state.own_usage.to_dict()),
        "cost": result.cost.to_dict() if result.cost else None,
        "activeSeconds": state.cumulative_execution_seconds,
        "version": state.version,
    }


def print_result(output: Output, result: RunResult[Any], given: GivenWords) -> None:
    """Print where the session stands, and the command that goes on, with what was given."""
    state, outcome = result.state, result.outcome
    output.line(f"status   {result.status.value}")
    if result.stop_reason is not None and outcome is not None:
        decider = outcome.deciding_vote
        by = f", decided by {decider.criterion_class}: {decider.reason}" if decider else ""
        how = how_it_stopped(result.stop_reason, answered=result.answered)
        output.line(f"stopped  {how}{one_line(by)}")
    if result.error is not None:
        output.line(f"error    {one_line(str(result.error))}")
    for what, asked in asked_for(state):
        output.line(f"{what:<8} {one_line(asked.by_whom)}")
    output.line(f"steps    {state.step_count}")
    output.line(f"tokens   {result.usage.total}")
    if result.cost is not None:
        output.line(f"cost     {one_line(str(result.cost))}")
    output.line(f"time     {state.cumulative_execution_seconds:.2f} s active")
    if state.is_open or can_be_retried(state):
        output.line(f"next     {how_to_go_on(state, given)}")
    if state.output is not None:
        output.line("output")
        output.text(
            json.dumps(state.output_json, ensure_ascii=False, indent=2) if state.answers_in_a_type else state.output
        )
