"""The error with which an execution failed, as data: what `result.error` is, and what `why` says first."""

from collections.abc import Mapping

from pydantic import JsonValue

from steptrail.domain.agent.state import AgentState
from steptrail.domain.failures import ErrorInfo, ErrorType, StepError
from steptrail.domain.policy.resolver import decisive
from steptrail.domain.shared.run import ExecutionStatus

__all__ = ["deciding_error"]


def deciding_error(state: AgentState) -> StepError | None:
    """Return what the last execution failed of, or what it waits to try again; None when it was no error.

    That is the exception of the hook or the criterion that forbade the next step by raising, or else the error of the
    last step that the error policy decided on.
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
    """Return the exception that a vote stands for, itself or in it; see `ContinuationEvaluation.from_exception`."""
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
