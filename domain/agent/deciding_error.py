"""Finds the error with which an execution failed: it becomes `result.error`, and `why` prints it first."""

from steptrail.domain.agent.state import AgentState
from steptrail.domain.failures import StepError
from steptrail.domain.policy.resolver import decisive
from steptrail.domain.shared.run import ExecutionStatus


def deciding_error(state: AgentState) -> StepError | None:
    """Return the error that made the last execution fail or wait for a retry; None when no error did.

    If a hook or a criterion raised and so forbade the next step, that exception is returned. Otherwise it is the error
    of the last step on which the error policy decided.
    """
    outcome = state.last_continuation_outcome
    has_failed = state.status is ExecutionStatus.FAILED
    vote = outcome.deciding_vote if outcome is not None and has_failed else None
    if vote is not None and (raised := vote.raised) is not None:
        return StepError(error=raised)
    wait = state.execution.wait if state.execution is not None else None
    return last_failure(state) if has_failed or (wait is not None and wait.kind == "retry") else None


def last_failure(state: AgentState) -> StepError | None:
    """Return the error of the last step of the last execution; None when it did not fail.

    A step that was given up before the model had replied is passed over: what failed before it stays the last failure.
    """
    step = next((step for step in reversed(state.steps) if step.reply is not None or step.has_errors), None)
    return decisive(step.errors) if step is not None and step.has_errors else None
