"""The vote of a limit: it allows, or it forbids and says with which stop reason."""

from pydantic import JsonValue

from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.evaluation import ContinuationEvaluation

__all__ = ["limit_vote"]


def limit_vote(criterion: str, context: dict[str, JsonValue], forbids: StopReason | None) -> ContinuationEvaluation:
    """Return the vote of the limit named `criterion`: forbid with the stop reason `forbids`, without one allow."""
    return ContinuationEvaluation(
        criterion_class=criterion,
        decision=ContinuationDecision.ALLOW if forbids is None else ContinuationDecision.FORBID,
        context=context,
        stop_reason=forbids,
        is_limit=forbids is not None,
    )
