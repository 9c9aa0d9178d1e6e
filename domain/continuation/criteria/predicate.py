"""A function as a criterion."""

from collections.abc import Callable
from typing import Final, final

from steptrail.domain.continuation.built_in import built_in
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.names import chosen_name
from steptrail.domain.kernel.given import a_flag, a_function, a_text
from steptrail.domain.views import StateView


@final
@built_in
class CallableCriterion:
    """A criterion that votes as `predicate` returns: a `ContinuationDecision`, or a bool, as a plain guard does.

    `True` allows, and `False` forbids with the stop reason `guard`. `name` is the name of the vote in the log; give one
    if an agent has several such criteria. `is_guard` says whether it also votes on a resume, where only `allow` and
    `forbid` count.
    """

    __slots__ = ("_predicate", "is_guard", "name")

    def __init__(
        self,
        predicate: Callable[[StateView], bool | ContinuationDecision],
        *,
        name: str = "CallableCriterion",
        is_guard: bool = True,
    ) -> None:
        self._predicate = a_function(predicate, "what a CallableCriterion asks", "the state")
        self.name: Final = chosen_name(a_text(name, "the name of a CallableCriterion"), "CallableCriterion")
        self.is_guard: Final = a_flag(is_guard, "`is_guard`")

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Return the decision of the predicate. Raises `TypeError` when it returns neither of the two types."""
        answer: object = self._predicate(state)
        return _decision(answer)


def _decision(answer: object) -> ContinuationDecision:
    if isinstance(answer, ContinuationDecision):
        return answer
    if isinstance(answer, bool):
        return ContinuationDecision.ALLOW if answer else ContinuationDecision.FORBID
    raise TypeError(f"the predicate returned {type(answer).__name__}, not a bool or a ContinuationDecision")
