"""Tells whether an execution can be retried: it must have ended without an answer."""

from steptrail.domain.agent.state import AgentState
from steptrail.domain.shared.run import ExecutionStatus, StopReason


def can_be_retried(state: AgentState) -> bool:
    """Tell whether the session's last execution failed, met a limit, or was stopped before it had an answer."""
    return why_no_retry(state) is None


def why_no_retry(state: AgentState) -> str | None:
    """Return why the last execution cannot be retried, and what can be done instead; None when it can."""
    if state.execution is None:
        return "nothing was started in it: `run` or `send` gives it something to answer"
    if state.is_open:
        return f"execution {state.execution_id} is {state.status.value} and not over: `resume` goes on with it"
    if state.answered or (state.status is ExecutionStatus.COMPLETED and state.stop_reason is StopReason.COMPLETED):
        return f"execution {state.execution_id} has answered: `send` asks for more"
    return None
