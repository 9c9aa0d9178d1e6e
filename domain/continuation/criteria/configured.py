"""A guard that votes for a setting of the agent."""

from typing import ClassVar, final

from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.names import criterion_name
from steptrail.domain.continuation.protocols import CanExplainContinuation, StateView

__all__ = ["Configured"]


@final
class Configured:
    """Votes as `guard` does, under its name; a forbid says which `setting` it was taken by.

    So advice on a forbid goes by the vote, and not by what criteria are called: a service may add another `StepsLimit`.
    """

    __slots__ = ("_guard", "_name", "_setting")

    is_guard: ClassVar[bool] = True

    def __init__(self, setting: str, guard: CanExplainContinuation) -> None:
        self._setting, self._guard, self._name = setting, guard, criterion_name(guard)

    @property
    def name(self) -> str:
        """What the vote is called in the log."""
        return self._name

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        vote = self.explain(state)
        return ContinuationDecision.ALLOW if vote is None else vote.decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        """Vote as the guard does."""
        vote = self._guard.explain(state)
        if vote is None or vote.decision is not ContinuationDecision.FORBID:
            return vote
        return vote.model_copy(update={"setting": self._setting})
