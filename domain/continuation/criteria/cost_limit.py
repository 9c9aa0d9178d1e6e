"""The limit on money."""

from decimal import Decimal
from typing import Any, ClassVar, final, get_args

from msgspec import Struct, structs

from steptrail.domain.continuation.built_in import built_in
from steptrail.domain.continuation.criteria.limit import Limit, LimitUnit, More
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.reasons import Context, texts
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_kind_of
from steptrail.domain.prices import (
    USD_PLACES,
    Cost,
    PriceTable,
    Unpriced,
    next_microdollar,
    usd_text,
    without_price,
    wrong_money,
)
from steptrail.domain.shared.run import StopReason
from steptrail.domain.views import StateView


@final
@built_in
class CostLimit(Limit, Struct, frozen=True):
    """Forbids when the execution's model calls have cost `max_usd` US dollars by `prices`.

    The limit is undecidable if tokens have no price: those of an unpriced model, those of a reply that does not state
    its usage, or those of the model that the next step would ask. `unpriced` says how it votes then. `fail_closed`
    forbids, even before the first call. `warn` names them in the vote. `ignore` counts only the tokens with a price.
    Raises `ConfigurationError` for a limit that is no amount of money, for prices that are no `PriceTable`, and for
    another word as `unpriced`.
    """

    max_usd: Decimal
    prices: PriceTable
    unpriced: Unpriced = "fail_closed"

    counts: ClassVar[str] = "what the model calls cost, by the recorded prices"
    unit: ClassVar[LimitUnit | None] = "usd"
    made_of: ClassVar[tuple[str, ...]] = ("max_cost", "prices", "unpriced")

    def __post_init__(self) -> None:
        a_kind_of(Decimal, self.max_usd, "the max_usd of a CostLimit")
        if why := wrong_money(self.max_usd, USD_PLACES):
            raise ConfigurationError(f"the max_usd of a CostLimit: {why}, not {self.max_usd}")
        a_kind_of(PriceTable, self.prices, "what a CostLimit counts by")
        if self.unpriced not in get_args(Unpriced):
            raise ConfigurationError(f"unpriced is one of {', '.join(get_args(Unpriced))}, not {self.unpriced!r}")

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Vote with `costUsd` and `maxCostUsd` (text, so that they stay exact).

        A forbid adds `limit`, and `undecidable` if tokens have no price. Unless they are ignored, those tokens are in
        `unpricedModels`, `unmeteredReplies` and `unattributedTokens`.
        """
        cost = self._with_next(state, self.prices.cost(state.model_usage, billed=state.usage))
        context: dict[str, JsonValue] = {"costUsd": usd_text(cost.usd), "maxCostUsd": usd_text(self.max_usd)}
        if self.unpriced != "ignore":
            context.update((key, value) for key, value in cost.to_dict().items() if key != "usd" and value)
        undecidable = self.unpriced == "fail_closed" and not cost.is_complete
        if undecidable:
            context["undecidable"] = True
        if not undecidable and cost.usd < self.max_usd:
            return self._vote(context, None)
        return self._vote({**context, "limit": "max_cost"}, StopReason.GUARD, is_limit=True)

    def _with_next(self, state: StateView, cost: Cost) -> Cost:
        name = state.model_name
        if name is None or name in cost.unpriced or self.prices.price_of(name) is not None:
            return cost
        return structs.replace(cost, unpriced=(*cost.unpriced, name))

    @classmethod
    def more(cls, setting: str, context: Context, now: Any) -> More:
        """Return the next amount above the cost, with a hint at the missing prices if they were why it forbade."""
        said: list[str] = []
        changes: dict[str, object] = {}
        cost, most = (Decimal(str(context[key])) for key in ("costUsd", "maxCostUsd"))
        if context.get("undecidable"):
            said.append("prices for all that it could not price, or unpriced='warn'")
            changes["unpriced"] = "warn"
        if cost >= most:
            more = next_microdollar(cost)
            said.append(f"{setting}={usd_text(more)} USD or more")
            changes[setting] = more
        return More(", and ".join(said), changes)

    @staticmethod
    def _words(forbids: bool, context: Context) -> str:
        spent, missing = f"{context['costUsd']}/{context['maxCostUsd']} USD", _not_priced(context)
        if context.get("undecidable"):
            return f"Cost cannot be told, at least {spent}: {missing}"
        label = "Cost limit reached" if forbids else "Cost under limit"
        return f"{label}: {spent}" + (f"; not counted: {missing}" if missing else "")


def _not_priced(context: Context) -> str:
    models = texts(context, "unpricedModels") if "unpricedModels" in context else ()
    return without_price(models, context.get("unmeteredReplies"), context.get("unattributedTokens"))
