"""What a graph knows of a workflow: its ways, its loops, and which nodes a node has to wait for."""

import pytest

from steptrail.domain.flow.definition import Edge, FlowDefinition, definition_text
from steptrail.domain.flow.graph import (
    Graph,
    _graph_of_equal as kept_graphs,  # pyright: ignore[reportPrivateUsage]
    graph_of,
    members,
)
from steptrail.domain.flow.nodes import NoopNode
from tests.unit.flow.graphs import flow, graph


def ids(of: Graph, nodes: int) -> str:
    """Return the ids of a set of nodes, in alphabetical order."""
    return "".join(sorted(of.nodes[node].id for node in members(nodes)))


def test_nodes_and_edges_have_their_numbers_in_the_definition() -> None:
    made = graph("b > a, b > c, a > c")
    assert made.numbers == {"b": 0, "a": 1, "c": 2}
    assert made.outgoing == ((0, 1), (2,), ())
    assert made.incoming == ((), (0,), (1, 2))
    assert made.sources == (0, 0, 1)
    assert made.targets == (1, 2, 2)


def test_an_edge_that_repeats_another_is_one() -> None:
    made = graph("a > b, a > b, a > c")
    assert made.outgoing[0] == (0, 2)
    assert made.numbers["b"] in made.takes_one


def test_a_run_begins_where_no_forward_edge_leads_to_unless_it_is_said() -> None:
    assert graph("a > b > c, d > c, c ~> b").entry == (0, 3)
    assert graph("a ~> a").entry == (0,)
    assert graph("a > b > c", entry=["b"]).entry == (1,)


def test_forward_edges_lead_from_earlier_to_later_nodes() -> None:
    made = graph("d > c > b > a, d > a, a ~> c")
    assert [made.nodes[node].id for node in made.order] == ["d", "c", "b", "a"]


def test_a_loop_holds_the_nodes_between_its_ends() -> None:
    made = graph("a > b > c > d > e, b > x > e, d ~> b, c ~> b")
    (head,) = made.loops
    assert made.nodes[head].id == "b"
    assert ids(made, made.loops[head].nodes) == "bcd"
    assert [bool(heads) for heads in made.in_loops] == [False, True, True, True, False, False]


def test_a_node_awaits_what_can_reach_it_over_loops_that_it_is_not_in() -> None:
    made = graph("a > b > c > d > e, c > x > e, d ~> b")
    awaited = {node.id: ids(made, made.awaited[number]) for number, node in enumerate(made.nodes)}
    assert awaited == {"a": "", "b": "a", "c": "ab", "d": "abc", "e": "abcdx", "x": ""}


def test_a_node_behind_a_loop_awaits_all_of_it_even_what_is_behind_its_own_way_out() -> None:
    made = graph("a > b > c, b > d, a > d, c ~> b")
    assert ids(made, made.awaited[made.numbers["d"]]) == "abc"


def test_the_next_round_of_a_loop_awaits_the_loop_and_what_leads_into_it() -> None:
    made = graph("a > b > c > d, a > x > c, d > y, d ~> b")
    assert ids(made, made.loops[made.numbers["b"]].awaited) == "acdx"


def test_of_nested_loops_the_outer_awaits_the_inner_and_not_the_other_way_round() -> None:
    made = graph("a > b > c > d > e, d ~> c, e ~> b")
    assert ids(made, made.loops[made.numbers["b"]].nodes) == "bcde"
    assert ids(made, made.loops[made.numbers["b"]].awaited) == "acde"
    assert ids(made, made.loops[made.numbers["c"]].awaited) == "abd"


def test_a_node_with_one_way_in_and_none_back_takes_one_token_at_a_time() -> None:
    made = graph("a > b > c > d, c ~> b, e > d, c > f", entry=["a", "e", "f"])
    assert {made.nodes[node].id for node in made.takes_one} == {"a", "e"}


def test_the_graph_of_a_text_is_made_once() -> None:
    text = definition_text(flow("a > b"))
    assert graph_of(text) is graph_of(text)
    with pytest.raises(ValueError, match="JSON"):
        graph_of("nothing")


def test_ten_thousand_nodes_in_a_row_and_a_thousand_loops_are_known_at_once() -> None:
    count = 10_000
    nodes = tuple(NoopNode(id=f"n{i}") for i in range(count))
    edges = [Edge(source=f"n{i}", target=f"n{i + 1}") for i in range(count - 1)]
    loops = [Edge(source=f"n{i + 9}", target=f"n{i}", loop=True) for i in range(0, count, 10)]
    made = Graph(FlowDefinition(name="long", nodes=nodes, edges=(*edges, *loops)))
    assert made.order == tuple(range(count))
    assert made.awaited[count - 1] == (1 << count - 1) - 1
    assert len(list(members(made.loops[5000].nodes))) == 10


def test_members_of_a_set_come_in_order() -> None:
    assert list(members(0)) == []
    assert list(members(0b1011 | 1 << 100)) == [0, 1, 3, 100]


def test_an_equal_text_is_compared_once_and_then_known_by_its_identity() -> None:
    text = definition_text(flow("a > b"))
    made, equal = graph_of(text), "".join(list(text))
    assert equal is not text
    assert graph_of(equal) is made
    looks = kept_graphs.cache_info()
    assert graph_of(equal) is graph_of(text) is made
    assert kept_graphs.cache_info() == looks


def test_the_graphs_of_many_texts_stay_apart() -> None:
    texts = [definition_text(flow(f"a > b{number}")) for number in range(40)]
    for text in (*texts, *reversed(texts)):
        assert graph_of(text).nodes[1].id == f"b{texts.index(text)}"
