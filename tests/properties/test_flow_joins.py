"""In whichever order nodes end, and however many run at once, a run has the same visits and they see the same."""

from hypothesis import given, strategies as st

from steptrail.domain.flow.graph import Graph, members
from tests.profile import examples
from tests.properties.flow_graphs import Routed, routed_flows
from tests.unit.flow.graphs import walked


@examples(300)
@given(routed_flows(), st.data())
def test_visits_and_views_do_not_depend_on_the_order_in_which_nodes_end(drawn: Routed, data: st.DataObject) -> None:
    graph = Graph(drawn.flow)
    plain = walked(graph, drawn.route, concurrency=1)
    assert not plain.left.tokens
    picks = data.draw(st.randoms(use_true_random=False))
    for concurrency in (2, 3, 100):
        walk = walked(graph, drawn.route, pick=picks.randrange, concurrency=concurrency)
        assert not walk.left.tokens
        assert walk.most_open <= concurrency
        assert sorted(walk.order) == sorted(plain.order)
        assert walk.pasts == plain.pasts
        assert walk.seen == plain.seen
        assert walk.end.vars == plain.end.vars
        assert walk.end.messages == plain.end.messages


@examples(100)
@given(routed_flows(), st.data())
def test_visits_and_views_are_the_same_where_what_is_open_is_given_up_and_begins_anew(
    drawn: Routed, data: st.DataObject
) -> None:
    graph = Graph(drawn.flow)
    plain = walked(graph, drawn.route, concurrency=1)
    picks, forks = data.draw(st.randoms(use_true_random=False)), iter(data.draw(st.lists(st.booleans(), max_size=30)))
    walk = walked(graph, drawn.route, pick=picks.randrange, concurrency=3, forks=lambda: next(forks, False))
    assert not walk.left.tokens
    assert sorted(walk.order) == sorted(plain.order)
    assert (walk.pasts, walk.seen, walk.end.vars) == (plain.pasts, plain.seen, plain.end.vars)


@examples(100)
@given(routed_flows(most_nodes=9))
def test_what_a_node_awaits_is_what_a_search_finds(drawn: Routed) -> None:
    graph = Graph(drawn.flow)
    back = [edge for edge, it in enumerate(graph.edges) if it.loop]
    forward = [edge for edge, it in enumerate(graph.edges) if not it.loop]

    def reaching(nodes: set[int], edges: list[int]) -> set[int]:
        found, size = set(nodes), -1
        while len(found) != size:
            size = len(found)
            found |= {graph.sources[edge] for edge in edges if graph.targets[edge] in found}
        return found

    loops = {
        head: reaching({graph.sources[edge] for edge in back if graph.targets[edge] == head}, forward)
        & {node for node in range(len(graph.nodes)) if head in reaching({node}, forward)}
        for head in {graph.targets[edge] for edge in back}
    }
    assert {head: set(members(loop.nodes)) for head, loop in graph.loops.items()} == loops
    for node in range(len(graph.nodes)):
        ways = forward + [edge for edge in back if node not in loops[graph.targets[edge]]]
        assert set(members(graph.in_loops[node])) == {head for head, nodes in loops.items() if node in nodes}
        if node not in graph.takes_one:
            assert set(members(graph.awaited[node])) == reaching({node}, ways) - {node}
        if node in loops:
            assert set(members(graph.loops[node].awaited)) == reaching(loops[node], ways) - {node}
