"""The tokens that a run has used, by model, and what they cost."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from steptrail.domain.prices import Cost, PriceTable
from steptrail.domain.usage import ModelUsage, Usage
from steptrail.projections.runs_view.values import nanos


def _none() -> list[int]:
    """Return five kinds of tokens, and replies that did not state their usage: none of any."""
    return [0, 0, 0, 0, 0, 0]


@dataclass(slots=True)
class Spending:
    """Tokens that were used, in all and by model, as far as the models are known.

    They are numbers that are added up in place: a run has a bill for each reply, and values would be made anew of each.
    """

    _all: list[int] = field(default_factory=_none)
    _by_model: dict[tuple[str, str | None], list[int]] = field(default_factory=dict[tuple[str, str | None], list[int]])

    def add(self, usage: Usage, models: Iterable[ModelUsage]) -> None:
        """Add what was used. `models` says for which model, as far as that is known."""
        _count(self._all, usage)
        for each in models:
            model = each.model
            if (known := self._by_model.get(model)) is None:
                known = self._by_model[model] = _none()
            _count(known, each.usage)
            known[5] += each.unmetered

    def __add__(self, other: "Spending") -> "Spending":
        """Return both together."""
        both = Spending()
        for each in (self, other):
            both.add(each.usage, each.models)
        return both

    @property
    def total(self) -> int:
        """The tokens of all kinds together."""
        return sum(self._all)

    @property
    def usage(self) -> Usage:
        """The tokens by kind."""
        return _usage(self._all)

    @property
    def models(self) -> tuple[ModelUsage, ...]:
        """The bill of each model, in the order of their first calls."""
        return tuple(
            ModelUsage(asked_for=asked_for, answered_by=answered_by, usage=_usage(used), unmetered=used[5])
            for (asked_for, answered_by), used in self._by_model.items()
        )

    def cost(self, prices: PriceTable | None) -> Cost | None:
        """Return the cost by these prices; None without prices."""
        return None if prices is None else prices.cost(self.models, billed=self.usage)

    def nanos(self, prices: PriceTable | None) -> int | None:
        """Return the cost in billionths of a dollar; None without prices."""
        cost = self.cost(prices)
        return None if cost is None else nanos(cost)


def nanos_of_known(prices: PriceTable | None, usage: Usage, models: Iterable[ModelUsage]) -> int | None:
    """Return the cost of a bill in billionths of a dollar; None without prices, or when anything of it has none."""
    if prices is None:
        return None
    cost = prices.cost(models, billed=usage)
    return nanos(cost) if cost.is_complete else None


def _count(kinds: list[int], usage: Usage) -> None:
    kinds[0] += usage.input
    kinds[1] += usage.output
    kinds[2] += usage.cache_write
    kinds[3] += usage.cache_read
    kinds[4] += usage.reasoning


def _usage(kinds: list[int]) -> Usage:
    return Usage(input=kinds[0], output=kinds[1], cache_write=kinds[2], cache_read=kinds[3], reasoning=kinds[4])
