"""A guard on trial: its votes are recorded and never stop a run."""

from typing import ClassVar, Final, final

from steptrail.domain.continuation.built_in import built_in
from steptrail.domain.continuation.collection import ContinuationCriteria
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.names import criterion_name
from steptrail.domain.continuation.protocols import Criterion, is_guard
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.views import StateView


@final
@built_in
class Shadow:
    """Records the vote of a guard as an `allow`, under the guard's name.

    The context holds the guard's own decision as `shadow`, and the stop reason of a forbid as `shadowStopReason`;
    `ContinuationEvaluation.shadow` returns it. A guard that raises does not stop the run either. The criterion abstains
    when the guard does. Raises `ConfigurationError` for a criterion that is no guard, because a work driver cannot be
    tried without an effect on the run.
    """

    __slots__ = ("_guard", "name")

    is_guard: ClassVar[bool] = True

    def __init__(self, guard: Criterion) -> None:
        if not is_guard(guard):
            raise ConfigurationError(f"{criterion_name(guard)} is not a guard, and only a guard can be in shadow")
        self._guard = ContinuationCriteria(guard)
        self.name: Final = criterion_name(guard)

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Return `allow`."""
        return ContinuationDecision.ALLOW

    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        """Return the vote of the guard, turned into an `allow` in shadow; None when the guard abstains."""
        return next((vote.in_shadow() for vote in self._guard.votes(state)), None)
