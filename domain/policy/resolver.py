"""From the state to the error that the policy decides on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from steptrail.domain.failures import ErrorType, StepError
from steptrail.domain.policy.context import ErrorContext, ErrorHandlingDecision
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.views import StateView

__all__ = ["AgentErrorContextResolver", "decisive"]


def decisive(errors: Sequence[StepError]) -> StepError:
    """Return the error of a step that the policy decides on: that of the first failing tool call, or else the first."""
    return next((failure for failure in errors if failure.tool_name is not None), errors[0])


@final
@dataclass(frozen=True, slots=True)
class AgentErrorContextResolver:
    """Describes the error of the last step: that of the first failing tool call, or else the step's first.

    After a clean step there is no error to decide on, while the total stays true. Of an error that `policy` retries the
    failures in a row are those that it did not ignore: what is ignored uses up no retries.
    """

    policy: ErrorPolicy | None = None

    def resolve(self, state: StateView, /) -> ErrorContext:
        """Return the error of the last step; without one, `consecutive_failures` is 0."""
        step = state.current_step
        if step is None or not step.errors:
            return ErrorContext(type=ErrorType.UNKNOWN, total_failures=state.total_failures)
        first = decisive(step.errors)
        error = first.error
        return ErrorContext(
            type=error.type,
            consecutive_failures=state.consecutive_failures - self._ignored_before(state, error.type),
            total_failures=state.total_failures,
            message=error.message,
            tool_name=first.tool_name,
            metadata={
                "retryable": error.retryable,
                "retryAfter": error.retry_after,
                "errorClass": error.error_class,
            },
        )

    def _ignored_before(self, state: StateView, now: ErrorType) -> int:
        """Count the failures in a row before the last step that were ignored."""
        if self.policy is None or self.policy.handling_for(now) is not ErrorHandlingDecision.RETRY:
            return 0
        ignored, failed, place = 0, state.consecutive_failures - 1, len(state.steps) - 2
        while failed > 0 and place >= 0:
            step = state.steps[place]
            if step.has_errors:
                failed -= 1
                ignored += self.policy.handling_for(decisive(step.errors).error.type) is ErrorHandlingDecision.IGNORE
            place -= 1
        return ignored
