"""A run as bars: steps and visits, tries as parts of one lane, rests folded, ends that are open."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from steptrail import Steptrail
from steptrail.domain.agent.events import (
    ApprovalDenied,
    ApprovalExpired,
    ContinuationEvaluated,
    EvaluationsRecorded,
    ExecutionFinished,
    ExecutionPaused,
    ExecutionResumed,
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceStarted,
    MetadataChanged,
    PauseLifted,
    StepCompleted,
    StepStarted,
    StopRequested,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import (
    FlowResumed,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
    NodeAttemptStarted,
    NodeAttemptSuspended,
    NodeCancelled,
    NodeCompleted,
    NodeFailed,
    NodeFailureRecorded,
    NodeOpened,
    NodeSkipped,
    NodeThen,
)
from steptrail.domain.flow.events.attempts import CutReason
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.domain.tools import ToolEffect
from steptrail.projections.agent_waterfall import agent_waterfall
from steptrail.projections.decision_panel import decision_panel, share_of_limit
from steptrail.projections.flow_waterfall import ends_visit, flow_waterfall
from steptrail.projections.waterfall import Rest, TimeAxis, Waterfall, WaterfallRow
from steptrail.testing import call, calls
from tests.inspector.inspected import desk, publisher

SECOND = 1_000_000
ERROR = ErrorInfo(type=ErrorType.TOOL, error_class="builtins:KeyError", message="'x'")
FINISHED = ExecutionFinished(status=ExecutionStatus.FAILED, stop_reason=StopReason.ERROR, resolved_by="E")


def at_each_second(*events: Event) -> Sequence[Recorded[Any]]:
    return [Recorded(version, version * SECOND, event) for version, event in enumerate(events, 1)]


def model_asked(attempt: int = 1) -> InferenceStarted:
    return InferenceStarted(step=1, attempt=attempt, model="m", request_digest="", message_count=1)


def begun(position: int, attempt: int = 1) -> ToolExecutionStarted:
    return ToolExecutionStarted(
        position=position,
        call_id="c",
        tool=f"tool-{position}",
        effect_id="e",
        effect=ToolEffect.READ,
        attempt=attempt,
        arguments_digest="",
    )


def resumed(ended_by: SegmentEnd) -> ExecutionResumed:
    return ExecutionResumed(
        segment=2,
        worker="vm:2",
        library="1",
        ended_by=ended_by,
        was_productive=True,
        interrupted_seconds=0.0,
        by="user",
    )


def bars(drawn: Waterfall) -> list[Any]:
    """Return the rows as plain values."""
    return [
        (row.kind, row.ended and row.ended // SECOND, row.by)
        if isinstance(row, Rest)
        else (
            row.name,
            row.outcome,
            [(lane.name, [(bar.outcome, bar.said, bar.ended and bar.ended // SECOND) for bar in lane.bars])
             for lane in row.lanes],
        )
        for row in drawn.rows
    ]  # fmt: skip


async def test_a_stored_run_is_drawn_with_a_row_a_step_and_a_lane_a_call() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        both = calls(("search", {"query": "a"}), ("search", {"query": "b"}))
        await trail.run(desk(both, call("look_up", key="k")), "Hi", session="s")
        drawn = agent_waterfall(await trail.session("s").events())
    first, second = (row for row in drawn.rows if isinstance(row, WaterfallRow))
    assert [[lane.name for lane in row.lanes] for row in (first, second)] == [
        ["scripted", "search", "search"],
        ["scripted", "look_up"],
    ]
    assert (first.outcome, second.outcome, second.lanes[1].bars[0].said) == ("completed", "failed", "tool")
    assert first.decision is not None
    assert second.decision is not None
    assert (first.decision.event.should_continue, second.decision.event.should_continue) == (True, False)
    assert second.decision.event.resolved_by == "ErrorPolicyCriterion"
    assert drawn.rows[0].began <= drawn.rows[1].began <= drawn.last


@pytest.mark.acceptance("8.6-6")
def test_the_tries_of_a_call_are_parts_of_one_lane_and_each_says_how_it_ended() -> None:
    reply = calls(("tool-0", {}), ("tool-1", {}), ("tool-2", {}))
    drawn = agent_waterfall(
        at_each_second(
            begun(0),  # of a step that began before
            StepStarted(number=1),
            model_asked(),
            InferenceFailed(error=ERROR, duration_seconds=1),
            model_asked(2),
            InferenceInterrupted(reason="deadline", is_given_up=False),
            model_asked(3),
            InferenceCompleted(reply=reply, duration_seconds=1),
            begun(0),
            ToolExecutionFailed(position=0, error=ERROR, duration_seconds=1, may_retry=True),
            begun(0, 2),
            ToolExecutionInterrupted(position=0, reason="crash", then=Then.RERUN, duration_seconds=0),
            begun(0, 3),
            ToolExecutionCompleted(position=0, duration_seconds=1),
            ToolCallBlocked(position=1, reason="no", hook="h"),
            ToolCallCancelled(position=9, reason="no"),
            begun(2),
            ToolExecutionSuspended(position=2, session="s", reason="waiting", duration_seconds=1),
            ToolExecutionCompleted(position=7, duration_seconds=1),
            StepCompleted(number=1, duration_seconds=1, errors=1),
        )
    )
    assert bars(drawn) == [
        (
            "step 1",
            "failed",
            [
                ("m", [("failed", "tool", 4), ("interrupted", "deadline", 6), ("completed", "", 8)]),
                ("tool-0", [("failed", "tool", 10), ("interrupted", "crash", 12), ("completed", "", 14)]),
                ("tool-1", [("refused", "", 15)]),
                ("call 9", [("refused", "", 16)]),
                ("tool-2", [("suspended", "waiting", 18)]),
            ],
        )
    ]


def test_a_call_that_never_ran_has_a_lane_and_what_was_learnt_of_one_later_ends_its_try() -> None:
    failed = ToolExecutionFailed(position=1, error=ERROR, duration_seconds=0)
    reply: list[tuple[str, dict[str, JsonValue]]] = [(f"tool-{place}", {}) for place in range(6)]
    cut_off = ToolExecutionInterrupted(position=0, reason="deadline", then=Then.PARK, duration_seconds=1)
    drawn = agent_waterfall(
        at_each_second(
            StepStarted(number=1),
            InferenceCompleted(reply=calls(*reply), duration_seconds=1),
            begun(0),
            cut_off,
            failed,
            ApprovalDenied(approval_id="s:1:1:2", by="ana"),
            ApprovalExpired(approval_id="s:1:1:3"),
            structs.replace(failed, position=0, settled_by="ana"),
            structs.replace(begun(5), effect_id="s:1:1:5"),
            ToolExecutionSettledLate(effect_id="s:1:1:5", attempt=2, segment=1),
            # A worker may tell late also of a call of a step that is over.
            ToolExecutionSettledLate(effect_id="s:1:0:5", attempt=1, segment=1),
            ToolExecutionSettledLate(effect_id="s:1:1:5", attempt=1, segment=1),
            ToolExecutionInterrupted(position=5, reason="crash", then=Then.TELL, duration_seconds=0),
        )
    )
    ((_, _, lanes),) = bars(drawn)
    assert lanes == [
        ("tool-0", [("failed", "tool", 4)]),
        ("tool-1", [("failed", "tool", 5)]),
        ("tool-2", [("refused", "", 6)]),
        ("tool-3", [("refused", "", 7)]),
        ("tool-5", [("completed", "", 12)]),
    ]


def test_a_call_that_was_begun_and_is_called_off_ends_as_what_it_came_to() -> None:
    reply: list[tuple[str, dict[str, JsonValue]]] = [(f"tool-{place}", {}) for place in range(5)]
    cut_off = ToolExecutionInterrupted(position=0, reason="crash", then=Then.RERUN, duration_seconds=0)
    suspended = ToolExecutionSuspended(position=2, session="s", reason="waiting", duration_seconds=1)
    drawn = agent_waterfall(
        at_each_second(
            StepStarted(number=1),
            InferenceCompleted(reply=calls(*reply), duration_seconds=1),
            structs.replace(begun(0, 2), effect_id="s:1:1:0"),
            cut_off,
            begun(1),
            ToolExecutionFailed(position=1, error=ERROR, duration_seconds=1, may_retry=True),
            structs.replace(begun(2), effect_id="s:1:1:2"),
            suspended,
            begun(3),
            structs.replace(suspended, position=3),
            *(ToolCallCancelled(position=place, reason="stopped") for place in (0, 1, 2, 4)),
            ToolExecutionFailed(position=3, error=ERROR, duration_seconds=0),
            ToolExecutionSettledLate(effect_id="s:1:1:0", attempt=2, segment=1),
            StepCompleted(number=1, duration_seconds=1, errors=2),
            ToolExecutionSettledLate(effect_id="s:1:1:2", attempt=1, segment=1),
        )
    )
    ((_, _, lanes),) = bars(drawn)
    assert lanes == [
        ("tool-0", [("completed", "", 4)]),
        ("tool-1", [("failed", "tool", 6)]),
        ("tool-2", [("interrupted", "waiting", 8)]),
        ("tool-3", [("failed", "tool", 10)]),
        ("tool-4", [("refused", "", 14)]),
    ]


def test_waits_pauses_and_crashes_are_rests_and_what_is_open_has_no_end() -> None:
    drawn = agent_waterfall(
        at_each_second(
            StepStarted(number=1),
            WaitStarted(kind="approval"),
            ExecutionPaused(by="ana", step_seconds=0.0),
            resumed(SegmentEnd.PAUSE),
            MetadataChanged(by="ana"),
            resumed(SegmentEnd.WAIT),
            WaitEnded(reason="approved", by="ben"),
            WaitEnded(reason="due"),
            StopRequested(by="ana"),
            resumed(SegmentEnd.CRASH),
            WaitStarted(kind="unknown_outcome"),
            ExecutionPaused(by="ana", step_seconds=0.0),
            WaitEnded(reason="settled", by="ben"),
            PauseLifted(by="ben"),
            resumed(SegmentEnd.PAUSE),
            WaitStarted(kind="unknown_outcome"),
            WaitEnded(reason="settled", by="ben"),
            MetadataChanged(by="ana"),
            resumed(SegmentEnd.WAIT),
            WaitStarted(kind="retry"),
        )
    )
    assert bars(drawn) == [
        ("step 1", "open", []),
        ("approval", 3, None),
        ("paused", 4, "ana"),
        ("approval", 7, "ben"),
        ("crashed", 10, "vm:2"),
        ("unknown_outcome", 12, None),
        ("paused", 14, "ana"),
        ("for a worker", 15, "ben"),
        ("unknown_outcome", 17, "ben"),
        ("for a worker", 19, "vm:2"),
        ("retry", None, None),
    ]
    began = {(rest.kind, rest.began // SECOND) for rest in drawn.rests()}
    assert began >= {("approval", 4), ("crashed", 8), ("for a worker", 18)}

    cut = at_each_second(MetadataChanged(by="ana"), resumed(SegmentEnd.PAUSE))
    assert bars(agent_waterfall(cut)) == [("paused", 2, "vm:2")]


def test_the_end_of_a_run_ends_what_it_cut_off() -> None:
    drawn = agent_waterfall(at_each_second(StepStarted(number=1), WaitStarted(kind="retry"), FINISHED))
    assert bars(drawn) == [("step 1", "interrupted", []), ("retry", 3, None)]
    assert agent_waterfall(at_each_second(FINISHED)).rows == []
    assert agent_waterfall([]).rows == []


def node_begun(item: int | None = None, attempt: int = 1) -> NodeAttemptStarted:
    return NodeAttemptStarted(
        node="n", visit=1, item=item, attempt=attempt, effect_id="e", effect=ToolEffect.READ, input_digest=""
    )


def opened(node: str, visit: int = 1) -> NodeOpened:
    return NodeOpened(node=node, visit=visit, number=1)


def error_of(node: str) -> NodeError:
    timeout = FailureClass.TIMEOUT
    return NodeError(node_id=node, kind="f", visit=1, failure=timeout, message="late", tier="node", attempt=1, at=1)


def test_a_workflow_has_a_row_a_visit_and_a_lane_an_item() -> None:
    drawn = flow_waterfall(
        at_each_second(
            NodeCompleted(node="before", visit=1),
            opened("n"),
            node_begun(0),
            node_begun(1),
            NodeAttemptFailed(
                node="n", visit=1, item=0, attempt=1, failure=FailureClass.TIMEOUT, error=ERROR, duration_seconds=1
            ),
            node_begun(0, 2),
            NodeAttemptInterrupted(
                node="n", visit=1, item=0, attempt=2, reason=CutReason.CRASH, then=NodeThen.RERUN, duration_seconds=0
            ),
            NodeAttemptCompleted(node="n", visit=1, item=1, attempt=1, duration_seconds=1),
            NodeAttemptCompleted(node="n", visit=1, item=2, attempt=0, is_kept=True, duration_seconds=0),
            NodeAttemptCompleted(node="n", visit=1, item=5, attempt=1, duration_seconds=1),
            NodeFailureRecorded(node="n", visit=1, item=0, error=error_of("n"), rule="r"),
            NodeCompleted(node="n", visit=1, item_errors=1),
            opened("bad"),
            NodeFailed(node="bad", visit=1, error=error_of("bad"), rule="r"),
            opened("soft", 2),
            NodeFailureRecorded(node="soft", visit=2, error=error_of("soft"), rule="r"),
            opened("left"),
            NodeSkipped(node="left", visit=1, by="ana"),
            opened("cut"),
            NodeCancelled(node="cut", visit=1, reason="stop"),
            opened("last"),
            FINISHED,
        )
    )
    assert next(row.said for row in drawn.rows if not isinstance(row, Rest)) == "1 item failed"
    assert bars(drawn) == [
        (
            "n",
            "completed",
            [
                ("item 1", [("failed", "timeout", 5), ("interrupted", "crash", 7)]),
                ("item 2", [("completed", "", 8)]),
                ("item 3", [("kept", "", 9)]),
            ],
        ),
        ("bad", "failed", []),
        ("soft (visit 2)", "failed", []),
        ("left", "refused", []),
        ("cut", "interrupted", []),
        ("last", "interrupted", []),
    ]


def test_the_recorded_failure_of_an_item_ends_no_visit_and_that_of_a_node_does() -> None:
    recorded = [NodeFailureRecorded(node="n", visit=1, item=item, error=error_of("n"), rule="r") for item in (0, None)]
    assert [ends_visit(event) for event in recorded] == [False, True]


def test_a_workflow_rests_as_an_agent_does() -> None:
    suspended = NodeAttemptSuspended(
        node="n", visit=1, attempt=1, stream="agent:s", reason="waiting", duration_seconds=1
    )
    back = FlowResumed(
        segment=2, worker="vm:2", library="1", ended_by=SegmentEnd.TAKE_OVER, was_productive=True, by="user"
    )
    drawn = flow_waterfall(
        at_each_second(
            opened("n"),
            node_begun(),
            suspended,
            WaitStarted(kind="human"),
            WaitEnded(reason="answered", by="ana"),
            ExecutionPaused(by="ben", step_seconds=0.0),
            back,
            back,
        )
    )
    assert bars(drawn) == [
        ("n", "open", [("n", [("suspended", "waiting", 3)])]),
        ("human", 5, "ana"),
        ("paused", 7, "ben"),
        ("taken over", 8, "vm:2"),
    ]


async def test_a_stored_workflow_is_drawn() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(publisher(), "tea", session="f")
        drawn = flow_waterfall(await trail.flow("f").events())
    assert [row.name if isinstance(row, WaterfallRow) else row.kind for row in drawn.rows] == [
        *("write", "count", "review"),
        "human",
    ]
    assert drawn.rows[-1].ended is None


def test_a_rest_takes_little_of_the_axis_however_long_it_is() -> None:
    rows: list[WaterfallRow | Rest] = [
        WaterfallRow(name="a", began=0, version=1, ended=10 * SECOND),
        Rest(kind="approval", began=10 * SECOND, version=2, ended=10**6 * SECOND),
        Rest(kind="paused", began=9 * 10**5 * SECOND, version=2, ended=10**6 * SECOND),
        Rest(kind="none", began=10**6 * SECOND, version=2, ended=10**6 * SECOND),
        WaterfallRow(name="b", began=10**6 * SECOND, version=3, ended=(10**6 + 10) * SECOND),
    ]
    axis = TimeAxis(Waterfall(rows=rows, began=0, last=(10**6 + 10) * SECOND), now=0)
    start, width = axis.span(10 * SECOND, 10**6 * SECOND)
    assert (round(start, 2), round(width, 3)) == (0.48, 0.038)
    assert axis.span(0, 10 * SECOND)[1] == pytest.approx(axis.span(10**6 * SECOND, None)[1])
    assert (axis.place(-5), axis.place(10**9 * SECOND)) == (0.0, 1.0)
    places = [axis.place(at * SECOND) for at in range(0, 10**6, 997)]
    assert places == sorted(places)


def test_what_is_open_goes_on_to_now_and_an_instant_has_a_place() -> None:
    row = WaterfallRow(name="a", began=10, version=1)
    assert TimeAxis(Waterfall(rows=[row], began=10, last=20), now=110).span(60, None) == (0.5, 0.5)
    row.close(10, "completed")
    assert TimeAxis(Waterfall(rows=[row], began=10, last=10), now=110).span(10, 10) == (0.0, 0.0)


def vote(criterion: str, decision: ContinuationDecision = ContinuationDecision.ALLOW, **context: Any) -> Any:
    return ContinuationEvaluation(criterion_class=criterion, decision=decision, context=context)


def decided(step: int, **more: Any) -> ContinuationEvaluated:
    return ContinuationEvaluated(step=step, decision=ContinuationDecision.FORBID, resolved_by="StepsLimit", **more)


def test_a_decision_has_the_votes_that_it_resolved_and_how_near_each_limit_was() -> None:
    votes = (
        vote("ToolCallPresenceCheck", ContinuationDecision.REQUEST),
        vote("StepsLimit", ContinuationDecision.FORBID, currentSteps=20, maxSteps=20),
        vote("TokenUsageLimit", totalTokens=512, maxTotalTokens=2048, shadow="forbid"),
        vote("CostLimit", costUsd="0.25", maxCostUsd="1"),
        vote("ToolCallLimit", toolCalls=0, maxToolCalls=0),
        vote("InputTokenLimit", inputTokens="many", maxInputTokens=1),
        vote("OutputTokenLimit", outputTokens="NaN", maxOutputTokens=1),
        vote("StepsLimit"),
    )
    records = at_each_second(
        EvaluationsRecorded(votes=(vote("Old"),)),
        decided(1),
        EvaluationsRecorded(votes=votes[:1]),
        StepStarted(number=2),
        EvaluationsRecorded(votes=votes[1:], hook="Hook"),
        EvaluationsRecorded(votes=(vote("Late"),), phase=DecisionPhase.END),
        decided(2, should_continue=False, stop_reason=StopReason.STEPS_LIMIT),
    )
    panel = decision_panel(records, 7)
    assert panel is not None
    assert [each.criterion_class for each in panel.votes] == [each.criterion_class for each in votes]
    assert [*map(share_of_limit, panel.votes)] == [None, 1.0, 0.25, 0.25, 1.0, None, None, None]
    assert panel.deciding is panel.votes[1]
    assert panel.votes[2].shadow is ContinuationDecision.FORBID
    taken = panel.taken.event
    assert (taken.step, taken.should_continue, taken.stop_reason.value) == (2, False, "steps_limit")
    first = decision_panel(records, 2)
    assert first is not None
    assert [each.criterion_class for each in first.votes] == ["Old"]
    assert decision_panel(records, 3) is None


def test_the_votes_of_hooks_wait_for_the_decision_of_their_own_moment() -> None:
    forbid = ContinuationDecision.FORBID
    records = at_each_second(
        EvaluationsRecorded(votes=(vote("Guard", forbid),), hook="Guard"),
        ExecutionPaused(by="ana", step_seconds=0.0),
        resumed(SegmentEnd.PAUSE),
        EvaluationsRecorded(votes=(vote("StepsLimit"),), phase=DecisionPhase.RESUME),
        decided(1, phase=DecisionPhase.RESUME),
        EvaluationsRecorded(votes=(vote("StepsLimit"),)),
        decided(1, should_continue=False),
        EvaluationsRecorded(votes=(vote("Late"),), hook="Late", phase=DecisionPhase.STOP),
        decided(1, should_continue=False, phase=DecisionPhase.STOP),
    )
    shown = {version: decision_panel(records, version) for version in (5, 7, 9)}
    panels = {version: panel for version, panel in shown.items() if panel is not None}
    assert {version: [each.criterion_class for each in panel.votes] for version, panel in panels.items()} == {
        5: ["StepsLimit"],
        7: ["StepsLimit", "Guard"],
        9: ["StepsLimit", "Guard", "Late"],
    }
    decided_by = [panel.deciding and panel.deciding.criterion_class for panel in panels.values()]
    assert decided_by == [None, "Guard", "Guard"]
