"""The result of a run as it is printed: for people, and as JSON."""

import shlex

from pydantic import JsonValue

from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.retrying import can_be_retried
from steptrail.domain.agent.state import AgentState
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.summaries import how_it_stopped
from steptrail.runtime.result import RunResult

__all__ = ["how_to_go_on", "print_result", "result_data"]


def result_data(result: RunResult) -> dict[str, JsonValue]:
    """Return the result as JSON."""
    state, outcome = result.state, result.outcome
    decider = outcome.deciding_vote if outcome else None
    return {
        "agentId": result.agent_id,
        "executionId": result.execution_id,
        "status": result.status.value,
        "stopReason": result.stop_reason.value if result.stop_reason else None,
        "answered": result.answered,
        "resolvedBy": outcome.resolved_by if outcome else None,
        "decidedBy": decider.to_dict() if decider else None,
        "output": result.output,
        "steps": state.step_count,
        "tokens": result.usage.total,
        "usage": dict(result.usage.to_dict()),
        "ownUsage": dict(state.own_usage.to_dict()),
        "cost": result.cost.to_dict() if result.cost else None,
        "activeSeconds": state.cumulative_execution_seconds,
        "version": state.version,
    }


def print_result(output: Output, result: RunResult, *, agent: str | None = None) -> None:
    """Print where the session stands; `agent` is the AGENT with which it can be resumed."""
    if output.as_json:
        output.data(result_data(result))
        return
    state, outcome = result.state, result.outcome
    output.line(f"status   {result.status.value}")
    if result.stop_reason is not None and outcome is not None:
        decider = outcome.deciding_vote
        by = f", decided by {decider.criterion_class}: {decider.reason}" if decider else ""
        how = how_it_stopped(result.stop_reason, answered=result.answered)
        output.line(f"stopped  {how}{one_line(by)}")
    output.line(f"steps    {state.step_count}")
    output.line(f"tokens   {result.usage.total}")
    if result.cost is not None:
        output.line(f"cost     {one_line(str(result.cost))}")
    output.line(f"time     {state.cumulative_execution_seconds:.2f} s active")
    if state.is_open and (hint := how_to_go_on(state, agent=agent)):
        output.line(f"next     {hint}")
    if result.output is not None:
        output.line("output")
        output.text(result.output)


def how_to_go_on(state: AgentState, *, agent: str | None = None) -> str:
    """Return the command that takes the session further."""
    who = shlex.quote(agent or _locator(state) or "AGENT")
    match state.status:
        case ExecutionStatus.COMPLETED | ExecutionStatus.FAILED if can_be_retried(state):
            return f"steptrail retry {who} {state.agent_id}"
        case ExecutionStatus.COMPLETED | ExecutionStatus.FAILED:
            return f"steptrail send {who} {state.agent_id} TEXT"
        case ExecutionStatus.WAITING if (effect := _parked(state)) is not None:
            return f"steptrail settle {state.agent_id} {effect} (--result JSON | --failed TEXT | --rerun | --tell)"
        case ExecutionStatus.WAITING if state.open_approvals:
            approval = state.open_approvals[0].id
            return f"steptrail (approve | deny) {state.agent_id} {approval} --by WHO"
        case _:
            return f"steptrail resume {who} {state.agent_id}"


def _locator(state: AgentState) -> str | None:
    return state.agent.locator if state.agent else None


def _parked(state: AgentState) -> str | None:
    return next((call.effect_id for call in state.tool_executions if call.parked), None)
