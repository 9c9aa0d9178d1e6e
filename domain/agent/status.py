"""The status an execution ends with.

`failed` for an error, for retries that the error policy has used up, and for an answer that was cut or filtered;
`completed` for the rest, limits and user stops included: the stop reason tells them apart. An execution whose last step
failed never completes.
"""

from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.decision import StopReason
from steptrail.domain.continuation.outcome import ContinuationOutcome

__all__ = ["terminal_status"]


def terminal_status(state: AgentState, outcome: ContinuationOutcome) -> ExecutionStatus:
    """Return `completed` or `failed` for an execution that stops with `outcome`."""
    policy_gave_up = outcome.stop_reason is StopReason.RETRY_LIMIT and outcome.resolved_by == "ErrorPolicyCriterion"
    failed = (
        outcome.stop_reason is StopReason.ERROR
        or policy_gave_up
        or outcome.resolved_by == "AnswerComplete"
        or (state.current_step is not None and state.current_step.has_errors)
    )
    return ExecutionStatus.FAILED if failed else ExecutionStatus.COMPLETED
