"""The models that are asked in turn when the one before fails, and the rule that says when."""

from itertools import islice, takewhile

from steptrail.domain.base import BoundedPositive, Settings
from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import ModelInfo
from steptrail.domain.output import OutputSpec
from steptrail.domain.policy.context import ErrorContext, ErrorHandlingDecision
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.views import StateView, StepView

SWITCHING: tuple[ErrorType, ...] = (ErrorType.RATE_LIMIT, ErrorType.TIMEOUT, ErrorType.MODEL)
"""The types of errors of a model call against which another model may help."""


class FallbackModel(Settings, frozen=True, kw_only=True):
    """A model that is asked when the one before has failed.

    `output` is the form in which it is asked for an answer of a type; None for an agent that answers in text.
    """

    model: ModelInfo
    output: OutputSpec | None = None


class FallbackSpec(Settings, frozen=True, kw_only=True):
    """The models that are left to an execution, in order, and the rule by which it goes on with the next one.

    `after` steps in a row have failed then, because the call of the present model did, with errors of the types `on`
    that may pass; or fewer, if the provider or the backoff asks for a wait that the run does not sit out. Until then
    such a step is tried again, even if the error policy would stop.
    """

    models: tuple[FallbackModel, ...]
    on: tuple[ErrorType, ...]
    after: BoundedPositive

    def failures(self, state: StateView) -> int:
        """Return how many steps in a row have failed so by now, with the present model; `after` at most."""
        # A step whose model call was given up has neither a reply nor an error. It does not count.
        steps = (step for step in reversed(state.steps) if step.finish_reason is not None or step.has_errors)
        # After a switch the failures in a row begin at 0 again, so none of the model before is among so many.
        most = min(self.after, state.consecutive_failures) if self.models else 0
        return sum(1 for _ in takewhile(self._counts, islice(steps, most)))

    def _counts(self, step: StepView) -> bool:
        error = step.errors[0].error if step.has_errors and step.finish_reason is None else None
        return error is not None and error.type in self.on and error.retryable


def handling_of(
    error: ErrorContext, policy: ErrorPolicy, fallback: FallbackSpec | None, state: StateView
) -> ErrorHandlingDecision:
    """Return the decision about the error of the last step: a retry where the policy stops and a model is left."""
    decision = policy.evaluate(error)
    overruled = decision is ErrorHandlingDecision.STOP and fallback is not None and fallback.failures(state) > 0
    return ErrorHandlingDecision.RETRY if overruled else decision
