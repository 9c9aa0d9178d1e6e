"""The code that a run may still call, and that another version of its workflow does not have."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.flow.failing import working_node
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.kinds.conditions import function_in
from steptrail.domain.flow.nodes import LlmRouterNode, MergeNode, Node, ToolNode, WebhookNode, WorkingNode
from steptrail.domain.flow.texts import expressions_of


def lacking(
    run: RunFold, graph: Graph, brought: FlowDefinition, functions: Mapping[str, Mapping[str, Callable[..., object]]]
) -> Sequence[str]:
    """Return the nodes of a run that it may still come to and whose code the workflow that is brought does not have.

    `functions` are those that decide or merge in its nodes, by the id of the node and by the name in the log.
    """
    has = {node.id: _code_of(node) for node in brought.nodes}
    ahead = graph.reached({*run.marking.tokens, *run.marking.released, *(graph.numbers[node] for node in run.open)})
    nodes = (graph.nodes[number] for number in sorted(ahead))
    return [
        node.id
        for node in nodes
        if ((code := _code_of(node)) is not None and has.get(node.id) != code)
        or any(function_in(functions.get(node.id, {}), name) is None for name in _functions_of(node))
    ]


def _code_of(node: Node) -> tuple[type[Node], str] | None:
    """Return the kind of node by the code that it calls, with the name of a tool; None for one that calls none."""
    inner = working_node(node, 0)
    if isinstance(inner, WebhookNode) or not isinstance(inner, WorkingNode | LlmRouterNode):
        return None
    return type(inner), inner.tool.name if isinstance(inner, ToolNode) else ""


def _functions_of(node: Node) -> Iterator[str]:
    if isinstance(node, MergeNode) and node.function is not None:
        yield node.function
    for _, expression, _ in expressions_of(node):
        if expression is not None and expression.kind == "function":
            yield expression.text
