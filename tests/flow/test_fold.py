"""The fold takes any event at any time, and a worker that lost a run still says what its try came to."""

import asyncio
import gc
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, ClassVar, NoReturn

import pytest
from msgspec import structs

from steptrail import AgentBuilder, ToolEffect
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.flow import events as flow_events
from steptrail.domain.flow.envelope import NodeError
from steptrail.domain.flow.events import (
    CutReason,
    FlowEvent,
    NodeAttemptInterrupted,
    NodeAttemptSettledLate,
    NodeAttemptStarted,
    NodeOpened,
    NodeThen,
)
from steptrail.domain.flow.evolve import HANDLERS, evolve_all, initial
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.options import RunOptions
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.errors import CommandRejected, OwnershipLost
from steptrail.testing import ScriptedModel
from steptrail.workflow import FailureClass, Workflow
from tests.flow.kit import World, run_to_rest
from tests.runner.kit import HandClock, again_on, trail_of

ERROR = ErrorInfo(type=ErrorType.TOOL, error_class="x:Y", message="no")
FAILED = NodeError(
    node_id="a", kind="tool", message="no", attempt=1, visit=9, failure=FailureClass.TOOL, tier="node", at=0
)
E = flow_events

ANY: list[FlowEvent] = [
    E.SessionStarted(name="t"),
    E.MetadataChanged(changes={"x": 1}, removed=("y",), by="ana"),
    E.FlowResumed(segment=2, worker="w", library="0", ended_by=SegmentEnd.CRASH, was_productive=True, by="ana"),
    E.FlowRetried(execution_id="f:2", ordinal=2, segment=2, worker="w", library="0", visits=(), by="ana"),
    E.FlowForked(
        name="t",
        source="x",
        version=5,
        digest="",
        by="ana",
        status=ExecutionStatus.PAUSED,
        executions=1,
        steps=0,
        definition="",
        fingerprint="",
        options=RunOptions(),
    ),
    E.PauseRequested(by="ana"),
    E.PauseLifted(by="ana"),
    E.StopRequested(by="ana"),
    E.SessionScored(name="helpful", value=1, by="ana", execution=1),
    E.ExecutionPaused(by="ana", step_seconds=0.0),
    E.ExecutionFinished(status=ExecutionStatus.COMPLETED, stop_reason=StopReason.COMPLETED, resolved_by="x"),
    E.LimitReached(limit="timeout", scope="run", at_most="1", actual="2"),
    E.WaitStarted(kind="human"),
    E.WaitEnded(reason="due"),
    E.NodeEvaluated(node="a", visit=9),
    E.NodeCompleted(node="a", visit=9),
    E.NodeFailureRecorded(node="a", visit=9, error=FAILED, rule="x"),
    E.NodeFailed(node="a", visit=9, error=FAILED, rule="x"),
    E.NodeSkipped(node="a", visit=9, by="ana"),
    E.NodeCancelled(node="a", visit=9, reason="stop"),
    E.NodeAttemptStarted(
        node="a", visit=9, attempt=1, effect_id="f:1:a:9", effect=ToolEffect.READ, input_digest="0" * 64
    ),
    E.NodeAttemptCompleted(node="a", visit=9, attempt=1, duration_seconds=0.0),
    E.NodeAttemptFailed(node="a", visit=9, attempt=1, failure=FailureClass.TOOL, error=ERROR, duration_seconds=0.0),
    E.NodeAttemptInterrupted(
        node="a", visit=9, attempt=1, reason=CutReason.CRASH, then=NodeThen.RERUN, duration_seconds=0.0
    ),
    E.NodeAttemptSuspended(node="a", visit=9, attempt=1, stream="agent:x", reason="rests", duration_seconds=0.0),
    E.NodeRetryScheduled(node="a", visit=9, attempt=2, draw=0.0, delay_seconds=1.0, due_at=5),
    E.NodeAttemptSettledLate(effect_id="f:1:a:9", attempt=1, segment=1),
    E.ApprovalRequested(
        approval_id="f:1:a:9",
        node="a",
        visit=9,
        tool="x",
        arguments_digest="0" * 64,
        expires_at=5,
        asked_by="x",
    ),
    E.ApprovalGranted(approval_id="f:1:a:9", by="ana"),
    E.ApprovalDenied(approval_id="f:1:a:9", by="ana"),
    E.ApprovalExpired(approval_id="f:1:a:9"),
    E.HumanRequested(
        request_id="f:1:a:9", node="a", visit=9, type="approval", prompt="?", digest="0" * 64, on_timeout="fail"
    ),
    E.HumanAnswered(request_id="f:1:a:9", by="ana"),
    E.HumanExpired(request_id="f:1:a:9"),
    E.StepHeld(node="a", visit=9, point="before"),
    E.StepAnswered(node="a", visit=9, point="before", action="continue", by="ana"),
]


def test_every_event_but_those_that_need_a_graph_is_tried() -> None:
    assert {type(event) for event in ANY} | {E.FlowStarted, E.NodeOpened} == set(HANDLERS)


@pytest.mark.parametrize("event", ANY, ids=lambda event: type(event).__name__)
async def test_any_event_is_taken_before_a_run_and_after_it_and_about_nodes_that_are_not_open(event: FlowEvent) -> None:
    before = initial("f")
    assert evolve_all(before, [Recorded(1, 5, event)]).version == 1
    assert before == initial("f")
    async with trail_of() as trail:
        done = (await trail.run(Workflow("t").noop("a").build(), session="f")).state
    after = evolve_all(done, [Recorded(done.version + 1, done.as_of + 5, event)])
    assert after.version == done.version + 1
    if not isinstance(event, E.FlowRetried | E.ExecutionFinished | E.MetadataChanged | E.NodeFailureRecorded):
        assert after.envelope == done.envelope


def test_an_interruption_of_what_is_not_open_is_restated_as_it_is() -> None:
    cut = NodeAttemptInterrupted(
        node="a", visit=9, attempt=1, reason=CutReason.CRASH, then=NodeThen.RERUN, duration_seconds=0.0
    )
    assert FLOW.restated(initial("f"), cut) is cut


@pytest.mark.parametrize("fails", [False, True])
async def test_a_worker_that_lost_its_run_reports_what_its_try_came_to(fails: bool) -> None:
    world, clock = World(), HandClock()
    world.holds = "a"
    if fails:
        world.breaks["a"] = RuntimeError("too late")
    flow = Workflow("t").tool("a", world.tool(), args={"name": "a"}, retry=1, timeout=None).build()
    async with trail_of(clock) as trail:
        first = asyncio.create_task(again_on(trail, clock).run(flow, session="f"))
        await world.entered.wait()
        other = World()
        again = Workflow("t").tool("a", other.tool(), args={"name": "a"}, retry=1, timeout=None).build()
        result = await trail.flow("f").resume(again, take_over=True)
        world.gate.set()
        with pytest.raises(OwnershipLost):
            await first
        late = [record.event for record in await trail.flow("f").events()][-1]
    assert result.status is ExecutionStatus.COMPLETED
    assert isinstance(late, NodeAttemptSettledLate)
    assert (late.effect_id, late.segment, late.error is not None) == ("f:1:a:1", 1, fails)


async def test_answers_that_come_too_late_or_to_nobody_are_refused() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(), args={"name": "a"}, approval=True).build()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow, options=RunOptions(longest_wait=0.0))
        approval = result.state.tasks[0].approval
        assert approval is not None
        handle = trail.flow("f")
        with pytest.raises(CommandRejected):
            await handle.approve("f:1:b:1", by="ana")
        with pytest.raises(CommandRejected):
            await handle.step("a", "continue", by="ana")
        with pytest.raises(CommandRejected):
            await handle.answer("a", approved=True, by="ana")
        clock.advance(400 * 86_400)
        for refused in (handle.approve(approval.id, by="ana"), handle.deny(approval.id, by="ana")):
            with pytest.raises(CommandRejected, match="expired"):
                await refused


def test_a_failure_as_a_text_is_what_a_person_reads() -> None:
    assert (str(FAILED), str(structs.replace(FAILED, item=3))) == ("a: no", "a[3]: no")


class _Compared(tuple[int, int]):
    """A token that counts how often it is compared with another one."""

    times: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        _Compared.times += 1
        return super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()


def _work_of(records: Sequence[Recorded[FlowEvent]]) -> int:
    """Return how many instructions a fold takes, with each comparison of a token that a visit has taken as one."""
    opened = [
        structs.replace(each, event=structs.replace(each.event, inputs=tuple(map(_Compared, each.event.inputs))))
        if isinstance(each.event, NodeOpened)
        else each
        for each in records
    ]
    done = 0

    def note(frame: FrameType, event: str, _: object) -> Any:
        nonlocal done
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        done += event == "opcode"
        return note

    _Compared.times = 0
    gc.disable()  # what other tests left behind calls functions of its own when it is collected
    sys.settrace(note)
    try:
        state = FLOW.evolve_all(initial("f"), opened)
    finally:
        sys.settrace(None)
        gc.enable()
    assert state.status is ExecutionStatus.COMPLETED
    return done + _Compared.times


@pytest.mark.parametrize("shape", ["branches", "chains", "join all", "join each"])
async def test_a_branch_costs_the_same_however_many_others_there_are(shape: str) -> None:
    work = list[int]()
    for count in (30, 60, 120):
        flow = Workflow("t").function("first", lambda _: 1)
        for number in range(count):
            flow = flow.function(f"n{number}", lambda _: 1).edge("first", f"n{number}")
            if shape == "chains":
                flow = flow.function(f"m{number}", lambda _: 1).edge(f"n{number}", f"m{number}")
        if shape.startswith("join"):
            flow = flow.function("last", lambda _: 1, join="all" if shape == "join all" else "each")
            flow = flow.edge([f"n{number}" for number in range(count)], "last")
        async with trail_of() as trail:
            await trail.run(flow.build(), session="f", options=RunOptions(max_visits=count, concurrency=count))
            work.append(_work_of(await trail.flow("f").events()))
    assert work[2] - work[1] < 2.2 * (work[1] - work[0])


async def test_a_run_is_active_until_the_last_of_its_tries_has_ended() -> None:
    """The first to begin is the last to end, and each event comes a second after the one before."""
    gone = asyncio.Event()

    async def last(_: object) -> None:
        await gone.wait()

    async def first(_: object) -> None:
        gone.set()

    async with trail_of() as trail:
        await trail.run(Workflow("t").function("a", last).function("b", first).build(), session="f")
        events = [record.event for record in await trail.flow("f").events()]
    begins = min(at for at, each in enumerate(events) if isinstance(each, E.NodeAttemptStarted))
    assert [each.node for each in events if isinstance(each, E.NodeAttemptCompleted)] == ["b", "a"]
    ends = max(at for at, each in enumerate(events) if isinstance(each, E.NodeAttemptCompleted))
    records = [Recorded(at + 1, at * 10**6, each) for at, each in enumerate(events)]
    assert FLOW.evolve_all(initial("f"), records).active_seconds == ends - begins


async def test_an_item_of_a_map_costs_the_same_however_many_streams_were_begun() -> None:
    """Not one of them is looked at when the next one begins."""

    class Unread(Log[str]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("all streams were looked at")

    agent = AgentBuilder("a").with_model(ScriptedModel(["yes"] * 2)).build()
    flow = Workflow("t").map("each", over="input", agent=agent, prompt="{{ item }}").build()
    async with trail_of() as trail:
        await trail.run(flow, [1, 2], session="f")
        records = await trail.flow("f").events()
    second = [at for at, each in enumerate(records) if isinstance(each.event, NodeAttemptStarted)][1]
    state = FLOW.evolve_all(initial("f"), records[:second])
    assert state.run is not None
    visit = state.run.open["each"]
    (first,) = visit.streams
    visit.streams = Unread([first])
    state = FLOW.evolve_all(state, records[second : second + 1])
    assert state.run is not None
    assert len(state.run.open["each"].streams) == 2


async def test_a_resume_without_a_key_reads_the_input_no_more_however_large_it_is() -> None:
    flow = Workflow("t").human("ask", prompt="?").build()
    async with trail_of() as trail:
        state = (await trail.run(flow, "given", session="f", options=RunOptions(longest_wait=0.0))).state
    assert state.run is not None
    state.run.started = structs.replace(state.run.started, input=object())
    resumed = flow_events.FlowResumed(
        segment=2, worker="w", library="0", ended_by=SegmentEnd.WAIT, was_productive=True, by="ana"
    )
    after = FLOW.evolve_all(state, [Recorded(state.version + 1, state.as_of, resumed)])
    assert after.fold.segment == 2
    with pytest.raises(TypeError):
        FLOW.evolve_all(state, [Recorded(state.version + 1, state.as_of, structs.replace(resumed, key="k"))])
