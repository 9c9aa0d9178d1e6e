"""The guard that stops a run when a person has asked for that. It is registered first, so that it decides."""

from typing import final

from steptrail.domain.continuation.built_in import Guard, built_in
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView


@final
@built_in
class UserStop(Guard):
    """Forbids when a stop was requested."""

    __slots__ = ()

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `stopRequested`, and then `requestedBy` and `requestReason` (nullable)."""
        request = state.stop_request
        if request is None:
            return self._vote({"stopRequested": False}, None)
        told: dict[str, JsonValue] = {"requestedBy": request.by, "requestReason": request.reason}
        return self._vote({"stopRequested": True, **told}, StopReason.USER_REQUESTED)

    @staticmethod
    def _words(_: bool, context: Context) -> str:
        if not context["stopRequested"]:
            return "No stop requested"
        why = context["requestReason"]
        return f"Stop requested by {context['requestedBy']}" + (f": {why}" if why else "")
