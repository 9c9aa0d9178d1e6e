"""Finds in a state the error on which the error policy decides."""

from collections.abc import Sequence
from typing import final

from msgspec import Struct

from steptrail.domain.failures import ErrorType, StepError
from steptrail.domain.policy.context import ErrorContext, ErrorHandlingDecision
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.views import StateView


def decisive(errors: Sequence[StepError]) -> StepError:
    """Return the error of a step on which the policy decides: that of the first failed tool call, or else the first."""
    return next((failure for failure in errors if failure.tool_name is not None), errors[0])


@final
class AgentErrorContextResolver(Struct, frozen=True):
    """Describes the error of the last step: that of the first failed tool call, or else the first error of the step.

    After a step without an error there is none to decide on, but the total stays. If `policy` retries the error,
    ignored errors do not count among the failures in a row, because they use up no retries.
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
        """Return how many of the failures in a row before the last step were ignored."""
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
