"""Workflows drawn at random: branches that part and meet, loops in each other and across each other, routes."""

from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from steptrail.domain.flow.definition import Edge, FlowDefinition
from steptrail.domain.flow.nodes import NoopNode

_ROUNDS = 3
"""After as many visits a node leads back no more, so that each run ends."""


class Routed(NamedTuple):
    """A workflow, and what each visit of its nodes chooses."""

    flow: FlowDefinition
    seed: int

    def route(self, node: str, visit: int) -> list[str]:
        """Return the targets that a visit of a node chooses: all, one, some, or only the way back."""
        random = Random(f"{self.seed} {node} {visit}")  # noqa: S311 - the same choice each time
        onward = [edge.target for edge in self.flow.edges if edge.source == node and not edge.loop]
        back = [edge.target for edge in self.flow.edges if edge.source == node and edge.loop and visit <= _ROUNDS]
        match random.choice(("all", "all", "one", "some", "back")):
            case "all":
                return onward + (back if random.random() < 0.7 else [])
            case "one":
                return [random.choice(onward + back)] if onward + back else []
            case "back":
                return back or onward
            case _:
                return [target for target in onward + back if random.random() < 0.6]


@st.composite
def routed_flows(draw: st.DrawFn, most_nodes: int = 12, most_loops: int = 5) -> Routed:
    """Draw a workflow without errors, with its nodes and edges declared in any order, and its routes."""
    count = draw(st.integers(2, most_nodes))
    ahead = [{0}]
    ways: list[tuple[int, int, bool]] = []
    for target in range(1, count):
        before = sorted(draw(st.sets(st.integers(0, target - 1), min_size=int(draw(st.booleans())), max_size=3)))
        ways += [(source, target, False) for source in before]
        ahead.append({target}.union(*(ahead[source] for source in before)))
    for source in draw(st.lists(st.integers(0, count - 1), max_size=most_loops)):
        ways.append((source, draw(st.sampled_from(sorted(ahead[source]))), True))
    return Routed(
        FlowDefinition(
            name="drawn",
            nodes=tuple(NoopNode(id=f"n{number}") for number in draw(st.permutations(range(count)))),
            edges=tuple(
                Edge(source=f"n{source}", target=f"n{target}", loop=loop)
                for source, target, loop in draw(st.permutations(ways))
            ),
        ),
        draw(st.integers(0, 2**16)),
    )
