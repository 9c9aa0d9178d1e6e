"""The table of the kinds of nodes that are evaluated in place. A new kind is one line in it."""

from collections.abc import Callable
from typing import Any

from steptrail.domain.flow import nodes
from steptrail.domain.flow.kinds.gating import gate, guardian
from steptrail.domain.flow.kinds.listing import filtered
from steptrail.domain.flow.kinds.port import NodeMeans
from steptrail.domain.flow.kinds.routing import conditional, rule_router
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.kinds.shaping import transform

EVALUATED: dict[type[nodes.Node], Callable[[Any, Seen, NodeMeans], Evaluated]] = {
    nodes.ConditionalNode: conditional,
    nodes.FilterNode: filtered,
    nodes.GateNode: gate,
    nodes.GuardianNode: guardian,
    nodes.NoopNode: lambda node, seen, means: Evaluated(),
    nodes.RuleRouterNode: rule_router,
    nodes.TransformNode: transform,
}
"""Class of a node -> the function that evaluates it. Merges and people need more than a view."""


def evaluate(node: nodes.Node, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the result of a node of `EVALUATED`. Raises `NodeFault`, and what a function raises."""
    return EVALUATED[type(node)](node, seen, means)
