"""Guards on what a run is billed: tokens in, tokens out, and money.

They count per execution, are asked before a step starts and forbid at the limit (`>=`). A step is not cut short: a run
may overshoot by one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, final

from pydantic import JsonValue

from steptrail.domain.continuation.criteria.guarding import check_count, limit_vote
from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.prices import Cost, PriceTable, Unpriced, usd_text
from steptrail.domain.views import StateView

__all__ = ["CostLimit", "InputTokenLimit", "OutputTokenLimit"]


@final
@dataclass(frozen=True, slots=True)
class InputTokenLimit:
    """Forbids when `max_tokens` tokens were sent, cached ones included. `counter` replaces the state's own count.

    Raises `ConfigurationError` for a negative limit.
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
        """Vote with `inputTokens` and `maxInputTokens`."""
        tokens = state.usage.all_input if self.counter is None else self.counter(state)
        context: dict[str, JsonValue] = {"inputTokens": tokens, "maxInputTokens": self.max_tokens}
        return limit_vote("InputTokenLimit", context, StopReason.TOKEN_LIMIT if tokens >= self.max_tokens else None)


@final
@dataclass(frozen=True, slots=True)
class OutputTokenLimit:
    """Forbids when `max_tokens` tokens were written, reasoning included. `counter` replaces the state's own count.

    Raises `ConfigurationError` for a negative limit.
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
        """Vote with `outputTokens` and `maxOutputTokens`."""
        tokens = state.usage.all_output if self.counter is None else self.counter(state)
        context: dict[str, JsonValue] = {"outputTokens": tokens, "maxOutputTokens": self.max_tokens}
        return limit_vote("OutputTokenLimit", context, StopReason.TOKEN_LIMIT if tokens >= self.max_tokens else None)


@final
@dataclass(frozen=True, slots=True)
class CostLimit:
    """Forbids when the execution's model calls have cost `max_usd` US dollars by `prices`.

    What has no price makes the limit undecidable: a call of an unpriced model, a reply that does not say what it used,
    and the model that the next step would ask. `unpriced` says what then: `fail_closed` forbids, also before the first
    call; `warn` names it in the vote; `ignore` counts what can be priced. Raises `ConfigurationError` for a limit that
    is negative or no number.
    """

    max_usd: Decimal
    prices: PriceTable
    unpriced: Unpriced = "fail_closed"

    is_guard: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given: Any = self.max_usd
        if not (isinstance(given, Decimal) and given.is_finite() and given >= 0):
            raise ConfigurationError(f"Max cost must be a number that is not negative, it is {given}.")

    def decide(self, state: StateView, /) -> ContinuationDecision:
        """Vote without a reason."""
        return self.explain(state).decision

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `costUsd` and `maxCostUsd` (text, so that they stay exact).

        A forbid adds `limit`, and `undecidable` where something has no price; that stands in `unpricedModels`,
        `unmeteredReplies` and `unattributedTokens`, unless it is ignored.
        """
        cost = self._with_next(state, self.prices.cost(state.model_usage, billed=state.usage))
        context: dict[str, JsonValue] = {"costUsd": usd_text(cost.usd), "maxCostUsd": usd_text(self.max_usd)}
        if self.unpriced != "ignore":
            context.update((key, value) for key, value in cost.to_dict().items() if key != "usd" and value)
        undecidable = self.unpriced == "fail_closed" and not cost.is_complete
        if undecidable:
            context["undecidable"] = True
        if not undecidable and cost.usd < self.max_usd:
            return limit_vote("CostLimit", context, None)
        return limit_vote("CostLimit", {**context, "limit": "max_cost"}, StopReason.GUARD)

    def _with_next(self, state: StateView, cost: Cost) -> Cost:
        name = state.model_name
        if name is None or name in cost.unpriced or self.prices.price_of(name) is not None:
            return cost
        return cost.model_copy(update={"unpriced": (*cost.unpriced, name)})
