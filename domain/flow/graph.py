"""The graph of a workflow, with all that the machine asks of it again and again: computed once for each definition.

Nodes and edges have numbers: their places in the definition. A set of nodes is an integer with the bits of their
numbers, so that thousands of them are compared at once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from steptrail.domain.flow.definition import FlowDefinition, read_definition
from steptrail.domain.flow.nodes import Join, Node

_NodeSet = int
_By = Mapping[int, Sequence[int]]


class Loop(NamedTuple):
    """The nodes on the ways from the target of loop edges, which is the head, to the nodes from which these edges come.

    `awaited` are those that have to be at rest before the next round can begin: all others of the loop, and what can
    still reach into it.
    """

    nodes: _NodeSet
    awaited: _NodeSet


class Graph:
    """A definition without errors, with its nodes and edges by number. It does not change.

    - `numbers`: the number of each node, by id; `sources` and `targets`: the ends of each edge;
    - `outgoing` and `incoming`: the edges of each node, without those that repeat another;
    - `entry`: the nodes at which a run begins;
    - `order`: all nodes, so that forward edges lead from earlier to later ones;
    - `loops`: the loops by the number of their head; `in_loops`: the heads of the loops that a node is in;
    - `takes_one`: the nodes that await nothing and take one token at a time: those that do not join `all`, and those
      with one way in and none back to them;
    - `awaited`: for each other node, those that can reach it over forward edges, and over the loop edges of loops that
      it is not in;
    - `ahead`: for each node with a way back to it, the nodes before it with which it shares such a way.
    """

    def __init__(self, definition: FlowDefinition) -> None:
        self.definition = definition
        self.nodes, self.edges = definition.nodes, definition.edges
        self.numbers = {node.id: number for number, node in enumerate(self.nodes)}
        self.sources = tuple(self.numbers[edge.source] for edge in self.edges)
        self.targets = tuple(self.numbers[edge.target] for edge in self.edges)
        first = {edge: number for number, edge in reversed(list(enumerate(self.edges)))}
        kept = sorted(first.values())
        self.outgoing = _grouped(len(self.nodes), ((self.sources[edge], edge) for edge in kept))
        self.incoming = _grouped(len(self.nodes), ((self.targets[edge], edge) for edge in kept))
        ways = _Ways(self)
        self.entry = tuple(self.numbers[name] for name in definition.entry) or tuple(
            node for node, before in enumerate(ways.before) if not before
        )
        self.order, self.loops, self.in_loops = ways.order, ways.loops, ways.in_loops
        entries = frozenset(self.entry)
        self.takes_one = frozenset(
            number
            for number, (node, edges) in enumerate(zip(self.nodes, self.incoming, strict=True))
            if node.join is not Join.ALL or (len(edges) + (number in entries) <= 1 and not ways.leads_back(number))
        )
        self.ahead = ways.ahead()
        self.awaited = tuple(0 if node in self.takes_one else ways.awaited(node) for node in range(len(self.nodes)))

    def node(self, name: str) -> Node:
        """Return the node with this id."""
        return self.nodes[self.numbers[name]]

    def reached(self, start: Iterable[int], *, around: int | None = None) -> set[int]:
        """Return the nodes with these numbers, and all to which a way leads from them that does not touch `around`."""
        found = {*start} - {around}
        left = list(found)
        while left:
            for edge in self.outgoing[left.pop()]:
                if (target := self.targets[edge]) not in found and target != around:
                    found.add(target)
                    left.append(target)
        return found

    def is_loop(self, edge: int) -> bool:
        """Tell whether an edge leads back. Edge -1, by which a run begins, does not."""
        return edge >= 0 and self.edges[edge].loop


class _Ways:
    """The ways through a graph. It is as large as the square of the graph, and is kept only while that is made.

    Nodes that can reach each other are a *ring*. Before a ring, all ways count for all of its nodes alike; within it,
    those of a loop do not count for the nodes in the loop.
    """

    def __init__(self, graph: Graph) -> None:
        nodes = range(len(graph.nodes))
        forward = [edge for edges in graph.outgoing for edge in edges if not graph.edges[edge].loop]
        self.before = _grouped(len(nodes), ((graph.targets[edge], graph.sources[edge]) for edge in forward))
        self.after = _grouped(len(nodes), ((graph.sources[edge], graph.targets[edge]) for edge in forward))
        self.order = self._ordered()
        self._back: dict[int, list[int]] = {}
        for source, target, edge in zip(graph.sources, graph.targets, graph.edges, strict=True):
            if edge.loop:
                self._back.setdefault(target, []).append(source)
        ahead = self._closure({})
        self._all = self._closure(self._back) if self._back else ahead
        inside = {head: self._between(head, _joined(ahead, sources)) for head, sources in self._back.items()}
        self.in_loops = self._memberships(inside)
        self._rings: dict[_NodeSet, _NodeSet] = {}
        if self._back:
            for node in filter(self.leads_back, nodes):
                self._rings[self._all[node]] = self._rings.get(self._all[node], 0) | 1 << node
        self._heads = sum(1 << head for head in self._back)
        self._near = self._up_to_the_ring() if self._back else ahead
        self.loops = {
            head: Loop(nodes, self._grown(head, _joined(self._near, self._back[head])) & ~(1 << head))
            for head, nodes in inside.items()
        }

    def leads_back(self, node: int) -> bool:
        """Tell whether a way leads from a node back to it."""
        return bool(self._all[node] >> node & 1)

    def awaited(self, node: int) -> _NodeSet:
        """Return the nodes that can reach a node, except over the loop edges of loops that it is in."""
        return self._grown(node, self._near[node]) & ~(1 << node)

    def ahead(self) -> dict[int, _NodeSet]:
        """Return the nodes of its ring from which forward ways lead to each node that is in one."""
        return {node: self._near[node] & ring for ring in self._rings.values() for node in members(ring)}

    def _ordered(self) -> tuple[int, ...]:
        left = [len(before) for before in self.before]
        order = [node for node, count in enumerate(left) if count == 0]
        for node in order:
            for after in self.after[node]:
                left[after] -= 1
                if left[after] == 0:
                    order.append(after)
        return tuple(order)

    def _closure(self, back: _By) -> list[_NodeSet]:
        """Return what can reach each node over forward edges and the edges of `back`."""
        reach = [0] * len(self.before)
        changed = True
        while changed:
            changed = False
            for node in self.order:
                found = _joined(reach, self.before[node])
                if node in back:
                    found |= _joined(reach, back[node])
                    changed = changed or found != reach[node]
                reach[node] = found
        return reach

    def _between(self, head: int, ahead: _NodeSet) -> _NodeSet:
        """Return the nodes on forward ways from a node to those that all of `ahead` can reach."""
        found, left = 1 << head, [head]
        while left:
            for after in self.after[left.pop()]:
                if ahead >> after & 1 and not found >> after & 1:
                    found |= 1 << after
                    left.append(after)
        return found

    def _memberships(self, loops: Mapping[int, _NodeSet]) -> tuple[_NodeSet, ...]:
        heads = [0] * len(self.before)
        for head, nodes in loops.items():
            for node in members(nodes):
                heads[node] |= 1 << head
        return tuple(heads)

    def _up_to_the_ring(self) -> list[_NodeSet]:
        """Return what can reach each node: within its ring over forward edges, before it over all edges."""
        near = [0] * len(self.before)
        for node in self.order:
            for before in (*self.before[node], *self._back.get(node, ())):
                if self._all[before] != self._all[node]:
                    near[node] |= self._all[before] | 1 << before
                elif before in self.before[node]:
                    near[node] |= near[before] | 1 << before
        return near

    def _grown(self, node: int, found: _NodeSet) -> _NodeSet:
        """Return the nodes of `found`, and what reaches them over the loop edges of loops that a node is not in."""
        left = self._rings.get(self._all[node], 0) & self._heads & ~self.in_loops[node]
        while heads := found & left:
            left &= ~heads
            for head in members(heads):
                found |= _joined(self._near, self._back[head])
        return found


_MOST_KEPT = 16

_by_identity: dict[int, tuple[str, Graph]] = {}
"""Graphs by the identity of a text, which is kept so that it stays the only one with it.

The fold asks several times for each event, with the text of its run. To compare a long one takes longer than the event.
"""


def graph_of(text: str) -> Graph:
    """Return the graph of a workflow in its recorded form. Raises `ValueError` if the text is something else."""
    known = _by_identity.get(id(text))
    if known is None:
        known = (text, _graph_of_equal(text))
        for oldest in list(_by_identity)[: 1 - _MOST_KEPT]:
            _by_identity.pop(oldest, None)
        _by_identity[id(text)] = known
    return known[1]


@lru_cache(maxsize=_MOST_KEPT)
def _graph_of_equal(text: str) -> Graph:
    return Graph(read_definition(text))


def members(nodes: _NodeSet) -> Iterator[int]:
    """Yield the numbers in a set, from the smallest."""
    text = bin(nodes)[:1:-1]
    place = text.find("1")
    while place >= 0:
        yield place
        place = text.find("1", place + 1)


def _joined(sets: Sequence[_NodeSet], nodes: Iterable[int]) -> _NodeSet:
    """Return these nodes and all that is in their sets."""
    found = 0
    for node in nodes:
        found |= sets[node] | 1 << node
    return found


def _grouped(count: int, pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return for each of `count` nodes what is paired with it, in order."""
    groups: list[list[int]] = [[] for _ in range(count)]
    for node, item in pairs:
        groups[node].append(item)
    return tuple(map(tuple, groups))
