"""Every event of a workflow has something to say, on one line, whatever a node put into it."""

from typing import Any, get_args

import pytest
from msgspec import structs

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import (
    CutReason,
    FlowEvent,
    HumanAnswered,
    HumanRequested,
    LimitReached,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
    NodeAttemptStarted,
    NodeCompleted,
    NodeEvaluated,
    NodeFailureRecorded,
    NodeOpened,
    NodeRetryScheduled,
    NodeThen,
    StepAnswered,
)
from steptrail.domain.flow.files import form_of
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route
from steptrail.domain.kernel.event import Event
from steptrail.domain.messages import FilePart
from steptrail.domain.shared.events import ExecutionFinished
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.tools import ToolEffect
from steptrail.interfaces.cli.flow_summaries import flow_summary
from steptrail.interfaces.cli.kinds import summary_of
from steptrail.runtime.flow.failure_class import faulty
from tests.samples import smallest

SHOT = FilePart(digest="0" * 64, mime_type="image/png", size=3, filename="a.png")
HOSTILE = "\x1b[2J\n" + "x" * 500
ERROR = ErrorInfo(type=ErrorType.TOOL, error_class="x:Y", message="no\nluck")
OUT = FailureClass.UNAVAILABLE
NODE_ERROR = NodeError(node_id="a", kind="tool", message="gone", attempt=3, visit=1, failure=OUT, tier="node", at=1)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (NodeOpened(node="a", visit=2, number=3, items=1), "a (visit 2), 1 item"),
        (
            NodeAttemptStarted(
                node="a", visit=1, item=2, attempt=2, effect_id="f:1:a:1:2", effect=ToolEffect.READ, input_digest="d"
            ),
            "a item 3 (f:1:a:1:2), attempt 2",
        ),
        (
            NodeAttemptCompleted(node="a", visit=1, attempt=1, output={"x": 1}, duration_seconds=0.25),
            'a in 0.25 s: {"x":1}',
        ),
        (
            NodeAttemptCompleted(
                node="a", visit=1, attempt=1, output=[form_of(SHOT)], files=(SHOT,), duration_seconds=0.25
            ),
            'a in 0.25 s: ["[image/png, 3 bytes, a.png]"]',
        ),
        (
            NodeAttemptCompleted(node="a", visit=1, attempt=1, duration_seconds=0.0, settled_by="ana"),
            "a said by ana: null",
        ),
        (
            NodeAttemptInterrupted(
                node="a",
                visit=1,
                attempt=1,
                reason=CutReason.CRASH,
                then=NodeThen.RERUN,
                duration_seconds=0.0,
                settled_by="ana",
                settled_reason="no trace of it",
            ),
            "a: said by ana (no trace of it): it runs again",
        ),
        (
            NodeAttemptCompleted(node="a", visit=1, attempt=0, is_kept=True, duration_seconds=0.0),
            "a kept from before: null",
        ),
        (
            NodeAttemptFailed(node="a", visit=1, attempt=1, failure=OUT, error=ERROR, duration_seconds=1),
            "a in 1.00 s, unavailable: Y: no luck",
        ),
        (faulty(("a", 1, None), NodeFault(FailureClass.CONFIG, "no code")), "a in 0.00 s, config: no code"),
        (
            NodeAttemptInterrupted(
                node="a", visit=1, attempt=1, reason=CutReason.CRASH, then=NodeThen.PARK, duration_seconds=0
            ),
            "a: crash, outcome unknown: a person is to say",
        ),
        (
            NodeRetryScheduled(node="a", visit=1, attempt=2, draw=0.5, delay_seconds=0.5, due_at=5),
            "a again in 0.50 s, attempt 2",
        ),
        (
            NodeFailureRecorded(node="a", visit=1, error=NODE_ERROR, rule="on_error=continue"),
            "a, unavailable, node tier (on_error=continue): gone",
        ),
        (
            NodeEvaluated(node="r", visit=1, output="left", route=Route(targets=("l",), reason="x")),
            "r to l: left",
        ),
        (
            NodeCompleted(node="m", visit=1, item_errors=2, route=Route(targets=(), reason="")),
            "m to nowhere, 2 items failed",
        ),
        (
            LimitReached(limit="max_visits", scope="run", node="a", at_most="3", actual="4"),
            "a: max_visits is 3, and it was 4",
        ),
        (
            HumanRequested(
                request_id="f:1:a:1",
                node="a",
                visit=1,
                type="choice",
                prompt="Which\none?",
                digest="d",
                on_timeout="fail",
            ),
            "a (choice): Which one?",
        ),
        (HumanAnswered(request_id="q", by="ana", approved=False, notes="no"), "q by ana: rejected, no"),
        (HumanAnswered(request_id="q", by="ana"), "q by ana: null"),
        (
            StepAnswered(node="a", visit=1, point="before", action="skip", by="ana", reason="late"),
            "a, before it: skip, by ana: late",
        ),
        (
            ExecutionFinished(
                status=ExecutionStatus.COMPLETED,
                stop_reason=StopReason.COMPLETED,
                resolved_by="WorkDone",
                recorded_errors=2,
            ),
            "completed with 2 errors (completed), by WorkDone",
        ),
    ],
)
def test_an_event_says_what_it_carries(event: FlowEvent, said: str) -> None:
    assert flow_summary(event) == said
    assert summary_of("flow:x", event) == said


def test_no_event_type_of_a_workflow_is_left_without_a_word_or_says_it_on_two_lines() -> None:
    said = {kind.__name__: flow_summary(_any_event(kind)) for kind in get_args(FlowEvent)}
    assert [name for name, text in said.items() if not text or "\n" in text or "\x1b" in text or len(text) > 100] == []


def test_an_event_of_another_machine_says_nothing() -> None:
    assert flow_summary(Event()) == ""


def _any_event(kind: Any) -> FlowEvent:
    event: FlowEvent = smallest(kind, **{field.name: HOSTILE for field in structs.fields(kind) if field.type is str})
    return event
