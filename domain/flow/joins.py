"""Where a run stands in its graph: the tokens that wait at its nodes, the visits that are open, and what may open next.

A node is active while it is open or holds a token. Tokens that came over loop edges make their node active only for the
nodes outside its loop, so that a loop ends its round before the next one begins.

- A node that joins `all` opens with all its tokens over forward edges, when no active node can still reach it. It opens
  with those over loop edges when nothing that is active is in its loop or can still reach into it.
- With `any` the first token opens a visit. Tokens of branches that do not know of this visit are late: they belong to
  it and open nothing.
- With `each`, and where there is one way in and none back, each token opens a visit.

Of nodes that wait only for each other, the first ones go on together, each with the tokens that it has then. A reviewer
who sends two drafts back makes such a case: each of them is in the way of the other's next round.

So a run has the same visits in whichever order its nodes end, unless it joins `any` or `each`.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from steptrail.domain.flow.events.nodes import Token
from steptrail.domain.flow.graph import Graph, members
from steptrail.domain.flow.nodes import Join

START: Token = (-1, 0)
"""The token with which a run begins at a node of its entry. Number 0 is the start of the run."""


class Opening(Struct, frozen=True):
    """A visit that may begin: its node, and the tokens that it takes, ordered by edge and visit."""

    node: int
    inputs: tuple[Token, ...]


class Marking(Struct, frozen=True, kw_only=True):
    """The tokens of each node, in the order in which they came, and the nodes that have an open visit.

    It never changes. The nodes are in the order in which they got what they open with. `forward` and `looping` are the
    nodes with tokens over edges of either kind. `released` are nodes that waited only for each other, when one of them
    has opened, with those of their tokens that they will take; they count as opened. `newest` is the number of the
    newest visit of each node that joins `any`.
    """

    tokens: Mapping[int, tuple[Token, ...]] = {}
    released: Mapping[int, tuple[Token, ...]] = {}
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
        tokens, newest, released = dict(self.tokens), self.newest, dict(self.released)
        taken, bit = frozenset(inputs), 1 << node
        here = tokens.pop(node, ())
        left = here[1:] if inputs == here[:1] else tuple(token for token in here if token not in taken)
        if graph.nodes[node].join is Join.ANY:
            left, newest = (), {**newest, node: number}
        if left:
            tokens[node] = left
        looping = sum(graph.is_loop(edge) for edge, _ in left) if node in graph.loops else 0
        together = self._group(graph, node) if here and node not in released else bit
        for other in members(together & ~bit):
            released[other] = self._inputs(graph, other)
        released.pop(node, None)
        return Marking(
            tokens=tokens,
            released=released,
            forward=self.forward | bit if len(left) > looping else self.forward & ~bit,
            looping=self.looping | bit if looping else self.looping & ~bit,
            opened=self.opened | bit | together,
            newest=newest,
        )

    def reopening(self, node: int) -> "Marking":
        """Return the marking after a visit was taken up again that had ended without a result."""
        return replace(self, opened=self.opened | 1 << node)

    def undone(self, graph: Graph, node: int, inputs: tuple[Token, ...]) -> "Marking":
        """Return the marking after an open visit was given up that is to open anew, and first, with the same tokens."""
        here = (*inputs, *self.tokens.get(node, ()))
        looping = sum(graph.is_loop(edge) for edge, _ in here)
        return replace(
            self,
            tokens={**self.tokens, node: here},
            released={node: inputs, **self.released},
            forward=self.forward | (len(here) > looping) << node,
            looping=self.looping | (looping > 0) << node,
            opened=self.opened | 1 << node,
        )

    def ending(self, graph: Graph, node: int, number: int, enables: Iterable[int] = (), past: int = 0) -> "Marking":
        """Return the marking after a visit has ended and the edges `enables` were taken.

        `past` are the visits that the next ones know of, this one included.
        """
        tokens, forward, looping = dict(self.tokens), self.forward, self.looping
        for edge in enables:
            target = graph.targets[edge]
            if self.is_late(target, past):
                continue
            held = tokens.get(target, ()) if target in graph.takes_one else tokens.pop(target, ())
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
        """Yield the visits that may open now, in the order in which they became ready; none excludes another."""
        for node, inputs in self.released.items():
            yield Opening(node, inputs)
        for node in self.tokens:
            if not self.opened >> node & 1 and self._group(graph, node):
                yield Opening(node, self._inputs(graph, node))

    def _inputs(self, graph: Graph, node: int) -> tuple[Token, ...]:
        """Return the tokens with which a node opens when it need not wait."""
        if node in graph.takes_one:
            return self.tokens[node][:1]
        is_looping = self._is_looping(node)
        return tuple(sorted(token for token in self.tokens[node] if graph.is_loop(token[0]) is is_looping))

    def _is_looping(self, node: int) -> bool:
        return not self.forward >> node & 1

    def _awaited(self, graph: Graph, node: int) -> int:
        """Return the active nodes that a node with tokens waits for."""
        if node in graph.takes_one:
            return 0
        awaited = graph.loops[node].awaited if self._is_looping(node) else graph.awaited[node]
        return awaited & (self.forward | self.opened | self.looping & ~graph.in_loops[node])

    def _group(self, graph: Graph, node: int) -> int:
        """Return a node and those that open with it, because they wait only for each other; none if it has to wait."""
        if not self._awaited(graph, node):
            return 1 << node
        group, left = 1 << node, [node]
        waits = dict[int, int]()
        while left:
            waiting = left.pop()
            waits[waiting] = awaited = self._awaited(graph, waiting)
            if not awaited or awaited & self.opened:
                return 0
            left.extend(members(awaited & ~group))
            group |= awaited
        back, before = 1 << node, 0
        while back != before:
            before = back
            back |= sum(1 << waiting for waiting, awaited in waits.items() if awaited & before)
        if back != group:
            return 0
        first = sum(1 << member for member in waits if not graph.ahead.get(member, 0) & group)
        return first if first >> node & 1 else 0
