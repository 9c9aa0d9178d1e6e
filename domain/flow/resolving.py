"""The meaning of a workflow that leaves something unsaid: the defaults that depend on other parts of it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from steptrail.domain.flow.definition import Edge, EdgeWhen
from steptrail.domain.flow.nodes import ConditionalNode, LlmRouterNode, MergeNode, Node, NoopNode, RuleRouterNode
from steptrail.domain.flow.policies import OnError

_ROUTERS = (ConditionalNode, LlmRouterNode, RuleRouterNode)


class WrittenEdge(NamedTuple):
    """An edge as it was written. With `when` None it depends on the other edges of its source."""

    source: str
    target: str
    when: EdgeWhen | None = None
    loop: bool = False


def resolved_edges(edges: Iterable[WrittenEdge]) -> tuple[Edge, ...]:
    """Return the edges, each once. One without `when` is taken after a success alone where there is an error edge."""
    written = list(dict.fromkeys(edges))
    handled = _with_error_edge(written)

    def when(edge: WrittenEdge) -> EdgeWhen:
        return edge.when or (EdgeWhen.SUCCESS if edge.source in handled else EdgeWhen.DONE)

    found = (Edge(source=e.source, target=e.target, when=when(e), loop=e.loop) for e in written)
    return tuple(dict.fromkeys(found))


def resolved_nodes(nodes: Iterable[Node], edges: Iterable[WrittenEdge]) -> tuple[Node, ...]:
    """Return the nodes, each with the key of its output and with what its edges and classes say about a failure."""
    handled = _with_error_edge(edges)
    return tuple(
        structs.replace(
            node,
            output=_default_output(node) if node.output is None else node.output,
            on_error=_default_on_error(node, node.id in handled) if node.on_error is None else node.on_error,
        )
        for node in nodes
    )


def entry_of(nodes: Sequence[Node], edges: Iterable[Edge]) -> tuple[str, ...]:
    """Return the nodes at which a run begins when nothing else is said: those that no edge but a loop leads to."""
    reached = {edge.target for edge in edges if not edge.loop}
    return tuple(node.id for node in nodes if node.id not in reached)


def _with_error_edge(edges: Iterable[WrittenEdge]) -> set[str]:
    return {edge.source for edge in edges if edge.when is EdgeWhen.ERROR}


def _default_output(node: Node) -> str | None:
    if isinstance(node, NoopNode) or (isinstance(node, MergeNode) and node.strategy in {"json", "best_score"}):
        return None
    return f"{node.id}_decision" if isinstance(node, _ROUTERS) else f"{node.id}_output"


def _default_on_error(node: Node, has_error_edge: bool) -> OnError | None:
    if has_error_edge:
        return OnError.RECORD
    return OnError.CONTINUE if node.continue_on else None
