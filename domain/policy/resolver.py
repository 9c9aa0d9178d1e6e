"""Finds in a state the error on which the error policy decides."""

from collections.abc import Sequence
from itertools import islice
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
        policy = self.policy
        if policy is None or policy.handling_for(now) is not ErrorHandlingDecision.RETRY:
            return 0
        before = (decisive(step.errors) for step in islice(reversed(state.steps), 1, None) if step.errors)
        in_a_row = islice(before, max(0, state.consecutive_failures - 1))
        return sum(policy.handling_for(each.error.type) is ErrorHandlingDecision.IGNORE for each in in_a_row)
