"""What is wrong with a definition: each code, its place, and that all of it is found at once."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from steptrail.domain.flow.definition import Edge, EdgeWhen, FlowDefinition
from steptrail.domain.flow.diagnose import diagnose
from steptrail.domain.flow.nodes import (
    CaseSpec,
    ConditionalNode,
    Expression,
    FunctionNode,
    GateNode,
    HumanNode,
    Join,
    LlmNode,
    LlmRouterNode,
    MapNode,
    MergeNode,
    Node,
    NoopNode,
    OnFail,
    RuleRouterNode,
    RuleSpec,
)
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.policies import OnError, RetryPolicy
from tests.profile import examples
from tests.properties.flow_graphs import Routed, routed_flows
from tests.unit.flow.graphs import flow

YES = Expression.of("ok")


def case(to: str, name: str | None = None) -> CaseSpec:
    return CaseSpec(when=YES, to=to, name=name)


def with_nodes(ways: str, *nodes: Node, edges: Sequence[Edge] = (), **fields: Any) -> FlowDefinition:
    """Return `flow(ways)` with some of its nodes in place of those that do nothing, and further edges."""
    made = flow(ways)
    given = {node.id: node for node in nodes}
    return replace(
        made,
        nodes=tuple(given.pop(node.id, node) for node in made.nodes) + tuple(given.values()),
        edges=(*made.edges, *edges),
        **fields,
    )


def writes(name: str, key: str) -> FunctionNode:
    return FunctionNode(id=name, function="f", output=key)


def found(definition: FlowDefinition) -> list[str]:
    """Return the code and the place of each diagnostic; a warning ends in a question mark."""
    return [f"{each.code} {each.path}{'?' * (each.severity == 'warning')}" for each in diagnose(definition)]


def test_a_sound_definition_has_no_diagnostics() -> None:
    router = ConditionalNode(id="b", cases=(case("c"),), default="a")
    assert found(with_nodes("s > a > b > c > d, a > x > d, b ~> a", router)) == []


def test_a_workflow_of_one_node_needs_no_edges() -> None:
    assert found(FlowDefinition(name="one", nodes=(NoopNode(id="a"),))) == []


def test_no_nodes() -> None:
    assert found(FlowDefinition(name="none", nodes=())) == ["FL-109 nodes"]


def test_two_nodes_with_one_id() -> None:
    assert found(FlowDefinition(name="x", nodes=(NoopNode(id="a"), NoopNode(id="a")))) == ["GR-005 nodes[1].id"]


def test_names_that_no_node_has() -> None:
    edges = (Edge(source="a", target="b"), Edge(source="y", target="z"))
    options = RunOptions(pause_before=("a", "q"), pause_after=("*",))
    definition = FlowDefinition(name="x", nodes=(NoopNode(id="a"),), edges=edges, entry=("n",), options=options)
    assert found(definition) == [
        "GR-001 edges[0].target",
        "GR-001 edges[1].source",
        "GR-001 edges[1].target",
        "GR-007 entry[0]",
        "GR-001 options.pause_before[1]",
    ]
    assert diagnose(definition)[0].message == "the edge a > b: no node is called 'b'"


def test_a_node_that_cannot_run() -> None:
    definition = with_nodes("a > b, x > y", NoopNode(id="alone"), entry=("a", "alone"))
    assert found(definition) == ["GR-002 nodes[2]?", "GR-002 nodes[3]?", "GR-002 nodes[4]?"]


def test_a_cycle_names_its_nodes_and_the_edge_that_closes_it() -> None:
    (cycle,) = diagnose(flow("s > a > b > c > d, c > a"))
    assert (cycle.code, cycle.path, cycle.severity) == ("GR-004", "edges[4]", "error")
    assert cycle.message == "a > b > c > a is a cycle"
    assert found(flow("a > b > a, c > c")) == ["GR-004 edges[1]", "GR-004 edges[2]"]
    (back,) = diagnose(flow("a > b, s > b, b > a"))
    assert (back.path, back.message) == ("edges[0]", "b > a > b is a cycle")
    (long,) = diagnose(flow(" > ".join(f"n{i}" for i in range(2000)) + " > n0"))
    assert long.message == "n0 > n1 > n2 > n3 > n4 > n5 > … > n1999 > n0 is a cycle"


def test_a_loop_edge_without_a_loop() -> None:
    assert found(flow("a > b, a > c, b ~> c, b ~> b")) == ["FL-108 edges[2]"]


def test_routes_to_nodes_without_an_edge() -> None:
    definition = with_nodes(
        "a > b, a > x, r > x, r > b, m > x, g > x, x > b",
        ConditionalNode(id="a", cases=(case("b"), case("q")), default="x"),
        RuleRouterNode(id="r", rules=(RuleSpec(to="x"), RuleSpec(to="b")), default="m"),
        LlmRouterNode(id="m", routes={"yes": "x", "no": "b"}, default="x"),
        GateNode(id="g", on_fail=OnFail.REDIRECT, redirect="b"),
    )
    assert found(definition) == [
        "FL-101 nodes[0].cases[1].to",
        "FL-101 nodes[3].default",
        "FL-101 nodes[4].routes.no",
        "FL-101 nodes[5].redirect",
    ]


def test_an_error_edge_is_no_successor_of_a_route() -> None:
    edge = Edge(source="a", target="c", when=EdgeWhen.ERROR)
    router = ConditionalNode(id="a", cases=(case("b"), case("c")), default="b")
    assert found(with_nodes("a > b > c", router, edges=[edge])) == ["FL-101 nodes[0].cases[1].to"]


def test_a_choice_without_a_default_and_an_edge_that_nothing_chooses() -> None:
    definition = with_nodes("a > b > c, a > d, b > d", ConditionalNode(id="a", cases=(case("b"),)))
    assert found(definition) == ["CN-003 nodes[0]?", "CN-001 nodes[0]?"]
    assert found(with_nodes("a > b", RuleRouterNode(id="a", rules=(RuleSpec(to="b"),)))) == []
    assert found(with_nodes("a > b", LlmRouterNode(id="a", routes={"x": "b"}))) == ["CN-003 nodes[0]?"]


def test_a_choice_between_nothing_and_a_case_called_default() -> None:
    assert found(with_nodes("a > b", ConditionalNode(id="a"))) == ["CN-006 nodes[0]"]
    assert found(with_nodes("a > b", RuleRouterNode(id="a"))) == ["CN-006 nodes[0]?"]
    named = ConditionalNode(id="a", cases=(case("b", "default"),), default="b")
    assert found(with_nodes("a > b", named)) == ["CN-005 nodes[0].cases[0].name"]


def test_outputs_under_reserved_names() -> None:
    definition = with_nodes(
        "a > b > c > d > e > f",
        writes("a", "input"),
        writes("b", "x"),
        writes("c", "x_error"),
        LlmNode(id="d", output="y"),
        writes("e", "y_usage"),
        HumanNode(id="f", output="z"),
        writes("g", "z_approved"),
        edges=[Edge(source="f", target="g")],
    )
    assert found(definition) == [f"FL-103 nodes[{place}].output" for place in (0, 2, 4, 6)]


def test_error_edges_that_are_never_taken() -> None:
    edges = [Edge(source=name, target="z", when=EdgeWhen.ERROR) for name in ("a", "b", "c")]
    fails = FunctionNode(id="a", function="f", on_error=OnError.FAIL)
    records = FunctionNode(id="b", function="f", on_error=OnError.RECORD)
    assert found(with_nodes("a > b > c > z", fails, records, edges=edges)) == ["FL-104 edges[3]", "FL-104 edges[5]?"]


@pytest.mark.parametrize(
    ("retry", "timeout", "is_too_long"),
    [
        (RetryPolicy(max_attempts=3, backoff=10), 30.0, True),
        (RetryPolicy(max_attempts=3, backoff=10), 30.5, False),
        (RetryPolicy(max_attempts=5, backoff=10, max_delay=15), 55.0, True),
        (RetryPolicy(max_attempts=5, backoff=10, max_delay=15), 55.5, False),
        (RetryPolicy(max_attempts=2**62, backoff=0), 0.5, False),
        (RetryPolicy(max_attempts=2**62, backoff=1e-9), 30.0, True),
        (RetryPolicy(max_attempts=3, backoff=10), None, False),
    ],
)
def test_waits_that_are_longer_than_the_timeout(retry: RetryPolicy, timeout: float | None, is_too_long: bool) -> None:
    node = FunctionNode(id="a", function="f", retry=retry, timeout=timeout)
    assert found(with_nodes("", node)) == ["FL-107 nodes[0].retry?"] * is_too_long
    each = MapNode(id="m", over="items", node=node)
    assert found(with_nodes("", each)) == ["FL-107 nodes[0].node.retry?"] * is_too_long


def test_one_variable_that_is_written_side_by_side() -> None:
    one, two = writes("b", "k"), writes("c", "k")
    (warning,) = diagnose(with_nodes("a > b > d, a > c > x > d, d > e", one, two))
    assert (warning.code, warning.path, warning.severity) == ("FL-102", "nodes[3].output", "warning")
    assert warning.message == "'b' and 'c' both write 'k' and meet at 'd', where the last edge wins"


def test_a_merge_elsewhere_does_not_help_where_branches_meet_without_one() -> None:
    nodes = (writes("b", "k"), writes("c", "k"), MergeNode(id="d"))
    assert found(with_nodes("a > b > d > f, a > c > d, b > e, c > e", *nodes)) == ["FL-102 nodes[4].output?"]
    assert "meet at 'e'" in diagnose(with_nodes("a > b > d > f, a > c > d, b > e, c > e", *nodes))[0].message


@pytest.mark.parametrize(
    ("ways", "others"),
    [
        ("a > b > c > d", []),
        ("a > b > d, a > c", []),
        ("a > b > d, a > c > d, d > e", [MergeNode(id="d")]),
        ("a > b > d, a > c > d, d > e", [NoopNode(id="d", join=Join.EACH)]),
        ("a > b > d, a > c > d", [ConditionalNode(id="a", cases=(case("b"),), default="c")]),
        ("a > b > d, a > c > d", [GateNode(id="a", on_fail=OnFail.REDIRECT, redirect="c")]),
    ],
)
def test_one_variable_that_is_not_written_side_by_side(ways: str, others: list[Node]) -> None:
    assert found(with_nodes(ways, writes("b", "k"), writes("c", "k"), *others)) == []


def test_the_branch_of_an_error_is_not_beside_that_of_a_success() -> None:
    edges = [
        Edge(source="a", target="b", when=EdgeWhen.SUCCESS),
        Edge(source="a", target="c", when=EdgeWhen.ERROR),
    ]
    nodes = (FunctionNode(id="a", function="f", output="a"), writes("b", "k"), writes("c", "k"))
    assert found(with_nodes("b > d, c > d", *nodes, edges=edges)) == []
    done = [replace(edges[0], when=EdgeWhen.DONE), edges[1]]
    assert found(with_nodes("b > d, c > d", *nodes, edges=done)) == ["FL-102 nodes[2].output?"]


def test_a_choice_that_can_be_gone_round_excludes_nothing() -> None:
    router = ConditionalNode(id="a", cases=(case("b"),), default="c")
    definition = with_nodes("s > a > b > d, a > c > d, s > c", writes("b", "k"), writes("c", "k"), router)
    assert found(definition) == ["FL-102 nodes[4].output?"]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("receipt", []),
        ("receipt.id", []),
        ("vars.receipt", []),
        ("receipt_approved", []),
        ("reciept", ["FL-112 result"]),
        ("vars.recipt.id", ["FL-112 result"]),
        ("{{ receipt }}", ["FL-111 result"]),
        ("brought", ["FL-112 result?"]),
    ],
)
def test_a_result_that_no_node_writes(result: str, told: list[str]) -> None:
    asking = HumanNode(id="a", output="receipt", prompt="?")
    assert found(with_nodes("a > b", asking, result=result)) == told
    # A function may write whatever it likes.
    softened = [each if each.endswith("?") or "111" in each else f"{each}?" for each in told]
    assert found(with_nodes("a > b", asking, writes("b", "k"), result=result)) == softened


def test_everything_is_found_at_once_in_the_order_of_the_definition() -> None:
    definition = FlowDefinition(
        name="x",
        nodes=(ConditionalNode(id="a"), writes("b", "vars"), NoopNode(id="a")),
        edges=(Edge(source="b", target="q"), Edge(source="b", target="b")),
        entry=("z",),
    )
    assert [each.code for each in diagnose(definition)] == ["CN-006", "FL-103", "GR-005", "GR-001", "GR-004", "GR-007"]


def test_a_diagnostic_reads_as_one_line() -> None:
    (error,) = diagnose(FlowDefinition(name="none", nodes=()))
    assert str(error) == "FL-109 nodes: there are no nodes (add the first one)"


@examples(60)
@given(routed_flows())
def test_what_is_drawn_without_errors_has_none(drawn: Routed) -> None:
    assert [each for each in diagnose(drawn.flow) if each.severity == "error"] == []
