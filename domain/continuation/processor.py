"""The rules that resolve votes: whether the run goes on, which vote decided, and the stop reason."""

from collections.abc import Sequence

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.names import reserve
from steptrail.domain.shared.run import StopReason

AGGREGATE = reserve("aggregate")
"""The `resolved_by` of an outcome that no single vote decided."""


class EvaluationProcessor:
    """Pure functions over votes. Of several votes of equal strength, the one that was registered first decides.

    A forbid that fails the run comes before one that does not, so that no failure is hidden by a limit that is reached
    at the same moment. Only a stop that a person asked for comes before it.
    """

    @staticmethod
    def should_continue(evaluations: Sequence[ContinuationEvaluation]) -> bool:
        """Tell whether a run with these votes goes on: whether it is resolved as `request`."""
        return EvaluationProcessor.resolve(evaluations) is ContinuationDecision.REQUEST

    @staticmethod
    def dominant(evaluations: Sequence[ContinuationEvaluation]) -> ContinuationDecision | None:
        """Return the strongest decision of the votes; None when there are no votes."""
        return ContinuationDecision.strongest({vote.decision for vote in evaluations})

    @staticmethod
    def resolve(evaluations: Sequence[ContinuationEvaluation]) -> ContinuationDecision:
        """Return the decision of the outcome: `forbid`, else `request` when the run goes on, else `stop`.

        A run that goes on because no vote objects is reported as `request`, because the wire form says so.
        """
        dominant = EvaluationProcessor.dominant(evaluations)
        if dominant is ContinuationDecision.ALLOW:
            return ContinuationDecision.REQUEST
        return ContinuationDecision.STOP if dominant is None else dominant

    @staticmethod
    def decider(evaluations: Sequence[ContinuationEvaluation]) -> ContinuationEvaluation | None:
        """Return the vote that decided: the first forbid by weight, else the first request, else None."""
        forbids = [vote for vote in evaluations if vote.decision is ContinuationDecision.FORBID]
        if forbids:
            return min(forbids, key=_weight)
        return next((vote for vote in evaluations if vote.decision is ContinuationDecision.REQUEST), None)

    @staticmethod
    def fails(vote: ContinuationEvaluation) -> bool:
        """Tell whether a forbid makes the run end as `failed`: it says so itself, or its stop reason is `error`."""
        forbids = vote.decision is ContinuationDecision.FORBID
        return forbids and (vote.fails or _reason_of(vote) is StopReason.ERROR)

    @staticmethod
    def stop_reason(evaluations: Sequence[ContinuationEvaluation]) -> StopReason:
        """Return the stop reason of the outcome: that of the forbid that decided, else `completed`.

        A forbid that names none stops the run as a `guard`.
        """
        return EvaluationProcessor.stop_reason_of(EvaluationProcessor.decider(evaluations))

    @staticmethod
    def stop_reason_of(decider: ContinuationEvaluation | None) -> StopReason:
        """Return the stop reason of an outcome that this vote has decided."""
        if decider is None or decider.decision is not ContinuationDecision.FORBID:
            return StopReason.COMPLETED
        return _reason_of(decider)


def _reason_of(forbid: ContinuationEvaluation) -> StopReason:
    return forbid.stop_reason or StopReason.GUARD


def _weight(forbid: ContinuationEvaluation) -> int:
    """Return the weight of a forbid. The lowest weight decides; of equal weights, the first vote does."""
    if _reason_of(forbid) is StopReason.USER_REQUESTED:
        return 0
    return 1 if EvaluationProcessor.fails(forbid) else 2
