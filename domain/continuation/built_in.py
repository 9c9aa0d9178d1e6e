"""The common part of the built-in criteria: a reserved name, the texts of their votes, and one way to vote."""

from typing import ClassVar, TypeVar

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.names import reserve
from steptrail.domain.continuation.reasons import give_words
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView

K = TypeVar("K", bound=type)


def built_in(kind: K) -> K:
    """Reserve the name of a class of criteria, and take the texts of its votes from its `_words`, if it has any.

    `_words(forbids, context)` returns the text of a vote from the context that the vote stores. It may raise for a
    missing key or a wrong type: then the default text is used.
    """
    reserve(kind.__name__)
    if (words := getattr(kind, "_words", None)) is not None:
        give_words(kind.__name__, words)
    return kind


class BuiltIn:
    """A criterion whose `decide` returns the decision of its `explain`; `allow`, the weakest vote, when it abstains."""

    __slots__ = ()

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        """Vote with a reason, or abstain by returning None."""
        raise NotImplementedError

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        vote = self.explain(state)
        return ContinuationDecision.ALLOW if vote is None else vote.decision

    def _cast(self, decision: ContinuationDecision, context: dict[str, JsonValue]) -> ContinuationEvaluation:
        """Vote under the name of the class."""
        return ContinuationEvaluation(criterion_class=type(self).__name__, decision=decision, context=context)


class Guard(BuiltIn):
    """A criterion that allows or forbids, under the name of its class."""

    __slots__ = ()

    is_guard: ClassVar[bool] = True

    def _vote(
        self, context: dict[str, JsonValue], forbids: StopReason | None, *, fails: bool = False, is_limit: bool = False
    ) -> ContinuationEvaluation:
        """Forbid with the stop reason `forbids`, or allow if it is None. `fails` and `is_limit` need a forbid."""
        if forbids is None:
            return ContinuationEvaluation(criterion_class=type(self).__name__, context=context)
        return ContinuationEvaluation(
            criterion_class=type(self).__name__,
            decision=ContinuationDecision.FORBID,
            context=context,
            stop_reason=forbids,
            fails=fails,
            is_limit=is_limit,
        )
