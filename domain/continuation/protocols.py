"""The protocols of criteria: a criterion decides, or explains, whether a run goes on."""

from typing import Protocol, TypeAlias, runtime_checkable

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.views import StateView


@runtime_checkable
class CanDecideToContinue(Protocol):
    """A criterion that only decides. Its vote has the default text."""

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote on whether the run goes on."""
        ...


@runtime_checkable
class CanExplainContinuation(Protocol):
    """A criterion that votes with a reason. If a criterion has both methods, only `explain` is called."""

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        """Vote with a reason, or abstain by returning None."""
        ...


Criterion: TypeAlias = CanDecideToContinue | CanExplainContinuation


def is_guard(criterion: object) -> bool:
    """Tell whether a criterion also votes when a run is resumed, in the middle of a step.

    A criterion says so itself (`is_guard = True`). One that does not say waits for the next boundary: the `stop` of
    a work driver would end the run in the middle of its work.
    """
    return getattr(criterion, "is_guard", False) is True
