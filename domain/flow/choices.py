"""The nodes among which a node chooses how the run goes on, and what is wrong with these choices."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from steptrail.domain.flow.diagnostic import Diagnostic, fault
from steptrail.domain.flow.nodes import ConditionalNode, GateNode, GuardianNode, LlmRouterNode, Node, RuleRouterNode


class RouteTo(NamedTuple):
    """A node that another may choose, and the place in the definition of that one, such as `default`."""

    path: str
    target: str


def routes_of(node: Node) -> tuple[RouteTo, ...]:
    """Return all nodes that a node may choose, or send the run to; none if it does neither."""
    routes: list[RouteTo] = []
    match node:
        case ConditionalNode(cases=cases):
            routes = [RouteTo(f"cases[{place}].to", case.to) for place, case in enumerate(cases)]
        case RuleRouterNode(rules=rules):
            routes = [RouteTo(f"rules[{place}].to", rule.to) for place, rule in enumerate(rules)]
        case LlmRouterNode(routes=labels):
            routes = [RouteTo(f"routes.{label}", target) for label, target in labels.items()]
        case GateNode(redirect=str(target)) | GuardianNode(redirect=str(target)):
            return (RouteTo("redirect", target),)
        case _:
            return ()
    return (*routes, RouteTo("default", node.default)) if node.default is not None else tuple(routes)


def chooses(node: Node) -> bool:
    """Tell whether a node chooses how the run goes on. A gate or a guardian with a redirect does so too."""
    return isinstance(node, RuleRouterNode) or bool(routes_of(node))


def chooses_one(node: Node) -> bool:
    """Tell whether a node goes on with one of the nodes that it chooses from, and not with several."""
    match node:
        case ConditionalNode(evaluate=evaluate):
            return evaluate == "first"
        case RuleRouterNode(allow_multiple=several):
            return not several
        case _:
            return isinstance(node, LlmRouterNode)


def route_faults(node: Node, path: str, successors: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield what is wrong with the routes of the node at a path. Its plain edges lead to `successors`."""
    routes = routes_of(node)
    for route in routes:
        if route.target not in successors:
            why = f"no edge leads from {node.id!r} to {route.target!r}"
            yield fault("FL-101", f"{path}.{route.path}", why, "add the edge, or name another node")
    if not isinstance(node, ConditionalNode | RuleRouterNode | LlmRouterNode):
        return
    if not routes:
        # Rules may all fail to hold, which ends the branch; the others fail when nothing fits.
        ends = isinstance(node, RuleRouterNode)
        why = f"{node.id!r} has nothing to choose from"
        yield fault("CN-006", path, why, "add a node to which it may lead", is_warning=ends)
        return
    if node.default is None and not isinstance(node, RuleRouterNode):
        why = f"{node.id!r} fails when nothing fits, because it has no default"
        yield fault("CN-003", path, why, "add `default`", is_warning=True)
    chosen = {route.target for route in routes}
    for target in dict.fromkeys(successors):
        if target not in chosen:
            why = f"the edge from {node.id!r} to {target!r} is never taken, because no route leads there"
            yield fault("CN-001", path, why, "add the route, or remove the edge", is_warning=True)
    if isinstance(node, ConditionalNode):
        for place, case in enumerate(node.cases):
            if case.name == "default":
                why = "a case cannot be called 'default', which is what no case leads to"
                yield fault("CN-005", f"{path}.cases[{place}].name", why, "choose another name")
