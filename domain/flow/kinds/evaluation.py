"""The table of the kinds of nodes that are evaluated in place. A new kind is one line in it."""

from collections.abc import Callable
from typing import Any

from steptrail.domain.flow.kinds.gating import gate, guardian
from steptrail.domain.flow.kinds.listing import filtered
from steptrail.domain.flow.kinds.port import NodeMeans
from steptrail.domain.flow.kinds.routing import conditional, rule_router
from steptrail.domain.flow.kinds.seen import Evaluated, Seen
from steptrail.domain.flow.kinds.shaping import transform
from steptrail.domain.flow.nodes import (
    ConditionalNode,
    FilterNode,
    GateNode,
    GuardianNode,
    Node,
    NoopNode,
    RuleRouterNode,
    TransformNode,
)


def _nothing(node: NoopNode, seen: Seen, means: NodeMeans) -> Evaluated:
    return Evaluated()


EVALUATED: dict[type[Node], Callable[[Any, Seen, NodeMeans], Evaluated]] = {
    ConditionalNode: conditional,
    FilterNode: filtered,
    GateNode: gate,
    GuardianNode: guardian,
    NoopNode: _nothing,
    RuleRouterNode: rule_router,
    TransformNode: transform,
}
"""Class of a node -> the function that evaluates it. Merges and people need more than a view."""


def evaluate(node: Node, seen: Seen, means: NodeMeans) -> Evaluated:
    """Return the result of a node of `EVALUATED`. Raises `NodeFault`, and what a function raises."""
    return EVALUATED[type(node)](node, seen, means)
