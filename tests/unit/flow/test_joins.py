"""Which visits a run has: what each rule of joining waits for, and in which order nodes become ready."""

from steptrail.domain.flow.joins import START, Marking, Opening
from steptrail.domain.flow.nodes import Join
from tests.unit.flow.graphs import graph, newest, oldest, walked


class Routes:
    """The routes of nodes by visit; the last one holds for all further visits, and other nodes take all edges."""

    def __init__(self, **routes: list[list[str]]) -> None:
        self.routes = routes

    def __call__(self, node: str, visit: int) -> list[str] | None:
        chosen = self.routes.get(node)
        return None if chosen is None else chosen[min(visit, len(chosen)) - 1]


def test_stacked_diamonds_run_the_last_node_once() -> None:
    walk = walked(graph("a > b > d, a > c > d, d > e > g, d > f > g"))
    assert walk.order == [(node, 1) for node in "abcdefg"]
    assert not walk.left.tokens


def test_a_join_does_not_wait_for_a_branch_that_was_not_taken() -> None:
    walk = walked(graph("a > b > d, a > c > d, d > e"), Routes(a=[["b"]]))
    assert walk.order == [("a", 1), ("b", 1), ("d", 1), ("e", 1)]


def test_a_join_waits_for_a_branch_that_may_still_come() -> None:
    walk = walked(graph("a > b > z, a > c > d > e > z, z > y"), Routes(d=[[]]))
    assert walk.order[-2:] == [("z", 1), ("y", 1)]
    assert walk.order.index(("d", 1)) < walk.order.index(("z", 1))


def test_a_join_behind_a_loop_runs_once_after_it() -> None:
    walk = walked(graph("a > b > c > z, a > z, c ~> b"), Routes(c=[["b", "z"], ["b", "z"], ["z"]]))
    assert [visit for visit in walk.order if visit[0] == "z"] == [("z", 1)]
    assert walk.order[-2:] == [("c", 3), ("z", 1)]


def test_a_node_with_one_way_in_behind_a_loop_has_a_visit_for_each_token() -> None:
    walk = walked(graph("a > b > c > z, c ~> b"), Routes(c=[["b", "z"], ["b", "z"], ["z"]]))
    assert [visit for visit in walk.order if visit[0] == "z"] == [("z", 1), ("z", 2), ("z", 3)]


def test_two_checks_that_lead_back_to_a_draft_make_one_next_round() -> None:
    draft = "start > draft > style > done, draft > facts > done, style ~> draft, facts ~> draft"
    routes = Routes(style=[["draft"], ["done"]], facts=[["draft"], ["done"]])
    for pick in (oldest, newest):
        walk = walked(graph(draft), routes, pick=pick)
        assert [visit for visit in walk.order if visit[0] == "draft"] == [("draft", 1), ("draft", 2)]
        assert walk.pasts["draft", 2] == {("start", 1), ("draft", 1), ("style", 1), ("facts", 1)}
        assert walk.order[-1] == ("done", 1)


def test_the_inner_loop_ends_before_the_outer_begins_its_next_round() -> None:
    walk = walked(graph("a > b > c > d > e, d ~> c, e ~> b"), Routes(d=[["c", "e"], ["e"]], e=[["b"], []]))
    nodes = "".join(node for node, _ in walk.order)
    assert nodes == "abcdcdebcde"


def test_any_runs_at_the_first_branch_and_takes_the_others_in() -> None:
    joins = {"z": Join.ANY}
    for pick, first in ((oldest, "b"), (newest, "c")):
        walk = walked(graph("a > b > z, a > c > z, z > y", joins=joins), pick=pick)
        assert [visit for visit in walk.order if visit[0] in "zy"] == [("z", 1), ("y", 1)]
        assert walk.pasts["z", 1] == {("a", 1), (first, 1)}
        assert not walk.left.tokens


def test_any_runs_once_although_both_branches_wait_for_a_place() -> None:
    made = graph("a > z, b > z, z > y", joins={"z": Join.ANY})
    marking = Marking.at_entry(made)
    for number, node in enumerate((0, 2), 1):
        marking = marking.opening(made, node, number, (START,))
    marking = marking.ending(made, 0, 1, (0,), 0b11).ending(made, 2, 2, (1,), 0b101)
    (opening,) = marking.ready(made)
    assert opening.inputs == ((0, 1),)
    marking = marking.opening(made, opening.node, 3, opening.inputs)
    assert not marking.tokens
    assert marking.forward == 0


def test_any_in_a_loop_runs_again_in_the_next_round() -> None:
    made = graph("a > b > c > d, b > x > c, d ~> b", joins={"c": Join.ANY})
    walk = walked(made, Routes(d=[["b"], []]))
    assert [visit for visit in walk.order if visit[0] == "c"] == [("c", 1), ("c", 2)]
    assert not walk.left.tokens


def test_each_runs_for_every_branch_one_after_the_other() -> None:
    made = graph("a > b > z, a > c > z, z > y", joins={"z": Join.EACH})
    walk = walked(made)
    assert [visit for visit in walk.order if visit[0] in "zy"] == [("z", 1), ("z", 2), ("y", 1), ("y", 2)]


def test_a_node_has_one_open_visit_at_a_time() -> None:
    made = graph("a > z, b > z", joins={"z": Join.EACH})
    marking = Marking.at_entry(made)
    marking = marking.opening(made, 0, 1, (START,)).opening(made, 2, 2, (START,))
    marking = marking.ending(made, 0, 1, (0,), 0b11).ending(made, 2, 2, (1,), 0b101)
    (opening,) = marking.ready(made)
    marking = marking.opening(made, opening.node, 3, opening.inputs)
    assert list(marking.ready(made)) == []
    marking = marking.ending(made, opening.node, 3, (), 0b1011)
    assert [opening.inputs for opening in marking.ready(made)] == [((1, 2),)]


def test_nodes_become_ready_when_the_last_of_what_they_open_with_comes() -> None:
    made = graph("a > z, b > z, a > x, b > y")
    marking = Marking.at_entry(made)
    marking = marking.opening(made, made.numbers["a"], 1, (START,)).opening(made, made.numbers["b"], 2, (START,))
    marking = marking.ending(made, made.numbers["a"], 1, (0, 2), 0b11)
    assert [made.nodes[opening.node].id for opening in marking.ready(made)] == ["x"]
    marking = marking.ending(made, made.numbers["b"], 2, (1, 3), 0b101)
    assert [made.nodes[opening.node].id for opening in marking.ready(made)] == ["x", "z", "y"]


def test_a_visit_that_failed_holds_its_node_until_it_is_taken_up_again_and_ends() -> None:
    made = graph("a > b > d, a > c > d")
    marking = Marking.at_entry(made)
    marking = marking.opening(made, 0, 1, (START,)).ending(made, 0, 1, (0, 2), 0b11)
    for number, opening in enumerate(list(marking.ready(made)), 2):
        marking = marking.opening(made, opening.node, number, opening.inputs)
    marking = marking.ending(made, made.numbers["b"], 2, (1,), 0b111)
    failed = marking.ending(made, made.numbers["c"], 3)
    assert list(failed.ready(made)) != []
    again = failed.reopening(made.numbers["c"])
    assert list(again.ready(made)) == []
    assert again == marking


def test_two_drafts_that_are_sent_back_are_both_written_before_the_next_review() -> None:
    made = graph("start > text > review > done, start > images > review, review ~> text, review ~> images")
    routes = Routes(review=[["text", "images"], ["done"]])
    for concurrency in (1, 8):
        walk = walked(made, routes, concurrency=concurrency)
        assert walk.order[4:] == [("text", 2), ("images", 2), ("review", 2), ("done", 1)]
        assert walk.pasts["images", 2] == {("start", 1), ("text", 1), ("images", 1), ("review", 1)}


def test_what_was_released_from_waiting_for_each_other_keeps_its_tokens_until_a_place_is_free() -> None:
    made = graph("a > c, b > c, c ~> a, c ~> b")
    marking = Marking.at_entry(made)
    for number, opening in enumerate(list(marking.ready(made)), 1):
        marking = marking.opening(made, opening.node, number, opening.inputs)
    marking = marking.ending(made, 0, 1, (0,), 0b11).ending(made, 2, 2, (1,), 0b101)
    (opening,) = marking.ready(made)
    marking = marking.opening(made, opening.node, 3, opening.inputs).ending(made, 1, 3, (2, 3), 0b1111)
    first, second = marking.ready(made)
    assert (first, second) == (Opening(0, ((2, 3),)), Opening(2, ((3, 3),)))
    one = marking.opening(made, 0, 4, first.inputs)
    assert list(one.ready(made)) == [second]
    assert list(one.ending(made, 0, 4, (0,), 0b11111).ready(made)) == [second]
    both = marking.opening(made, 2, 4, second.inputs).opening(made, 0, 5, first.inputs)
    assert both == one.opening(made, 2, 5, second.inputs)


def test_of_loops_that_cross_the_first_nodes_go_on_together() -> None:
    made = graph("x > a > m > s, x > b > n > t, a > t, b > s, s ~> b, t ~> a")
    routes = Routes(s=[["b"], []], t=[["a"], []])
    walks = [walked(made, routes, pick=pick) for pick in (oldest, newest)]
    assert " ".join(f"{node}{visit}" for node, visit in walks[0].order) == "x1 a1 b1 m1 n1 s1 t1 b2 a2 n2 m2 t2 s2"
    assert walks[0].pasts == walks[1].pasts
    assert not walks[0].left.tokens


def test_a_node_of_the_entry_that_another_leads_to_runs_once_after_both() -> None:
    walk = walked(graph("a > b > c", entry=["a", "b"]))
    assert walk.order == [("a", 1), ("b", 1), ("c", 1)]


def test_no_more_are_open_than_there_are_places_and_the_rest_are_tokens() -> None:
    ways = ", ".join(f"a > n{i} > z" for i in range(200))
    walk = walked(graph(ways), concurrency=8)
    assert walk.most_open == 8
    assert walk.order == [("a", 1), *((f"n{i}", 1) for i in range(200)), ("z", 1)]
