"""Finds variables that several nodes write side by side, and nobody says which of the values is to stay."""

from collections.abc import Iterator
from itertools import combinations, islice

from steptrail.domain.flow.choices import chooses_one, routes_of
from steptrail.domain.flow.definition import EdgeWhen
from steptrail.domain.flow.diagnostic import Diagnostic, fault
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.nodes import GateNode, GuardianNode, Join, MergeNode

__all__ = ["written_side_by_side"]

_MOST_PAIRS = 500
"""Of a variable that very many nodes write, as many pairs are looked at: a warning need not find everything."""


def written_side_by_side(graph: Graph) -> Iterator[Diagnostic]:
    """Yield a warning for each variable that two nodes write whose branches meet, and not in a merge.

    Neither of the two comes after the other, and one run can have both.
    """
    ways = _Ways(graph)
    for key, writers in ways.writers().items():
        for one, two in islice(combinations(writers, 2), _MOST_PAIRS):
            meeting = ways.meeting(one, two)
            if meeting is None or ways.excludes(one, two):
                continue
            first, second, there = (graph.nodes[node].id for node in (one, two, meeting))
            why = f"{first!r} and {second!r} both write {key!r} and meet at {there!r}, where the last edge wins"
            hint = "join them with a merge, or give them outputs of their own"
            yield fault("FL-102", f"nodes[{max(one, two)}].output", why, hint, is_warning=True)
            break


class _Ways:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._ahead = [0] * len(graph.nodes)
        self._without: dict[int, int] = {}
        for node in graph.order:
            for edge in graph.incoming[node]:
                if not graph.is_loop(edge):
                    self._ahead[node] |= self._up_to(graph.sources[edge])
        self._joins = [node for node in graph.order if len(graph.incoming[node]) > 1]
        self._choosing = [node for node in range(len(graph.nodes)) if len(graph.outgoing[node]) > 1]

    def writers(self) -> dict[str, list[int]]:
        """Return the nodes that write each variable."""
        found: dict[str, list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            if node.output is not None:
                found.setdefault(node.output, []).append(number)
        return found

    def meeting(self, one: int, two: int) -> int | None:
        """Return the first node where branches of two nodes meet without a merge; None when there is none."""
        if self._up_to(one) >> two & 1 or self._up_to(two) >> one & 1:
            return None
        for node in self._joins:
            if not (self._ahead[node] >> one & 1 and self._ahead[node] >> two & 1):
                continue
            before = [self.graph.sources[edge] for edge in self.graph.incoming[node] if not self.graph.is_loop(edge)]
            sees = [(self._up_to(source) >> one & 1, self._up_to(source) >> two & 1) for source in before]
            if (1, 0) in sees and (0, 1) in sees:
                it = self.graph.nodes[node]
                return None if isinstance(it, MergeNode) or it.join is not Join.ALL else node
        return None

    def excludes(self, one: int, two: int) -> bool:
        """Tell whether some node before both goes on with the one or with the other."""
        both = self._ahead[one] & self._ahead[two]
        return any(
            self._parts(node, one, two)
            for node in self._choosing
            if both >> node & 1 and self._is_needed(node, one) and self._is_needed(node, two)
        )

    def _parts(self, node: int, one: int, two: int) -> bool:
        groups = self._alternatives(node)
        to_one = {groups[edge] for edge in groups if self._up_to(one) >> self.graph.targets[edge] & 1}
        to_two = {groups[edge] for edge in groups if self._up_to(two) >> self.graph.targets[edge] & 1}
        return None not in to_one | to_two and not to_one & to_two

    def _alternatives(self, node: int) -> dict[int, object]:
        """Return the edges of a node, each with what distinguishes it from those that are taken instead of it.

        None for an edge that is taken beside others.
        """
        it, edges = self.graph.nodes[node], self.graph.outgoing[node]
        redirects = {route.target for route in routes_of(it)}
        found: dict[int, object] = {}
        for number in edges:
            edge = self.graph.edges[number]
            if edge.when is EdgeWhen.ERROR:
                found[number] = EdgeWhen.ERROR
            elif chooses_one(it):
                found[number] = edge.target
            elif redirects and isinstance(it, GateNode | GuardianNode):
                found[number] = edge.target in redirects
            else:
                found[number] = EdgeWhen.SUCCESS if edge.when is EdgeWhen.SUCCESS else None
        return found

    def _is_needed(self, node: int, target: int) -> bool:
        """Tell whether all ways to a node lead over another one."""
        if node not in self._without:
            found, left = 1 << node, list(self.graph.entry)
            while left:
                if found >> (here := left.pop()) & 1:
                    continue
                found |= 1 << here
                left.extend(self.graph.targets[edge] for edge in self.graph.outgoing[here])
            self._without[node] = found & ~(1 << node)
        return not self._without[node] >> target & 1

    def _up_to(self, node: int) -> int:
        return self._ahead[node] | 1 << node
