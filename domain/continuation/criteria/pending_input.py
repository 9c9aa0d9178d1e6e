"""The work driver that answers what was said while the agent was busy."""

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.protocols import StateView

__all__ = ["PendingInput"]


class PendingInput:
    """Requests another step while the user has said something that no model call has seen; abstains otherwise."""

    is_guard = False

    def explain(self, state: StateView) -> ContinuationEvaluation | None:
        """Return the vote."""
        if not state.has_unanswered_input or state.current_step is None:
            return None
        return ContinuationEvaluation(
            criterion_class="PendingInput",
            decision=ContinuationDecision.REQUEST,
            context={"unansweredInput": True},
        )
