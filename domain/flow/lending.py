"""The tokens that a stream below a node may use: what is left of the budgets of its run and its node.

The whole rest is lent to each stream when it begins. So streams that run beside each other may together use more than
the rest; the budgets themselves are judged by what was used, after each try.
"""

from collections.abc import Callable

from steptrail.domain.flow.failing import working_node
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.policies import Budget
from steptrail.domain.flow.task import Task
from steptrail.domain.usage import Usage

__all__ = ["lent_to", "narrower"]


def lent_to(run: RunFold, graph: Graph, task: Task) -> Budget | None:
    """Return the tokens that the stream of a task may use, with those that it has used so far; None for no limit."""
    node, visit, own = graph.node(task.node), run.open.get(task.node), task.billed or Usage()
    budgets = [(run.options.budget, run.usage)]
    if visit is not None:
        budgets.append((node.budget, visit.usage))
    if task.item is not None:
        budgets.append((working_node(node, task.item).budget, own))

    def left(name: str, count: Callable[[Usage], int]) -> int | None:
        limits = ((getattr(budget, name), used) for budget, used in budgets if budget is not None)
        # 0 would be no limit.
        return min((max(1, limit - count(used) + count(own)) for limit, used in limits if limit), default=None)

    return _or_none(
        Budget(
            max_input_tokens=left("max_input_tokens", lambda usage: usage.all_input),
            max_output_tokens=left("max_output_tokens", lambda usage: usage.all_output),
            max_total_tokens=left("max_total_tokens", lambda usage: usage.total),
        )
    )


def narrower(own: Budget | None, lent: Budget | None) -> Budget | None:
    """Return the budget of a stream that has one of its own, and is lent no more than `lent`."""
    if lent is None:
        return own
    own = own or Budget()
    return _or_none(
        Budget(
            max_input_tokens=_least(own.max_input_tokens, lent.max_input_tokens),
            max_output_tokens=_least(own.max_output_tokens, lent.max_output_tokens),
            max_total_tokens=_least(own.max_total_tokens, lent.max_total_tokens),
            max_cost_usd=own.max_cost_usd,
        )
    )


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit), default=None)


def _or_none(budget: Budget) -> Budget | None:
    return None if budget == Budget() else budget
