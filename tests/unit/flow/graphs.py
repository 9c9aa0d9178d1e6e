"""Graphs in a few words, and runs that only move tokens: they show which visits there are, and what each sees."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from steptrail.domain.flow.definition import Edge, FlowDefinition
from steptrail.domain.flow.events.nodes import Token
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.joins import Marking
from steptrail.domain.flow.nodes import Join, NoopNode
from steptrail.domain.flow.views import Delta, Ended, View, joined, sources
from steptrail.domain.messages import Message

Visit = tuple[str, int]
"""The id of a node, and which of its visits it is, from 1."""

Route = Callable[[str, int], Sequence[str] | None]
"""Returns the targets that a visit of a node chooses; None for all."""


def flow(ways: str, *, joins: Mapping[str, Join] | None = None, entry: Sequence[str] = ()) -> FlowDefinition:
    """Return a workflow of these ways, such as `a > b > c, a > c, c ~> a`. `~>` is a loop edge."""
    names: dict[str, None] = {}
    edges: list[Edge] = []
    for way in filter(None, ways.split(",")):
        source, *steps = way.split()
        names[source] = None
        for arrow, target in zip(steps[::2], steps[1::2], strict=True):
            names[target] = None
            edges.append(Edge(source=source, target=target, loop=arrow == "~>"))
            source = target
    nodes = tuple(NoopNode(id=name, join=(joins or {}).get(name, Join.ALL)) for name in names)
    return FlowDefinition(name="sample", nodes=nodes, edges=tuple(edges), entry=tuple(entry))


def graph(ways: str, *, joins: Mapping[str, Join] | None = None, entry: Sequence[str] = ()) -> Graph:
    """Return the graph of `flow(ways)`."""
    return Graph(flow(ways, joins=joins, entry=entry))


def oldest(count: int) -> int:
    """Let the visit end that opened first."""
    return 0


def newest(count: int) -> int:
    """Let the visit end that opened last."""
    return count - 1


def always(node: str, visit: int) -> None:
    """Take all edges."""


class Walk(NamedTuple):
    """What a run came to: its visits in the order in which they opened, their pasts, the end, and what was left."""

    order: list[Visit]
    pasts: dict[Visit, frozenset[Visit]]
    seen: dict[Visit, dict[str, object]]
    end: View
    left: Marking
    most_open: int


def walked(
    graph: Graph,
    route: Route = always,
    *,
    pick: Callable[[int], int] = oldest,
    concurrency: int = 8,
    at_most: int = 10_000,
    forks: Callable[[], bool] = lambda: False,
) -> Walk:
    """Move tokens until nothing is left to do. Of `count` open visits, number `pick(count)` ends next.

    Where it `forks`, the visits that are open are given up and begin anew. Each visit writes a variable of its node,
    one that all nodes write, and a message.
    """
    marking = Marking.at_entry(graph)
    views = {0: View()}
    ended: dict[int, Ended] = {}
    opened: list[tuple[int, int, tuple[Token, ...], View]] = []
    names: dict[int, Visit] = {}
    counts = [0] * len(graph.nodes)
    pasts: dict[Visit, frozenset[Visit]] = {}
    seen: dict[Visit, dict[str, object]] = {}
    ends: list[int] = []
    most_open = last = 0
    while True:
        for opening in marking.ready(graph):
            if len(opened) == concurrency:
                break
            node, inputs = opening.node, opening.inputs
            last = number = last + 1
            assert number <= at_most, "the run does not end"
            counts[node] += 1
            names[number] = (graph.nodes[node].id, counts[node])
            view = joined(sources(inputs), views, ended)
            pasts[names[number]] = frozenset(names[past] for past in names if view.past >> past & 1)
            seen[names[number]] = {**view.vars, "said": [message.text for message in view.messages]}
            marking = marking.opening(graph, node, number, inputs)
            opened.append((node, number, inputs, view))
        most_open = max(most_open, len(opened))
        if not opened:
            break
        if forks():
            for node, number, inputs, _ in reversed(opened):
                marking = marking.undone(graph, node, inputs)
                counts[node] -= 1
                del names[number]
            opened.clear()
            continue
        node, number, inputs, view = opened.pop(pick(len(opened)))
        name, visit = names[number]
        said = f"{name}{visit}"
        delta = Delta(sets={name: visit, "last": said}, messages=(Message.user(said),))
        ended[number], views[number] = Ended(inputs, delta), view.after(number, delta, views)
        chosen = route(name, visit)
        enables = [
            edge for edge in graph.outgoing[node] if chosen is None or graph.nodes[graph.targets[edge]].id in chosen
        ]
        if not enables:
            ends.append(number)
        marking = marking.ending(graph, node, number, enables, views[number].past)
    end = joined(sorted(ends, key=lambda number: (graph.numbers[names[number][0]], number)), views, ended)
    return Walk(list(names.values()), pasts, seen, end, marking, most_open)
