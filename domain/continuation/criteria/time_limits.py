"""Guards on how long a run may take: wall time of one stretch, or active time over all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

from pydantic import JsonValue

from steptrail.domain.continuation.criteria.guarding import check_seconds, limit_vote
from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.views import StateView

__all__ = ["CumulativeExecutionTimeLimit", "ExecutionTimeLimit"]


@final
@dataclass(frozen=True, slots=True)
class ExecutionTimeLimit:
    """Forbids when `max_seconds` of wall time have passed since the execution started or was last resumed.

    `getter` replaces the state's own elapsed seconds. Raises `ConfigurationError` unless the limit is positive.
    """

    max_seconds: float
    getter: Callable[[StateView], float] | None = None

    is_guard: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_seconds(self.max_seconds)

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `elapsedSeconds` and `maxSeconds`."""
        elapsed = state.elapsed_seconds if self.getter is None else self.getter(state)
        reached = elapsed >= self.max_seconds
        context: dict[str, JsonValue] = {"elapsedSeconds": elapsed, "maxSeconds": self.max_seconds}
        return limit_vote("ExecutionTimeLimit", context, StopReason.TIME_LIMIT if reached else None)


@final
@dataclass(frozen=True, slots=True)
class CumulativeExecutionTimeLimit:
    """Forbids when the steps of an execution have taken `max_seconds`, pauses between them not counted.

    `getter` replaces the state's own sum. Raises `ConfigurationError` unless the limit is positive.
    """

    max_seconds: float
    getter: Callable[[StateView], float] | None = None

    is_guard: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_seconds(self.max_seconds)

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `cumulativeSeconds` and `maxSeconds`."""
        spent = state.cumulative_execution_seconds if self.getter is None else self.getter(state)
        reached = spent >= self.max_seconds
        context: dict[str, JsonValue] = {"cumulativeSeconds": spent, "maxSeconds": self.max_seconds}
        return limit_vote("CumulativeExecutionTimeLimit", context, StopReason.TIME_LIMIT if reached else None)
