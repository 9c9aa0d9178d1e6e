"""The graph of a workflow on the page of a run: what became of each node, and which edges were taken."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from steptrail.domain.errors import CorruptRecord, stream_name
from steptrail.domain.flow.definition import EdgeWhen
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.flow_graph import DRAWN_TYPES, drawn_run
from steptrail.projections.flow_layout import HEIGHT, Layout, shown_id

_MOST: Final = 20_000
"""Events of a run beyond which its graph is not drawn unasked; `steptrail flow draw` draws any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A node: the place of its box, the middle of its texts, and what became of it."""

    x: float
    y: float
    width: float
    name: str
    kind: str
    mark: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """An edge: its way, and what is said of it and where."""

    way: str
    x: float
    y: float
    said: str
    is_taken: bool
    is_loop: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPicture:
    """The graph as it is drawn, and the same as text."""

    width: float
    height: float
    node_height: float
    nodes: Sequence[GraphNode]
    edges: Sequence[GraphEdge]
    text: str


async def graph_of(trail: Steptrail, stream: str, count: int) -> GraphPicture | None:
    """Return the graph of a run of a workflow; None for any other stream, and for a very long one."""
    if not stream.startswith("flow:") or count > _MOST:
        return None
    try:
        records: Sequence[Any] = await trail.handle(stream_name(stream)).history(types=DRAWN_TYPES)
    except CorruptRecord:
        return None
    return await asyncio.to_thread(_picture, records)  # of thousands of nodes this may take seconds


def _picture(records: Sequence[Any]) -> GraphPicture | None:
    try:
        drawn = drawn_run(record.event for record in records)
    except ValueError:  # a newer version recorded the workflow
        return None
    if drawn is None:
        return None
    layout = Layout(drawn)
    nodes: list[GraphNode] = []
    for node in drawn.nodes:
        (x, y), width = layout.place(node.id), layout.width(node.id)
        said = "" if node.mark == "untouched" else node.words()
        nodes.append(GraphNode(x=x, y=y, width=width, name=shown_id(node), kind=node.kind, mark=node.mark, said=said))
    edges: list[GraphEdge] = []
    for number, edge in enumerate(drawn.edges):
        way, x, y = layout.way(number)
        words = [edge.when.value] * (edge.when is not EdgeWhen.DONE) + [f"{edge.taken}x"] * (edge.taken > 1)
        edges.append(GraphEdge(way=way, x=x, y=y, said=", ".join(words), is_taken=bool(edge.taken), is_loop=edge.loop))
    width, height = layout.size
    return GraphPicture(width=width, height=height, node_height=HEIGHT, nodes=nodes, edges=edges, text=drawn.text())
