"""The code that a run may still call, and that another version of its workflow does not have."""

from collections.abc import Sequence

from steptrail.domain.flow.definition import FlowDefinition
from steptrail.domain.flow.failing import working_node
from steptrail.domain.flow.fold import RunFold
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.nodes import LlmRouterNode, Node, WebhookNode, WorkingNode


def lacking(run: RunFold, graph: Graph, brought: FlowDefinition) -> Sequence[str]:
    """Return the nodes of a run that it may still come to and whose code the workflow that is brought does not have."""
    has = {node.id: type(working_node(node, 0)) for node in brought.nodes}
    ahead = graph.reached({*run.marking.tokens, *run.marking.released, *(graph.numbers[node] for node in run.open)})
    nodes = (graph.nodes[number] for number in sorted(ahead))
    return [node.id for node in nodes if _calls_code(node) and has.get(node.id) is not type(working_node(node, 0))]


def _calls_code(node: Node) -> bool:
    inner = working_node(node, 0)
    return isinstance(inner, WorkingNode | LlmRouterNode) and not isinstance(inner, WebhookNode)
