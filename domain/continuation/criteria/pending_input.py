"""The work driver that has messages answered which came while the agent was busy."""

from typing import ClassVar, final

from steptrail.domain.continuation.built_in import BuiltIn, built_in
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context
from steptrail.domain.views import StateView


@final
@built_in
class PendingInput(BuiltIn):
    """Requests another step while there is a message of the user that no model call has seen; abstains otherwise.

    It abstains before the first step, because every model call sees the input of the execution.
    """

    is_guard: ClassVar[bool] = False

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        """Vote with `unansweredInput`."""
        if not state.has_unanswered_input or state.current_step is None:
            return None
        return self._cast(ContinuationDecision.REQUEST, {"unansweredInput": True})

    @staticmethod
    def _words(_: bool, context: Context) -> str:
        return (
            "Input that no model call has seen, requesting continuation"
            if context["unansweredInput"]
            else "No unanswered input"
        )
