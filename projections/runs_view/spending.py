"""The tokens that a run has used, by model, and what they cost."""

from collections.abc import Iterable
from dataclasses import dataclass

from steptrail.domain.prices import Cost, PriceTable
from steptrail.domain.usage import ModelUsage, Usage, billed_together
from steptrail.projections.runs_view.values import nanos


@dataclass(slots=True)
class Spending:
    """Tokens that were used. `models` says for which model, as far as that is known."""

    usage: Usage = Usage()
    models: tuple[ModelUsage, ...] = ()

    def add(self, usage: Usage, models: Iterable[ModelUsage]) -> None:
        """Add what was used."""
        self.usage = self.usage + usage
        self.models = billed_together(self.models, models)

    def __add__(self, other: "Spending") -> "Spending":
        """Return both together."""
        return Spending(self.usage + other.usage, (*self.models, *other.models))

    def cost(self, prices: PriceTable | None) -> Cost | None:
        """Return the cost by these prices; None without prices."""
        return None if prices is None else prices.cost(self.models, billed=self.usage)

    def nanos(self, prices: PriceTable | None) -> int | None:
        """Return the cost in billionths of a dollar; None without prices."""
        cost = self.cost(prices)
        return None if cost is None else nanos(cost)

    def nanos_of_known(self, prices: PriceTable | None) -> int | None:
        """Return the cost in billionths of a dollar; None when anything of it has no price."""
        cost = self.cost(prices)
        return None if cost is None or not cost.is_complete else nanos(cost)
