"""Votes in, verdict out: the rules that resolve them, and what is reported about the result."""

from collections.abc import Sequence

from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.evaluation import ContinuationEvaluation

__all__ = ["AGGREGATE", "EvaluationProcessor"]

_STRONGEST_FIRST = tuple(ContinuationDecision)

AGGREGATE = "aggregate"
"""Who resolved an outcome that no single vote decided."""

# Order matters: the first part that the name contains decides. `ExecutionTimeLimit` covers the cumulative one too.
_REASON_BY_NAME = (
    ("StepsLimit", StopReason.STEPS_LIMIT),
    ("TokenUsageLimit", StopReason.TOKEN_LIMIT),
    ("ExecutionTimeLimit", StopReason.TIME_LIMIT),
    ("ErrorPolicy", StopReason.ERROR),
    ("FinishReason", StopReason.FINISH_REASON),
)


class EvaluationProcessor:
    """Pure functions over votes. Where several votes are equally strong, the one registered first is named."""

    @staticmethod
    def should_continue(evaluations: Sequence[ContinuationEvaluation]) -> bool:
        """Tell whether a run with these votes goes on: whether it is resolved as `request`."""
        return EvaluationProcessor.resolve(evaluations) is ContinuationDecision.REQUEST

    @staticmethod
    def dominant(evaluations: Sequence[ContinuationEvaluation]) -> ContinuationDecision | None:
        """Return the strongest decision present, or nothing when nobody voted."""
        present = {vote.decision for vote in evaluations}
        return next((decision for decision in _STRONGEST_FIRST if decision in present), None)

    @staticmethod
    def resolve(evaluations: Sequence[ContinuationEvaluation]) -> ContinuationDecision:
        """Return the decision of the outcome: `forbid`, else `request` when the run goes on, else `stop`.

        A run that goes on because nobody objects is reported as `request`, as its wire form has always been.
        """
        dominant = EvaluationProcessor.dominant(evaluations)
        if dominant is ContinuationDecision.ALLOW:
            return ContinuationDecision.REQUEST
        return ContinuationDecision.STOP if dominant is None else dominant

    @staticmethod
    def decider(evaluations: Sequence[ContinuationEvaluation]) -> ContinuationEvaluation | None:
        """Return the vote that decided: the first forbid, else the first request, else nothing."""
        for decision in (ContinuationDecision.FORBID, ContinuationDecision.REQUEST):
            for vote in evaluations:
                if vote.decision is decision:
                    return vote
        return None

    @staticmethod
    def stop_reason(evaluations: Sequence[ContinuationEvaluation]) -> StopReason:
        """Return the stop reason of the outcome: that of the first forbid, else `completed`."""
        decider = EvaluationProcessor.decider(evaluations)
        if decider is None or decider.decision is not ContinuationDecision.FORBID:
            return StopReason.COMPLETED
        return decider.stop_reason or EvaluationProcessor.infer_stop_reason(decider.criterion_class)

    @staticmethod
    def infer_stop_reason(criterion_class: str) -> StopReason:
        """Guess the stop reason of a forbid that carries none, by what its criterion is called."""
        return next((reason for part, reason in _REASON_BY_NAME if part in criterion_class), StopReason.GUARD)
