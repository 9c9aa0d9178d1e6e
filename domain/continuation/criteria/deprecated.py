"""Guards that the error policy has replaced. They still work, with a warning, in agents to which a user adds them."""

import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import final

from msgspec import Struct

from steptrail.domain.continuation.built_in import Guard, built_in
from steptrail.domain.continuation.criteria.limit import check_count
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView, StepView

_CALLER = 3
"""How many frames above the warning the criterion is constructed: `_warn`, `__post_init__`, caller."""


def _warn(name: str, instead: str) -> None:
    warnings.warn(f"{name} is replaced by the error policy: use {instead}", DeprecationWarning, stacklevel=_CALLER)


@final
@built_in
class ErrorPresenceCheck(Guard, Struct, frozen=True):
    """Forbids when the last step failed. Deprecated: use `ErrorPolicy.stop_on_any_error()`."""

    has_errors: Callable[[StateView], bool] | None = None

    def __post_init__(self) -> None:
        _warn("ErrorPresenceCheck", "ErrorPolicy.stop_on_any_error()")

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `hasErrors`."""
        if self.has_errors is not None:
            failed = self.has_errors(state)
        else:
            failed = state.current_step is not None and state.current_step.has_errors
        return self._vote({"hasErrors": failed}, StopReason.ERROR if failed else None, fails=True)

    @staticmethod
    def _words(_: bool, context: Context) -> str:
        return "Errors present in the last step" if context["hasErrors"] else "No errors present"


@final
@built_in
class RetryLimit(Guard, Struct, frozen=True):
    """Forbids when the last `max_retries` steps failed. Deprecated: use `ErrorPolicy.retry_all(n)` or another.

    It allows before the first step. A limit of 0 forbids after the first step, even if it went well. `is_error`
    replaces the test whether a step failed. Raises `ConfigurationError` for a negative limit.
    """

    max_retries: int
    is_error: Callable[[StepView], bool] = attrgetter("has_errors")

    def __post_init__(self) -> None:
        check_count("Max retries", self.max_retries)
        _warn("RetryLimit", "ErrorPolicy.retry_all(n) or one of the other presets")

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `consecutiveFailures` and `maxRetries`."""
        failures = 0
        for step in reversed(state.steps):
            if not self.is_error(step):
                break
            failures += 1
        reached = bool(state.steps) and failures >= self.max_retries
        context: dict[str, JsonValue] = {"consecutiveFailures": failures, "maxRetries": self.max_retries}
        return self._vote(context, StopReason.RETRY_LIMIT if reached else None)

    @staticmethod
    def _words(forbids: bool, context: Context) -> str:
        label = "Retry limit reached" if forbids else "Retries under limit"
        return f"{label}: {context['consecutiveFailures']}/{context['maxRetries']}"
