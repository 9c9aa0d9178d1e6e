"""Guards on how much a run may use: steps, tokens, tool calls, and segments that got nowhere.

They count per execution and are asked before a step starts. All but the one on tool calls forbid at the limit (`>=`): a
limit of 0 runs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

from pydantic import JsonValue

from steptrail.domain.continuation.criteria.guarding import check_count, limit_vote
from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.views import StateView

__all__ = ["CrashLoopLimit", "StepsLimit", "TokenUsageLimit", "ToolCallLimit"]


@final
@dataclass(frozen=True, slots=True)
class StepsLimit:
    """Forbids when `max_steps` steps are recorded. `counter` replaces the state's own count.

    Raises `ConfigurationError` for a negative limit.
    """

    max_steps: int
    counter: Callable[[StateView], int] | None = None

    is_guard: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("Max steps", self.max_steps)

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `currentSteps` and `maxSteps`."""
        steps = state.step_count if self.counter is None else self.counter(state)
        reached = steps >= self.max_steps
        context: dict[str, JsonValue] = {"currentSteps": steps, "maxSteps": self.max_steps}
        return limit_vote("StepsLimit", context, StopReason.STEPS_LIMIT if reached else None)


@final
@dataclass(frozen=True, slots=True)
class TokenUsageLimit:
    """Forbids when `max_tokens` tokens of all kinds are used. `counter` replaces the state's own count.

    A step is not cut short: a run may overshoot by one step. Raises `ConfigurationError` for a negative limit.
    """

    max_tokens: int
    counter: Callable[[StateView], int] | None = None

    is_guard: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("Max tokens", self.max_tokens)

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `totalTokens` and `maxTotalTokens`."""
        tokens = state.usage.total if self.counter is None else self.counter(state)
        reached = tokens >= self.max_tokens
        context: dict[str, JsonValue] = {"totalTokens": tokens, "maxTotalTokens": self.max_tokens}
        return limit_vote("TokenUsageLimit", context, StopReason.TOKEN_LIMIT if reached else None)


@final
@dataclass(frozen=True, slots=True)
class ToolCallLimit:
    """Forbids when the model has asked for more than `max_calls` tool calls; the ones too many were not run.

    So a run that needs exactly as many may still answer. Raises `ConfigurationError` for a negative limit.
    """

    max_calls: int

    is_guard: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("Max tool calls", self.max_calls)

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `toolCalls`, `maxToolCalls` and `refusedToolCalls`."""
        refused = state.tool_calls_refused
        # Where nobody refuses them, because the limit is in shadow or was lowered, the ones too many have run.
        exceeded = refused > 0 or state.tool_call_count > self.max_calls
        context: dict[str, JsonValue] = {
            "toolCalls": state.tool_call_count,
            "maxToolCalls": self.max_calls,
            "refusedToolCalls": refused,
        }
        return limit_vote("ToolCallLimit", context, StopReason.GUARD if exceeded else None)


@final
@dataclass(frozen=True, slots=True)
class CrashLoopLimit:
    """Forbids when `max_segments` segments in a row ended without a new commit: the run keeps killing its process.

    Raises `ConfigurationError` for a limit below 1.
    """

    max_segments: int = 3

    is_guard: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("Max segments", self.max_segments, least=1)

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `unproductiveSegments` and `maxSegments`."""
        segments = state.unproductive_segments
        reached = segments >= self.max_segments
        context: dict[str, JsonValue] = {"unproductiveSegments": segments, "maxSegments": self.max_segments}
        return limit_vote("CrashLoopLimit", context, StopReason.GUARD if reached else None)
