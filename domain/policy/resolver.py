"""From the state to the error that the policy decides on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptrail.domain.continuation.protocols import StateView
from steptrail.domain.failures import ErrorType, StepError
from steptrail.domain.policy.context import ErrorContext

__all__ = ["AgentErrorContextResolver", "decisive"]


_NO_ERRORS = ErrorContext.none()


def decisive(errors: Sequence[StepError]) -> StepError:
    """Return the error of a step that the policy decides on: that of the first failing tool call, or else the first."""
    return next((failure for failure in errors if failure.tool_name is not None), errors[0])


@final
@dataclass(frozen=True, slots=True)
class AgentErrorContextResolver:
    """Describes the error of the last step: that of the first failing tool call, or else the step's first.

    After a clean step there is no error to decide on, while the total stays true.
    """

    def resolve(self, state: StateView, /) -> ErrorContext:
        """Return the error of the last step; without one, `consecutive_failures` is 0."""
        step = state.current_step
        if step is None or not step.errors:
            total = state.total_failures
            return ErrorContext(type=ErrorType.UNKNOWN, total_failures=total) if total else _NO_ERRORS
        first = decisive(step.errors)
        error = first.error
        return ErrorContext(
            type=error.type,
            consecutive_failures=state.consecutive_failures,
            total_failures=state.total_failures,
            message=error.message,
            tool_name=first.tool_name,
            metadata={
                "retryable": error.retryable,
                "retryAfter": error.retry_after,
                "errorClass": error.error_class,
            },
        )
