"""Finds variables that several nodes write side by side, where nobody says which of the values is to stay."""

from collections.abc import Iterator
from itertools import combinations, islice

from steptrail.domain.flow.choices import chooses_one, routes_of
from steptrail.domain.flow.definition import EdgeWhen
from steptrail.domain.flow.diagnostic import Diagnostic, fault
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.nodes import GateNode, GuardianNode, Join, MergeNode

_MOST_PAIRS = 20_000
_MOST_MEETINGS = 100
"""Of a variable that very many nodes write, as many pairs of them are looked at, and as many that meet: a warning need
not find everything."""


def written_side_by_side(graph: Graph) -> Iterator[Diagnostic]:
    """Yield a warning for each variable that two nodes write whose branches meet, and not in a merge.

    Neither of the two comes after the other, and one run can have both.
    """
    ways, writers = _Branches(graph), dict[str, list[int]]()
    for number, node in enumerate(graph.nodes):
        if node.output is not None:
            writers.setdefault(node.output, []).append(number)
    for key, them in writers.items():
        met = ((pair, ways.meeting(*pair)) for pair in islice(combinations(them, 2), _MOST_PAIRS))
        meeting = ((pair, there) for pair, there in met if there is not None)
        for (one, two), place in islice(meeting, _MOST_MEETINGS):
            if ways.excludes(one, two):
                continue
            first, second, there = (graph.nodes[node].id for node in (one, two, place))
            why = f"{first!r} and {second!r} both write {key!r} and meet at {there!r}, where the last edge wins"
            hint = "join them with a merge, or give them outputs of their own"
            yield fault("FL-102", f"nodes[{two}].output", why, hint, is_warning=True)
            break


class _Branches:
    """The forward ways of a graph. Sets of nodes have the bits of their places in the order of the graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._place = {node: place for place, node in enumerate(graph.order)}
        self._behind = [0] * len(graph.nodes)
        for node in reversed(graph.order):
            for edge in graph.outgoing[node]:
                if not graph.is_loop(edge):
                    self._behind[node] |= self._from(graph.targets[edge])
        self._choosing = [
            node
            for node, edges in enumerate(graph.outgoing)
            if len(edges) > 1 and any(self._alternative(node, edge) is not None for edge in edges)
        ]
        self._without: dict[int, set[int]] = {}

    def meeting(self, one: int, two: int) -> int | None:
        """Return the first node where branches of two nodes meet without a merge; None when there is none."""
        common = self._behind[one] & self._behind[two]
        if self._leads(one, two) or self._leads(two, one):
            return None
        while common:
            node = self.graph.order[(common & -common).bit_length() - 1]
            it = self.graph.nodes[node]
            if not isinstance(it, MergeNode) and it.join is Join.ALL:
                return node
            common &= ~self._from(node)
        return None

    def excludes(self, one: int, two: int) -> bool:
        """Tell whether a node that all ways to both lead over goes on with the one or with the other."""
        return any(
            self._leads(node, one)
            and self._leads(node, two)
            and self._is_needed(node, one)
            and self._is_needed(node, two)
            and self._parts(node, one, two)
            for node in self._choosing
        )

    def _parts(self, node: int, one: int, two: int) -> bool:
        to_one, to_two = set[object](), set[object]()
        for edge in self.graph.outgoing[node]:
            target = self.graph.targets[edge]
            for end, found in ((one, to_one), (two, to_two)):
                if target == end or self._leads(target, end):
                    found.add(self._alternative(node, edge))
        return None not in to_one | to_two and not to_one & to_two

    def _alternative(self, node: int, number: int) -> object:
        """Return what tells an edge from those that are taken instead of it; None for one that is taken beside them."""
        it, edge = self.graph.nodes[node], self.graph.edges[number]
        if edge.when is EdgeWhen.ERROR:
            return EdgeWhen.ERROR
        if chooses_one(it):
            return edge.target
        if isinstance(it, GateNode | GuardianNode) and (routes := routes_of(it)):
            return edge.target == routes[0].target
        return EdgeWhen.SUCCESS if edge.when is EdgeWhen.SUCCESS else None

    def _is_needed(self, node: int, target: int) -> bool:
        """Tell whether all ways to a node lead over another one."""
        if node not in self._without:
            self._without[node] = self.graph.reached(self.graph.entry, around=node)
        return target not in self._without[node]

    def _leads(self, node: int, target: int) -> bool:
        return bool(self._behind[node] >> self._place[target] & 1)

    def _from(self, node: int) -> int:
        return self._behind[node] | 1 << self._place[node]
