"""Where a run stands in its graph: the tokens that wait at its nodes, the visits that are open, and what may open next.

A node is active while it is open or holds a token. Tokens that came over loop edges make their node active only for the
nodes outside its loop, so that a loop ends its round before the next one begins.

- A node that joins `all` opens with all its tokens over forward edges, when no active node can still reach it. It opens
  with those over loop edges when nothing that is active is in its loop or can still reach into it.
- With `any` the first token opens a visit. Tokens of branches that do not know of this visit are late: they belong to
  it and open nothing.
- With `each`, and where there is one way in and none back, each token opens a visit.

So a run has the same visits in whichever order its nodes end, unless it joins `any` or `each`.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from steptrail.domain.flow.events.nodes import Token
from steptrail.domain.flow.graph import Graph
from steptrail.domain.flow.nodes import Join

__all__ = ["START", "Marking", "Opening"]

START: Token = (-1, 0)
"""The token with which a run begins at a node of its entry. Number 0 is the start of the run."""


class Opening(Struct, frozen=True):
    """A visit that may begin: its node, and the tokens that it takes, ordered by edge and visit."""

    node: int
    inputs: tuple[Token, ...]


class Marking(Struct, frozen=True, kw_only=True):
    """The tokens of each node, in the order in which they came, and the nodes that have an open visit.

    It never changes. The nodes are in the order in which they got what they open with. `forward` and `looping` are the
    nodes with tokens over edges of either kind. `newest` is the number of the newest visit of each node that joins
    `any`.
    """

    tokens: Mapping[int, tuple[Token, ...]] = {}
    forward: int = 0
    looping: int = 0
    opened: int = 0
    newest: Mapping[int, int] = {}

    @classmethod
    def at_entry(cls, graph: Graph) -> "Marking":
        """Return the marking with which a run begins."""
        tokens = dict.fromkeys(graph.entry, (START,))
        return cls(tokens=tokens, forward=sum(1 << node for node in tokens))

    def opening(self, graph: Graph, node: int, number: int, inputs: tuple[Token, ...]) -> "Marking":
        """Return the marking after visit `number` was opened with tokens that wait at its node."""
        tokens, newest = dict(self.tokens), self.newest
        taken = frozenset(inputs)
        left = tuple(token for token in tokens.pop(node, ()) if token not in taken)
        if graph.nodes[node].join is Join.ANY:
            left, newest = (), {**newest, node: number}
        if left:
            tokens[node] = left
        bit = 1 << node
        looping = sum(graph.is_loop(edge) for edge, _ in left)
        return Marking(
            tokens=tokens,
            forward=self.forward | bit if len(left) > looping else self.forward & ~bit,
            looping=self.looping | bit if looping else self.looping & ~bit,
            opened=self.opened | bit,
            newest=newest,
        )

    def reopening(self, node: int) -> "Marking":
        """Return the marking after a visit was taken up again that had ended without a result."""
        return replace(self, opened=self.opened | 1 << node)

    def ending(self, graph: Graph, node: int, number: int, enables: Iterable[int] = (), past: int = 0) -> "Marking":
        """Return the marking after a visit has ended and the edges `enables` were taken.

        `past` are the visits that whoever comes next knows of, this one included.
        """
        tokens, forward, looping = dict(self.tokens), self.forward, self.looping
        for edge in enables:
            target = graph.targets[edge]
            if self.is_late(target, past):
                continue
            held = tokens.get(target, ()) if _takes_one(graph, target) else tokens.pop(target, ())
            tokens[target] = (*held, (edge, number))
            if graph.is_loop(edge):
                looping |= 1 << target
            else:
                forward |= 1 << target
        return replace(self, tokens=tokens, forward=forward, looping=looping, opened=self.opened & ~(1 << node))

    def is_late(self, node: int, past: int) -> bool:
        """Tell whether a node that joins `any` takes a token in without a visit: its past lacks the newest one."""
        return node in self.newest and not past >> self.newest[node] & 1

    def ready(self, graph: Graph) -> Iterator[Opening]:
        """Yield the visits that may open now, in the order in which they became ready. None of them excludes another.

        If nothing is open and all nodes wait for each other, as in loops that cross, the last one goes on: one with
        tokens over loop edges first.
        """
        is_stuck = self.opened == 0
        for node in self.tokens:
            if not self.opened >> node & 1 and (inputs := self._inputs(graph, node)):
                is_stuck = False
                yield Opening(node, inputs)
        if is_stuck and self.tokens:
            node = next(node for node in reversed(graph.order) if (self.looping or self.forward) >> node & 1)
            yield Opening(node, self._of_kind(graph, node, loop=bool(self.looping)))

    def _inputs(self, graph: Graph, node: int) -> tuple[Token, ...]:
        """Return the tokens with which a node may open; none if it has to wait."""
        if _takes_one(graph, node):
            return self.tokens[node][:1]
        is_looping = not self.forward >> node & 1
        awaited = graph.loops[node].awaited if is_looping else graph.awaited[node]
        active = self.forward | self.opened | self.looping & ~graph.in_loops[node]
        return () if active & awaited else self._of_kind(graph, node, loop=is_looping)

    def _of_kind(self, graph: Graph, node: int, *, loop: bool) -> tuple[Token, ...]:
        return tuple(sorted(token for token in self.tokens[node] if graph.is_loop(token[0]) is loop))


def _takes_one(graph: Graph, node: int) -> bool:
    return node in graph.one_by_one or graph.nodes[node].join is not Join.ALL
