"""A drawing says of each node what became of it, and of each edge how often it was taken."""

from steptrail.domain.flow.definition import Edge, EdgeWhen, FlowDefinition, definition_text
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import (
    ApprovalGranted,
    ApprovalRequested,
    CutReason,
    FlowEvent,
    FlowRetried,
    FlowStarted,
    HumanAnswered,
    HumanRequested,
    NodeAttemptInterrupted,
    NodeAttemptStarted,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodeFailureRecorded,
    NodeOpened,
    NodeRetryScheduled,
    NodeSkipped,
    NodeThen,
    StepAnswered,
    StepHeld,
)
from steptrail.domain.flow.nodes import FunctionNode, HumanNode, NoopNode
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.tools import ToolEffect
from steptrail.projections.flow_drawing import DrawnFlow, DrawnNode
from steptrail.projections.flow_graph import drawn_flow, drawn_run

FLOW = FlowDefinition(
    name="sample",
    nodes=(NoopNode(id="end"), FunctionNode(id="load", function="f"), HumanNode(id="ask"), NoopNode(id="help")),
    edges=(
        Edge(source="load", target="ask", when=EdgeWhen.SUCCESS),
        Edge(source="load", target="help", when=EdgeWhen.ERROR),
        Edge(source="ask", target="load", loop=True),
        Edge(source="ask", target="end"),
        Edge(source="ask", target="end"),
    ),
)
STARTED = FlowStarted(
    execution_id="x:1",
    ordinal=1,
    segment=1,
    worker="w",
    library="1",
    flow="sample",
    definition=definition_text(FLOW),
    digest="",
    options=RunOptions(),
    by="ana",
)
AGAIN = FlowRetried(execution_id="x:2", ordinal=2, segment=2, worker="w", library="1", visits=(1,), by="ana")
ERROR = NodeError(
    node_id="load", kind="function", message="no", attempt=2, visit=1, failure=FailureClass.ERROR, tier="run", at=0
)
ASKED = HumanRequested(request_id="r", node="ask", visit=1, type="approval", prompt="", digest="", on_timeout="fail")
HELD = ApprovalRequested(approval_id="p", node="load", tool="t", arguments_digest="", expires_at=1, asked_by="t")
PARKED = NodeAttemptInterrupted(
    node="load", visit=1, attempt=1, reason=CutReason.CRASH, then=NodeThen.PARK, duration_seconds=0
)


def opened(node: str, visit: int = 1) -> NodeOpened:
    return NodeOpened(node=node, visit=visit, number=visit)


def tried(attempt: int) -> NodeAttemptStarted:
    read = ToolEffect.READ
    return NodeAttemptStarted(node="load", visit=1, attempt=attempt, effect_id="e", effect=read, input_digest="")


def retry(attempt: int) -> NodeRetryScheduled:
    return NodeRetryScheduled(node="load", visit=1, attempt=attempt, draw=0, delay_seconds=1, due_at=1)


def drawn(*events: FlowEvent) -> DrawnFlow:
    drawing = drawn_run((STARTED, *events))
    assert drawing is not None
    return drawing


def node(name: str, *events: FlowEvent) -> DrawnNode:
    return next(node for node in drawn(*events).nodes if node.id == name)


def test_before_the_first_run_there_is_the_workflow_alone() -> None:
    assert drawn_run([]) is None
    assert drawn_flow(FLOW) == drawn()
    assert drawn_flow(FLOW).text() == (
        "load  function\n"
        "  > ask (success)\n"
        "  > help (error)\n"
        "ask   human\n"
        "  > load (loop)\n"
        "  > end\n"
        "help  noop\n"
        "end   noop\n"
    )


def test_a_run_is_drawn_with_tries_waits_and_the_edges_that_were_taken() -> None:
    answer = HumanAnswered(request_id="r", by="ana", approved=True)
    first = (opened("load"), tried(1), retry(2), tried(2), NodeCompleted(node="load", visit=1, enables=(0,)))
    asked = (opened("ask"), ASKED, answer, NodeCompleted(node="ask", visit=1, enables=(2,)))
    last = (opened("load", 2), tried(1), NodeFailureRecorded(node="load", visit=2, error=ERROR, rule="r", enables=(1,)))
    drawing = drawn(*first, *asked, *last, opened("help"))
    assert drawing.text() == (
        "load  function  failed and tolerated, ran twice, 3 tries, 1 wait\n"
        "  > ask (success)\n"
        "  > help (error)\n"
        "ask   human     ran once\n"
        "  > load (loop)\n"
        "  > end (not taken)\n"
        "help  noop      running\n"
        "end   noop      not reached\n"
    )
    assert drawing.mermaid() == (
        "flowchart TD\n"
        '    n0["load<br/>function<br/>failed and tolerated, ran twice, 3 tries, 1 wait"]:::tolerated\n'
        '    n1["ask<br/>human<br/>ran once"]:::ran\n'
        '    n2["help<br/>noop<br/>running"]:::open\n'
        '    n3["end<br/>noop"]:::untouched\n'
        '    n0 ==>|"success"| n1\n'
        '    n0 ==>|"error"| n2\n'
        "    n1 -.-> n0\n"
        "    n1 --> n3\n"
        "    classDef open fill:#e0edff,stroke:#2563eb,color:#111\n"
        "    classDef ran fill:#e3f7e8,stroke:#2f855a,color:#111\n"
        "    classDef tolerated fill:#fde8d8,stroke:#c05621,color:#111\n"
        "    classDef untouched fill:#fff,stroke:#999,color:#666\n"
    )


def test_an_edge_of_a_node_that_runs_again_says_that_it_was_taken() -> None:
    first = (opened("load"), NodeCompleted(node="load", visit=1, enables=(0,)))
    assert "  > ask (success)\n  > help (error, not taken)\n" in drawn(*first).text()
    assert "  > ask (success, taken once)\n  > help (error)\n" in drawn(*first, opened("load", 2)).text()
    again = NodeCompleted(node="load", visit=2, enables=(0,))
    assert "  > ask (success, taken twice)\n" in drawn(*first, opened("load", 2), again).text()


def test_its_data_has_every_count() -> None:
    data = drawn(opened("load"), NodeCompleted(node="load", visit=1, enables=(0,), item_errors=2)).to_dict()
    assert list(data) == ["name", "nodes", "edges"]
    match data["nodes"], data["edges"]:
        case [first, *_], [taken, *_]:
            assert first == {
                "id": "load",
                "kind": "function",
                "mark": "ran",
                "ran": 1,
                "tolerated": 0,
                "skipped": 0,
                "tries": 0,
                "waits": 0,
                "errorsOfItems": 2,
            }
            assert taken == {"source": "load", "target": "ask", "when": "success", "loop": False, "taken": 1}
        case _:
            raise AssertionError(data)


def test_a_node_waits_until_it_is_answered_or_tried_again() -> None:
    marks = [
        node("ask", opened("ask"), ASKED).mark,
        node("ask", opened("ask"), ASKED, HumanAnswered(request_id="r", by="ana")).mark,
        node("ask", opened("ask"), ASKED, HumanAnswered(request_id="q", by="ana")).mark,
        node("load", opened("load"), tried(1), retry(2)).mark,
        node("load", opened("load"), tried(1), retry(2), tried(2)).mark,
        node("load", opened("load"), HELD).mark,
        node("load", opened("load"), HELD, ApprovalGranted(approval_id="p", by="ana")).mark,
        node("load", opened("load"), tried(1), PARKED).mark,
        node("load", opened("load"), StepHeld(node="load", visit=1, point="before")).mark,
    ]
    assert marks == ["waiting", "open", "waiting", "waiting", "open", "waiting", "open", "waiting", "waiting"]
    answer = StepAnswered(node="load", visit=1, point="before", action="continue", by="ana")
    assert node("load", opened("load"), StepHeld(node="load", visit=1, point="before"), answer).mark == "open"


def test_what_failed_is_open_again_after_a_retry_of_the_run() -> None:
    failed = (opened("load"), opened("ask"), NodeFailed(node="load", visit=1, error=ERROR, rule="critical"))
    cut = tuple(NodeCancelled(node=name, visit=1, reason="sibling") for name in ("load", "ask"))
    assert [node(name, *failed, *cut).mark for name in ("load", "ask")] == ["failed", "cancelled"]
    assert [node(name, *failed, *cut, AGAIN).mark for name in ("load", "ask")] == ["open", "open"]
    assert node("load", *failed).words() == "failed"


def test_a_skipped_node_says_so() -> None:
    skipped = NodeSkipped(node="ask", visit=1, by="ana", enables=(3,))
    assert node("ask", opened("ask"), skipped).words() == "skipped once"
    assert drawn(opened("ask"), skipped).edges[3].taken == 1


def test_an_item_that_failed_is_no_failure_of_its_map() -> None:
    item = NodeFailureRecorded(node="load", visit=1, item=3, error=ERROR, rule="r")
    assert node("load", opened("load"), item).mark == "open"


def test_a_new_execution_is_drawn_afresh() -> None:
    assert drawn(opened("load"), NodeCompleted(node="load", visit=1), STARTED) == drawn()
