"""The guard that obeys a person who asked the run to stop. Registered first, so it is the one that is named."""

from typing import ClassVar, final

from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.views import StateView

__all__ = ["UserStop"]


@final
class UserStop:
    """Forbids when a stop was asked for."""

    __slots__ = ()

    is_guard: ClassVar[bool] = True

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `stopRequested`, and then `requestedBy` and `requestReason` (nullable)."""
        request = state.stop_request
        if request is None:
            return ContinuationEvaluation(
                criterion_class="UserStop", decision=ContinuationDecision.ALLOW, context={"stopRequested": False}
            )
        return ContinuationEvaluation(
            criterion_class="UserStop",
            decision=ContinuationDecision.FORBID,
            context={"stopRequested": True, "requestedBy": request.by, "requestReason": request.reason},
            stop_reason=StopReason.USER_REQUESTED,
        )
