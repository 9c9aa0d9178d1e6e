"""The kinds that choose the next node by themselves: rules, and conditionals."""

from functools import partial

from steptrail.domain.flow.kinds.conditions import compares, holds
from steptrail.domain.flow.kinds.port import NodeFault, NodeMeans
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.nodes import ConditionalNode, RuleRouterNode, RuleSpec
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route


def rule_router(node: RuleRouterNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the route by rules. Without one that holds, and without a default, no node comes next."""
    offers = [(rule.to, f"rule {nth}", partial(_applies, rule, seen, means)) for nth, rule in enumerate(node.rules, 1)]
    chosen = _chosen(offers, node.default, many=node.allow_multiple)
    return routed(chosen) if chosen else routed([], "no rule holds")


def conditional(node: ConditionalNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the route by expressions. Raises `NodeFault` of the class `no_match`."""
    cases = enumerate(node.cases, 1)
    offers = [(case.to, case.name or f"case {nth}", partial(holds, case.when, seen, means)) for nth, case in cases]
    chosen = _chosen(offers, node.default, many=node.evaluate == "all")
    if not chosen:
        raise NodeFault(FailureClass.NO_MATCH, f"none of {len(node.cases)} cases holds, and there is no default")
    return routed(chosen)


def routed(fitting: list[tuple[str, str]], otherwise: str = "") -> Evaluated:
    """Return the result of a node that chose these nodes, each for a reason: its decision, and the route."""
    targets = tuple(dict.fromkeys(target for target, _ in fitting))
    reason = ", ".join(dict.fromkeys(why for _, why in fitting)) or otherwise
    return Evaluated(output={"targets": list(targets), "reason": reason}, route=Route(targets=targets, reason=reason))


def _chosen(offers: list[tuple[str, str, partial[bool]]], default: str | None, *, many: bool) -> list[tuple[str, str]]:
    """Return the nodes that fit, each with its reason; the first alone unless `many` may, and else the default."""
    chosen = list[tuple[str, str]]()
    for target, reason, fits in offers:
        if (many or not chosen) and fits():
            chosen.append((target, reason))
    return chosen if chosen or default is None else [(default, "default")]


def _applies(rule: RuleSpec, seen: Seen, means: NodeMeans) -> bool:
    is_met = all(compares(condition, seen) for condition in rule.conditions)
    return is_met and (rule.when is None or holds(rule.when, seen, means))
