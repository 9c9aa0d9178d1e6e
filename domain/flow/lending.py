"""The tokens and the money that a stream below a node may use: what is left of the budgets of its run and its node.

The whole rest is lent to each stream when it begins. So streams that run beside each other may together use more than
the rest; the budgets themselves are judged by what was used, after each try.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import structs

from steptrail.domain.continuation.limits import Limits
from steptrail.domain.flow.failing import working_node
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.policies import Budget, UnpricedInFlow
from steptrail.domain.flow.task import THE_VISIT, Task
from steptrail.domain.prices import PriceTable, usd_left
from steptrail.domain.usage import BilledUsage

_Lendable: TypeAlias = Literal["max_cost", "max_input_tokens", "max_output_tokens", "max_tokens"]
_Number = TypeVar("_Number", int, Decimal)


class Lent(NamedTuple):
    """The rest that a stream below a node may use, and the prices that count its cost if it has none of its own."""

    budget: Budget
    prices: PriceTable | None
    unpriced: UnpricedInFlow

    def options(self, own: RunOptions) -> RunOptions:
        """Return the options of a workflow that may use no more than this, nor more than its own."""
        lent, budget = self.budget, own.budget or Budget()
        most_usd = _least(budget.max_cost_usd, lent.max_cost_usd)
        return structs.replace(
            own,
            budget=Budget(
                max_input_tokens=_least(budget.max_input_tokens, lent.max_input_tokens),
                max_output_tokens=_least(budget.max_output_tokens, lent.max_output_tokens),
                max_total_tokens=_least(budget.max_total_tokens, lent.max_total_tokens),
                max_cost_usd=most_usd,
            ),
            prices=own.prices or (self.prices if most_usd else None),
            unpriced=own.unpriced if budget.max_cost_usd else self.unpriced,
        )

    def limits(self, own: Limits, held: Limits) -> Limits:
        """Return the limits of an agent that may use no more than this, nor more than its own.

        `held` are those of its last segment, which what is not lent leaves as they are. What has no price stops an
        agent as its own limit on cost says, and without one as the run above does.
        """
        lends: Mapping[_Lendable, int | Decimal | None] = {
            "max_input_tokens": self.budget.max_input_tokens,
            "max_output_tokens": self.budget.max_output_tokens,
            "max_tokens": self.budget.max_total_tokens,
            "max_cost": self.budget.max_cost_usd,
        }
        changed: dict[str, object] = {
            name: most if (limit := _of(own, name)) is None else min(limit, most)
            for name, most in lends.items()
            if most
        }
        if "max_cost" in changed:
            changed["prices"] = own.prices or self.prices
            changed["unpriced"] = self.unpriced if _of(own, "max_cost") is None else own.unpriced
        return structs.replace(held, shadow=tuple(name for name in held.shadow if name not in changed), **changed)


def lent_to(run: RunFold, task: Task) -> Lent | None:
    """Return what the stream of a task may use, with what it has used so far; None for no limit."""
    node, visit, prices = run.node(task.node), run.open[task.node], run.options.prices
    own = visit.bills.get(task.place, BilledUsage())
    known: list[tuple[Budget, BilledUsage]] = []
    if run.options.budget is not None:
        known.append((run.options.budget, BilledUsage.of(run.usage, run.model_usage).beyond(own)))
    if node.budget is not None:
        known.append((node.budget, visit.spent.get(THE_VISIT, BilledUsage()).beyond(own)))
    if task.item is not None and (of_an_item := working_node(node, task.item).budget) is not None:
        known.append((of_an_item, visit.spent.get(task.item, BilledUsage()).beyond(own)))
    if not known:
        return None

    def left(name: str, count: Callable[[BilledUsage], int]) -> int | None:
        limits = ((getattr(budget, name), used) for budget, used in known)
        # 0 would be no limit.
        return min((max(1, limit - count(used)) for limit, used in limits if limit), default=None)

    def spent(used: BilledUsage) -> Decimal:
        return Decimal(0) if prices is None else prices.cost(used.models).usd

    limits = ((budget.max_cost_usd, used) for budget, used in known)
    lent = Budget(
        max_input_tokens=left("max_input_tokens", lambda usage: usage.all_input),
        max_output_tokens=left("max_output_tokens", lambda usage: usage.all_output),
        max_total_tokens=left("max_total_tokens", lambda usage: usage.total),
        max_cost_usd=min((usd_left(most, spent(used)) for most, used in limits if most), default=None),
    )
    return None if lent == Budget() else Lent(lent, prices, run.options.unpriced)


def _of(own: Limits, name: _Lendable) -> Any:
    """Return a limit that stops the agent; None where it has none, or one that only votes."""
    return None if name in own.shadow else getattr(own, name)


def _least(*limits: _Number | None) -> _Number | None:
    return min((limit for limit in limits if limit), default=None)
