"""Finds the error with which an execution failed: it becomes `result.error`, and `why` prints it first."""

from collections.abc import Mapping

from steptrail.domain.agent.state import AgentState
from steptrail.domain.failures import ErrorInfo, ErrorType, StepError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.policy.resolver import decisive
from steptrail.domain.shared.run import ExecutionStatus


def deciding_error(state: AgentState) -> StepError | None:
    """Return the error that made the last execution fail or wait for a retry; None when no error did.

    If a hook or a criterion raised and so forbade the next step, that exception is returned. Otherwise it is the error
    of the last step on which the error policy decided.
    """
    outcome, step = state.last_continuation_outcome, state.current_step
    has_failed = state.status is ExecutionStatus.FAILED
    vote = outcome.deciding_vote if outcome is not None and has_failed else None
    if vote is not None and (raised := _raised(vote.context)) is not None:
        return StepError(error=raised)
    wait = state.execution.wait if state.execution is not None else None
    if step is None or not step.has_errors or not (has_failed or (wait is not None and wait.kind == "retry")):
        return None
    return decisive(step.errors)


def _raised(context: Mapping[str, JsonValue]) -> ErrorInfo | None:
    """Return the exception in the context of a vote or of the votes in it; see `ContinuationEvaluation.from_exception`.

    None when there is none.
    """
    name, message, frames, votes = (context.get(key) for key in ("exception", "message", "frames", "evaluations"))
    if not isinstance(name, str):
        nested = [vote.get("context") for vote in votes if isinstance(vote, dict)] if isinstance(votes, list) else []
        raised = (_raised(each) for each in nested if isinstance(each, dict))
        return next((each for each in raised if each is not None), None)
    return ErrorInfo(
        type=ErrorType.UNKNOWN,
        error_class=name,
        message=message if isinstance(message, str) else "",
        frames=tuple(str(frame) for frame in frames) if isinstance(frames, list) else (),
    )
