"""The kinds that choose the next node by themselves: rules, and conditionals."""

from steptrail.domain.flow.kinds.conditions import compares, holds
from steptrail.domain.flow.kinds.port import NodeFault, NodeMeans
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.nodes import ConditionalNode, RuleRouterNode, RuleSpec
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route


def rule_router(node: RuleRouterNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the route by rules. Without one that holds, and without a default, no node comes next."""
    fitting: list[tuple[str, str]] = []
    for number, rule in enumerate(node.rules, 1):
        if _applies(rule, seen, means):
            fitting.append((rule.to, f"rule {number}"))
            if not node.allow_multiple:
                break
    if not fitting and node.default is not None:
        fitting = [(node.default, "default")]
    return routed(fitting) if fitting else routed([], "no rule holds")


def conditional(node: ConditionalNode, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the route by expressions. Raises `NodeFault` of the class `no_match`."""
    fitting: list[tuple[str, str]] = []
    for number, case in enumerate(node.cases, 1):
        if holds(case.when, seen, means):
            fitting.append((case.to, case.name or f"case {number}"))
            if node.evaluate == "first":
                break
    if not fitting and node.default is not None:
        fitting = [(node.default, "default")]
    if not fitting:
        raise NodeFault(FailureClass.NO_MATCH, f"none of {len(node.cases)} cases holds, and there is no default")
    return routed(fitting)


def routed(fitting: list[tuple[str, str]], otherwise: str = "") -> Evaluated:
    """Return the result of a node that chose these nodes, each for a reason: its decision, and the route."""
    targets = tuple(dict.fromkeys(target for target, _ in fitting))
    reason = ", ".join(dict.fromkeys(why for _, why in fitting)) or otherwise
    return Evaluated(output={"targets": list(targets), "reason": reason}, route=Route(targets=targets, reason=reason))


def _applies(rule: RuleSpec, seen: Seen, means: NodeMeans) -> bool:
    if not all(compares(condition, seen) for condition in rule.conditions):
        return False
    return rule.when is None or holds(rule.when, seen, means)
