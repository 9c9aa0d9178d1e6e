"""Draws the conclusion from what has landed: a further try, the end of the visit, or the end of the run."""

from decimal import Decimal
from typing import NamedTuple

from steptrail.domain.flow import events, nodes
from steptrail.domain.flow.definition import EdgeWhen
from steptrail.domain.flow.effects import CutOff, Evaluate, FlowEffect, RecordEvents, ScheduleNodeRetry
from steptrail.domain.flow.failing import Failure, failure_of, node_error, working_node
from steptrail.domain.flow.fold import RunFold, VisitFold
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.kinds.values import text_of
from steptrail.domain.flow.policies import Budget, FailureClass, UnpricedInFlow
from steptrail.domain.flow.route import Route
from steptrail.domain.flow.task import Task, TaskPhase
from steptrail.domain.flow.tiers import verdict
from steptrail.domain.json_value import JsonValue
from steptrail.domain.prices import Cost
from steptrail.domain.usage import BilledUsage, Usage

_CHOOSE = (
    *(nodes.GateNode, nodes.GuardianNode, nodes.RuleRouterNode),
    *(nodes.ConditionalNode, nodes.LlmRouterNode, nodes.HumanNode),
)
"""Nodes that choose how the run goes on. After a failure of one, nothing was chosen: only error edges are taken."""


def enabled(graph: Graph, node: nodes.Node, *, failed: bool = False, route: Route | None = None) -> tuple[int, ...]:
    """Return the numbers of the edges that are taken after a visit of a node."""
    taken: list[int] = []
    for number in graph.outgoing[graph.numbers[node.id]]:
        edge = graph.edges[number]
        if failed:
            fires = edge.when is EdgeWhen.ERROR or (edge.when is EdgeWhen.DONE and not isinstance(node, _CHOOSE))
        else:
            fires = edge.when is not EdgeWhen.ERROR and (route is None or edge.target in route.targets)
        if fires:
            taken.append(number)
    return tuple(taken)


def time_left_us(run: RunFold, task: Task, now: int) -> int | None:
    """Return how much is left at `now` of the timeout of a task, in microseconds; None without a timeout.

    An item of a map has no more than what is left of the timeout of the map.
    """
    outer, visit = run.node(task.node), run.open[task.node]
    node = working_node(outer, task.item)
    left = [] if node.timeout is None else [round(node.timeout * 1e6) - task.clock.us(now)]
    if task.item is not None and outer.timeout is not None:
        left.append(round(outer.timeout * 1e6) - visit.clock.us(now))
    return min(left, default=None)


def breach(
    budget: Budget | None, usage: Usage, cost: Cost | None, unpriced: UnpricedInFlow
) -> tuple[events.FlowLimit, str, str] | None:
    """Return the first limit of a budget that was passed, with its value and what was used; None when none was.

    What has no price is beyond every limit on cost, unless `unpriced` says to ignore it.
    """
    if budget is None:
        return None
    limits: tuple[tuple[events.FlowLimit, int | None, int], ...] = (
        ("max_input_tokens", budget.max_input_tokens, usage.all_input),
        ("max_output_tokens", budget.max_output_tokens, usage.all_output),
        ("max_total_tokens", budget.max_total_tokens, usage.total),
    )
    for name, most, used in limits:
        if most and used > most:
            return name, str(most), str(used)
    most_usd = budget.max_cost_usd or Decimal(0)
    if most_usd and cost is not None and cost.usd > most_usd:
        return "max_cost_usd", f"{most_usd:f}", f"{cost.usd:f}"
    if most_usd and cost is not None and unpriced == "fail_closed" and not cost.is_complete:
        return "max_cost_usd", f"{most_usd:f}", f"{cost.usd:f} and what cannot be told ({cost.missing})"
    return None


def conclude(run: RunFold, task: Task, now: int) -> FlowEffect:
    """Return what follows from a task that has landed."""
    if isinstance(task.landing, events.HumanAnswered | events.HumanExpired):
        return Evaluate(task.key)
    node = run.node(task.node)
    tried = working_node(node, task.item)
    limit: tuple[events.LimitReached, ...] = ()
    failed = failure_of(task.landing) if task.landing is not None else None
    # A visit without a try, as its budget was used up before, is over it as one that used it up is.
    is_over = failed is not None and failed.failure is FailureClass.BUDGET and task.item is None
    if failed is None or is_over or _is_tried_again(tried, task, failed):
        if (over := over_budget(run, task)) is not None:
            failed, limit = over
        elif failed is not None and not is_over:
            left = time_left_us(run, task, now)
            delay = tried.retry.delay(max(1, task.failures), 0.0, failed.retry_after)
            if left is None or delay * 1e6 < left:
                return ScheduleNodeRetry(task.key)
            failed = failed._replace(failure=FailureClass.TIMEOUT)
    may_end = run.open[task.node].may_end
    if may_end or task.held == "after":
        limit = ()  # it was recorded when the visit was held
    if run.ended_by is None and run.options.pauses_after(node.id) and not may_end and task.item is None:
        return RecordEvents((*limit, events.StepHeld(node=node.id, visit=task.visit, point="after")))
    if failed is None:
        return RecordEvents((_completed(run, node, task),))
    if task.item is not None and isinstance(node, nodes.MapNode):
        return _item_failed(run, node, task, failed, now)
    return RecordEvents((*limit, *_failed(run, node, task, failed, now)))


def _is_tried_again(node: nodes.Node, task: Task, failed: Failure) -> bool:
    if not failed.may_retry or not isinstance(task.landing, events.NodeAttemptFailed):
        return False
    used = task.failures + (task.interruptions if node.retry.count_interrupted else 0)
    return used < node.retry.max_attempts


class OverBudget(NamedTuple):
    """The failure of what is over its budget, and for the log its limit; an item of a map has none there."""

    failed: Failure
    limit: tuple[events.LimitReached, ...]


def over_budget(run: RunFold, task: Task, bill: BilledUsage | None = None) -> OverBudget | None:
    """Return the failure of a visit, or of an item of a map, that is over its budget with all its tries; None for none.

    `bill` is that of its last try, as long as it is not counted.
    """
    budget, visit = run.node(task.node, task.item).budget, run.open[task.node]
    fresh = BilledUsage() if bill is None else visit.uncounted(bill, task.place)
    spent, prices = fresh.after(visit.spent.get(task.place)), run.options.prices
    cost = None if prices is None else prices.cost(spent.models, billed=spent)
    if (passed := breach(budget, spent, cost, run.options.unpriced)) is None:
        return None
    name, most, used = passed
    details: dict[str, JsonValue] = {"limit": name, "at_most": most, "actual": used}
    failed = Failure(FailureClass.BUDGET, f"it used {used}, and {name} is {most}", task.attempt, details=details)
    limit = events.LimitReached(limit=name, scope="node", node=task.node, visit=task.visit, at_most=most, actual=used)
    return OverBudget(failed, () if task.item is not None else (limit,))


def _completed(run: RunFold, node: nodes.Node, task: Task) -> events.NodeCompleted:
    landing = task.landing
    route = landing.route if isinstance(landing, events.NodeEvaluated | events.NodeAttemptCompleted) else None
    enables = enabled(run.graph, node, route=route)
    return events.NodeCompleted(node=node.id, visit=task.visit, enables=enables, route=route)


def is_to_be_held(run: RunFold, visit: VisitFold) -> bool:
    """Tell whether a person has to be asked before a map begins with its items."""
    is_new = visit.items is not None and not visit.may_begin and not run.held(visit)
    return is_new and run.options.pauses_before(visit.node)


def conclude_map(run: RunFold, visit: VisitFold, now: int) -> FlowEffect | None:
    """Return what follows when a map is over its budget or its time, or all its items have ended; None for neither."""
    if visit.items is None or run.held(visit) or is_to_be_held(run, visit):
        return None
    node, task = run.node(visit.node), Task(visit.node, visit.visit, attempt=1)
    limit: tuple[events.LimitReached, ...] = ()
    if (over := over_budget(run, task)) is not None:
        failed, limit = over
    else:
        if len(visit.results) == visit.items:
            return _held_after(run, visit) or RecordEvents((_completed_map(run, visit),))
        if node.timeout is None or visit.clock.us(now) < round(node.timeout * 1e6):
            return None
        late = f"its items did not end within {text_of(node.timeout)} s"
        failed = Failure(FailureClass.TIMEOUT, late, task.attempt)
    reason = events.CutReason.SIBLING if limit else events.CutReason.TIMEOUT
    if (effect := _cut_or_held(run, visit, task, reason, now)) is not None:
        return effect
    return RecordEvents((*limit, *_failed(run, node, task, failed, now)))


def _completed_map(run: RunFold, visit: VisitFold) -> events.NodeCompleted:
    enables = enabled(run.graph, run.node(visit.node))
    return events.NodeCompleted(node=visit.node, visit=visit.visit, enables=enables, item_errors=len(visit.errors))


def _held_after(run: RunFold, visit: VisitFold) -> RecordEvents | None:
    if visit.may_end or not run.options.pauses_after(visit.node):
        return None
    return RecordEvents((events.StepHeld(node=visit.node, visit=visit.visit, point="after"),))


def _cut_or_held(run: RunFold, visit: VisitFold, task: Task, reason: events.CutReason, now: int) -> FlowEffect | None:
    """Return what comes before the failure of a map: its other items are cut off, and a person may be asked."""
    others = tuple(
        other.key
        for other in run.tasks.values()
        if (other.node, other.visit) == (task.node, task.visit) and other.phase is TaskPhase.RUNNING
    )
    return CutOff(others, (), reason, now) if others else _held_after(run, visit)


def _failed(
    run: RunFold, node: nodes.Node, task: Task, failed: Failure, now: int
) -> tuple[events.NodeFailureRecorded | events.NodeFailed]:
    is_recorded, tier, rule = verdict(node, failed.failure, run.options)
    error = node_error(node, task, failed, tier, now)
    if not is_recorded:
        return (events.NodeFailed(node=node.id, visit=task.visit, item=task.item, error=error, rule=rule),)
    enables = enabled(run.graph, node, failed=True)
    recorded = events.NodeFailureRecorded(
        node=node.id, visit=task.visit, error=error, rule=rule, output_key=node.output, enables=enables
    )
    return (recorded,)


def _item_failed(run: RunFold, node: nodes.MapNode, task: Task, failed: Failure, now: int) -> FlowEffect:
    if node.on_item_error == "record":
        error = node_error(node, task, failed, "node", now)
        rule = "on_item_error=record"
        recorded = events.NodeFailureRecorded(node=node.id, visit=task.visit, item=task.item, error=error, rule=rule)
        return RecordEvents((recorded,))
    if (effect := _cut_or_held(run, run.open[task.node], task, events.CutReason.SIBLING, now)) is not None:
        return effect
    return RecordEvents(_failed(run, node, task, failed, now))
