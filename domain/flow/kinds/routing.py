"""The kinds that choose the next node by themselves: rules, and conditionals."""

from collections.abc import Iterator
from itertools import islice

from steptrail.domain.flow.kinds.conditions import compares, holds
from steptrail.domain.flow.kinds.port import NodeFault, NodeMeans
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.nodes import ConditionalNode, RuleRouterNode, RuleSpec
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route


def rule_router(node: RuleRouterNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the route by rules. Without one that holds, and without a default, no node comes next."""
    rules = enumerate(node.rules, 1)
    fitting = ((rule.to, f"rule {number}") for number, rule in rules if _applies(rule, seen, means))
    chosen = _chosen(fitting, node.default, several=node.allow_multiple)
    return routed(chosen) if chosen else routed([], "no rule holds")


def conditional(node: ConditionalNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the route by expressions. Raises `NodeFault` of the class `no_match`."""
    cases = enumerate(node.cases, 1)
    fitting = ((case.to, case.name or f"case {number}") for number, case in cases if holds(case.when, seen, means))
    chosen = _chosen(fitting, node.default, several=node.evaluate == "all")
    if not chosen:
        raise NodeFault(FailureClass.NO_MATCH, f"none of {len(node.cases)} cases holds, and there is no default")
    return routed(chosen)


def routed(fitting: list[tuple[str, str]], otherwise: str = "") -> Evaluated:
    """Return the result of a node that chose these nodes, each for a reason: its decision, and the route."""
    targets = tuple(dict.fromkeys(target for target, _ in fitting))
    reason = ", ".join(dict.fromkeys(why for _, why in fitting)) or otherwise
    return Evaluated(output={"targets": list(targets), "reason": reason}, route=Route(targets=targets, reason=reason))


def _chosen(fitting: Iterator[tuple[str, str]], default: str | None, *, several: bool) -> list[tuple[str, str]]:
    """Return the nodes that fit, each with its reason; the first alone unless `several` may, and else the default."""
    chosen = list(fitting if several else islice(fitting, 1))
    return chosen if chosen or default is None else [(default, "default")]


def _applies(rule: RuleSpec, seen: Seen, means: NodeMeans) -> bool:
    if not all(compares(condition, seen) for condition in rule.conditions):
        return False
    return rule.when is None or holds(rule.when, seen, means)
