"""The built-in hooks: criteria as hooks, under the names of the guards, and a hook that blocks tools."""

from collections.abc import Iterable, Sequence

from steptrail.domain.continuation.collection import voter
from steptrail.domain.continuation.criteria.answer import FinishReasonCheck
from steptrail.domain.continuation.criteria.error_policy import ErrorPolicyCriterion
from steptrail.domain.continuation.criteria.work import ToolCallPresenceCheck
from steptrail.domain.continuation.limits import (
    CumulativeExecutionTimeLimit,
    ExecutionTimeLimit,
    StepsLimit,
    TokenUsageLimit,
)
from steptrail.domain.continuation.protocols import Criterion
from steptrail.domain.hooks.hook import Next
from steptrail.domain.hooks.state import HookState
from steptrail.domain.inference import FinishReason
from steptrail.domain.kernel.given import a_row, a_text
from steptrail.domain.policy.policy import ErrorPolicy


class CriterionHook:
    """A hook made of a criterion: it adds the criterion's vote and passes the state on.

    Raises `ConfigurationError` for an object that is no criterion.
    """

    def __init__(self, criterion: Criterion) -> None:
        _, self._vote = voter(criterion)

    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        """Add the vote of the criterion, if it does not abstain, and pass the state on."""
        vote = self._vote(state)
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
    """Blocks the tools of these names. Register it for `pre_tool_use`.

    Raises `ConfigurationError` for what is no name.
    """

    name = "ToolBlockingHook"

    def __init__(self, blocked: Iterable[str], reason: str = "") -> None:
        # A single text is an iterable of letters, and would block nothing.
        names = (blocked,) if isinstance(blocked, str) else a_row(blocked, "the tools of a ToolBlockingHook")
        self._blocked = frozenset(a_text(name, "the name of a tool that a ToolBlockingHook blocks") for name in names)
        self._reason = a_text(reason, "the reason of a ToolBlockingHook")

    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        """Block the current call if its tool is one of them, and pass the state on."""
        call = state.current_execution.tool_call
        blocked = call is not None and call.name in self._blocked
        return next(state.with_blocked_tool_call(self._reason) if blocked else state)
