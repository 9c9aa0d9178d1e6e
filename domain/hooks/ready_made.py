"""The built-in hooks: criteria as hooks, under the names of the guards, and a hook that blocks tools."""

from collections.abc import Iterable, Sequence

from steptrail.domain.continuation.criteria.answer import FinishReasonCheck
from steptrail.domain.continuation.criteria.error_policy import ErrorPolicyCriterion
from steptrail.domain.continuation.criteria.work import ToolCallPresenceCheck
from steptrail.domain.continuation.limits import (
    CumulativeExecutionTimeLimit,
    ExecutionTimeLimit,
    StepsLimit,
    TokenUsageLimit,
)
from steptrail.domain.continuation.protocols import CanExplainContinuation
from steptrail.domain.hooks.hook import Next
from steptrail.domain.hooks.state import HookState
from steptrail.domain.inference import FinishReason
from steptrail.domain.policy.policy import ErrorPolicy

__all__ = [
    "CriterionHook",
    "CumulativeExecutionTimeLimitHook",
    "ErrorPolicyHook",
    "ExecutionTimeLimitHook",
    "FinishReasonHook",
    "StepsLimitHook",
    "TokenUsageLimitHook",
    "ToolBlockingHook",
    "ToolCallPresenceHook",
]


class CriterionHook:
    """A hook made of a criterion: it adds the criterion's vote and passes the state on."""

    def __init__(self, criterion: CanExplainContinuation) -> None:
        self._criterion = criterion

    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        """Add the vote of the criterion, if it does not abstain, and pass the state on."""
        vote = self._criterion.explain(state)
        return next(state if vote is None else state.with_evaluation(vote))


class StepsLimitHook(CriterionHook):
    """`StepsLimit` as a hook."""

    def __init__(self, max_steps: int) -> None:
        super().__init__(StepsLimit(max_steps))


class TokenUsageLimitHook(CriterionHook):
    """`TokenUsageLimit` as a hook."""

    def __init__(self, max_tokens: int) -> None:
        super().__init__(TokenUsageLimit(max_tokens))


class ExecutionTimeLimitHook(CriterionHook):
    """`ExecutionTimeLimit` as a hook; seconds."""

    def __init__(self, max_seconds: float) -> None:
        super().__init__(ExecutionTimeLimit(max_seconds))


class CumulativeExecutionTimeLimitHook(CriterionHook):
    """`CumulativeExecutionTimeLimit` as a hook; seconds."""

    def __init__(self, max_seconds: float) -> None:
        super().__init__(CumulativeExecutionTimeLimit(max_seconds))


class FinishReasonHook(CriterionHook):
    """`FinishReasonCheck` as a hook."""

    def __init__(self, finish_reasons: Sequence[FinishReason | str]) -> None:
        super().__init__(FinishReasonCheck(finish_reasons))


class ErrorPolicyHook(CriterionHook):
    """`ErrorPolicyCriterion` as a hook."""

    def __init__(self, policy: ErrorPolicy) -> None:
        super().__init__(ErrorPolicyCriterion.with_policy(policy))


class ToolCallPresenceHook(CriterionHook):
    """`ToolCallPresenceCheck` as a hook."""

    def __init__(self) -> None:
        super().__init__(ToolCallPresenceCheck())


class ToolBlockingHook:
    """Blocks the tools of these names. Register it for `pre_tool_use`."""

    name = "ToolBlockingHook"

    def __init__(self, blocked: Iterable[str], reason: str = "") -> None:
        self._blocked, self._reason = frozenset(blocked), reason

    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        """Block the current call if its tool is one of them, and pass the state on."""
        call = state.current_execution.tool_call
        blocked = call is not None and call.name in self._blocked
        return next(state.with_blocked_tool_call(self._reason) if blocked else state)
