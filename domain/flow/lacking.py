"""The code that a run may still call, and that another version of its workflow does not have."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.flow.failing import working_node
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.kinds.conditions import function_in
from steptrail.domain.flow.nodes import LlmRouterNode, MergeNode, Node, WebhookNode, WorkingNode
from steptrail.domain.flow.texts import expressions_of


def lacking(
    run: RunFold, graph: Graph, brought: FlowDefinition, functions: Mapping[str, Mapping[str, Callable[..., object]]]
) -> Sequence[str]:
    """Return the nodes of a run that it may still come to and whose code the workflow that is brought does not have.

    `functions` are those that decide or merge in its nodes, by the id of the node and by the name in the log.
    """
    has = {node.id: type(working_node(node, 0)) for node in brought.nodes}
    ahead = graph.reached({*run.marking.tokens, *run.marking.released, *(graph.numbers[node] for node in run.open)})
    nodes = (graph.nodes[number] for number in sorted(ahead))
    return [
        node.id
        for node in nodes
        if (_calls_code(node) and has.get(node.id) is not type(working_node(node, 0)))
        or any(function_in(functions.get(node.id, {}), name) is None for name in _functions_of(node))
    ]


def _calls_code(node: Node) -> bool:
    inner = working_node(node, 0)
    return isinstance(inner, WorkingNode | LlmRouterNode) and not isinstance(inner, WebhookNode)


def _functions_of(node: Node) -> Iterator[str]:
    if isinstance(node, MergeNode) and node.function is not None:
        yield node.function
    for _, expression, _ in expressions_of(node):
        if expression is not None and expression.kind == "function":
            yield expression.text
