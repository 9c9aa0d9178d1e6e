"""The places of the nodes and edges of a drawing: in layers from top to bottom, each node below all that lead to it.

An edge that passes a layer has a place of its own there, so it crosses no node. Loop edges go back on the right.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from steptrail.projections.flow_drawing import DrawnEdge, DrawnFlow, DrawnNode

HEIGHT, _MARGIN = 50.0, 24.0
_BETWEEN, _BESIDE = 54.0, 26.0
_SWEEPS = 12
MOST_BENDS = 20_000
"""Places of edges between nodes. Beyond that an edge is drawn straight, and may cross nodes."""

Spot: TypeAlias = str | tuple[int, int]
"""A node, or an edge by its number in the layer that it passes."""


class Layout:
    """The places of the nodes and edges of a drawing. `layers` are the spots of each layer, from left to right.

    `size` is the width and the height of the picture, `node_height` that of a node.
    """

    node_height = HEIGHT

    def __init__(self, drawn: DrawnFlow) -> None:
        self.drawn = drawn
        self._widths: dict[Spot, float] = {node.id: _width(node) for node in drawn.nodes}
        forward = [(number, edge) for number, edge in enumerate(drawn.edges) if not edge.loop]
        self._layer: dict[Spot, int] = dict.fromkeys(self._widths, 0)
        into: dict[str, list[str]] = {}
        for _, edge in forward:
            into.setdefault(edge.target, []).append(edge.source)
        for node in drawn.nodes:  # each stands behind all that lead to it
            self._layer[node.id] = max((self._layer[source] + 1 for source in into.get(node.id, ())), default=0)
        loops = [edge for edge in drawn.edges if edge.loop]
        self._loops = {edge: number for number, edge in enumerate(loops)}
        self._chains = {number: self._chain(number, edge) for number, edge in forward}
        self.layers: list[list[Spot]] = [[] for _ in range(max(self._layer.values(), default=-1) + 1)]
        for spot, layer in self._layer.items():
            self.layers[layer].append(spot)
        self._above: dict[Spot, list[Spot]] = {}
        self._below: dict[Spot, list[Spot]] = {}
        for chain in self._chains.values():
            for upper, lower in pairwise(chain):
                self._below.setdefault(upper, []).append(lower)
                self._above.setdefault(lower, []).append(upper)
        self._x: dict[Spot, float] = {}
        self._order()
        self._spread()
        self._right = [max(self._x[spot] + self.width(spot) / 2 for spot in layer) for layer in self.layers]
        self.size = (
            max([*self._right, *(self._side(edge) for edge in self._loops)], default=0.0) + _MARGIN,
            2 * _MARGIN + max(len(self.layers) * (HEIGHT + _BETWEEN) - _BETWEEN, 0.0),
        )

    def _chain(self, number: int, edge: DrawnEdge) -> Sequence[Spot]:
        between = range(self._layer[edge.source] + 1, self._layer[edge.target])
        if len(self._layer) + len(between) > MOST_BENDS + len(self._widths):
            return (edge.source, edge.target)
        bends: list[Spot] = [(number, layer) for layer in between]
        self._layer.update(zip(bends, between, strict=True))
        return (edge.source, *bends, edge.target)

    def _order(self) -> None:
        """Put the spots of each layer into an order in which few edges cross."""
        at = {spot: float(place) for layer in self.layers for place, spot in enumerate(layer)}
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for layer in self.layers if down else reversed(self.layers):
                layer.sort(key=lambda spot: _mean(at, (self._above if down else self._below).get(spot, ()), at[spot]))
                at.update((spot, float(place)) for place, spot in enumerate(layer))

    def _spread(self) -> None:
        """Give each spot its x: near to those that it is joined with, and beside its neighbours."""
        for layer in self.layers:
            self._x.update(zip(layer, self._apart(layer, [0.0] * len(layer)), strict=True))
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for layer in self.layers if down else reversed(self.layers):
                joined = self._above if down else self._below
                wanted = [_mean(self._x, joined.get(spot, ()), self._x[spot]) for spot in layer]
                self._x.update(zip(layer, self._apart(layer, wanted), strict=True))
        left = min((x - self.width(spot) / 2 for spot, x in self._x.items()), default=0.0)
        self._x = {spot: x - left + _MARGIN for spot, x in self._x.items()}

    def _apart(self, layer: Sequence[Spot], wanted: Sequence[float]) -> Sequence[float]:
        """Return places as near as possible to the wanted ones: the mean of a row pushed right and one pushed left."""
        steps = [(self.width(one) + self.width(two)) / 2 + _BESIDE for one, two in pairwise(layer)]
        pushed_right, pushed_left = list(wanted), list(wanted)
        for place, step in enumerate(steps):
            pushed_right[place + 1] = max(wanted[place + 1], pushed_right[place] + step)
        for place in range(len(steps) - 1, -1, -1):
            pushed_left[place] = min(wanted[place], pushed_left[place + 1] - steps[place])
        return [(one + two) / 2 for one, two in zip(pushed_right, pushed_left, strict=True)]

    def width(self, spot: Spot) -> float:
        """Return the width of a node, or of the place of an edge."""
        return self._widths.get(spot, 6.0)

    def place(self, spot: Spot) -> tuple[float, float]:
        """Return the x of the middle and the y of the top."""
        return self._x[spot], _MARGIN + self._layer[spot] * (HEIGHT + _BETWEEN)

    def way(self, number: int) -> tuple[str, float, float]:
        """Return the way of an edge as a path of SVG, and the place of what is said of it."""
        edge = self.drawn.edges[number]
        return self._back(edge) if edge.loop else self._forward(self._chains[number])

    def _forward(self, chain: Sequence[Spot]) -> tuple[str, float, float]:
        x, top = self.place(chain[0])
        y = top + HEIGHT
        to_x, to_y = self.place(chain[1])
        # What is said stands where the first curve has come nearer to its end, away from the others that begin there.
        way, said_x, said_y = f"M{x:.1f} {y:.1f}", x + (to_x - x) * 0.784, y + (to_y - y) * 0.658 + 4
        for spot in chain[1:]:
            to_x, to_y = self.place(spot)
            middle = (y + to_y) / 2
            way += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
            x, y = to_x, to_y + HEIGHT
            way += f"V{y:.1f}" if spot is not chain[-1] else ""
        return way, said_x, said_y

    def _back(self, edge: DrawnEdge) -> tuple[str, float, float]:
        """Return the way of a loop edge: below its source, right of all between its ends, above its target."""
        (x, y), (to_x, to_y) = self.place(edge.source), self.place(edge.target)
        x, to_x = x + self.width(edge.source) / 2 - 14, to_x + self.width(edge.target) / 2 - 14
        side, away = self._side(edge), 10 + 5 * (self._loops[edge] % 3)
        y += HEIGHT
        way = f"M{x:.1f} {y:.1f}v{away}H{side:.1f}V{to_y - away:.1f}H{to_x:.1f}V{to_y:.1f}"
        return way, side, (y + to_y) / 2

    def _side(self, edge: DrawnEdge) -> float:
        first, last = sorted((self._layer[edge.source], self._layer[edge.target]))
        return max(self._right[first : last + 1]) + 26.0 + 14.0 * self._loops[edge]


def _width(node: DrawnNode) -> float:
    return max(96.0, sum(map(_letter, node.shown_id)) + 24, 6.4 * len(node.words()) + 24)


def _letter(letter: str) -> float:
    """Return the width of a letter of a name, which is bold, in a font that is wide."""
    return 8.2 + 1.8 * letter.isupper() + 3.4 * (letter in "MWmw")


def _mean(values: Mapping[Spot, float], spots: Sequence[Spot], default: float) -> float:
    return sum(values[spot] for spot in spots) / len(spots) if spots else default
