"""A run dies at each append and each try, and goes on without doing anything twice that it had finished."""

import asyncio
import re
import time
from contextlib import suppress

import pytest

from steptrail import Steptrail, ToolEffect, tool
from steptrail.domain.flow.commands import ResumeFlow
from steptrail.domain.flow.decide import decide
from steptrail.domain.flow.events import FlowResumed, NodeAttemptStarted, NodeCompleted
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import CommandRejected
from steptrail.tools import OnUnknown
from steptrail.workflow import BuiltWorkflow, FailureClass, FlowResult, RetryPolicy, RunOptions, Workflow
from tests.flow.kit import LEAVES, World, events_of, run_to_rest
from tests.runner.kit import Crash, HandClock, again_on, crash_at, dies, trail_of


def diamond(world: World) -> BuiltWorkflow:
    """A flow with branches side by side, a failure that is tried again, one that is recorded, and a map."""
    act = world.tool()
    return (
        Workflow("d")
        .function("start", lambda _: ["x", "y"], output="names")
        .tool("left", act, args={"name": "left"}, retry=RetryPolicy(max_attempts=3, backoff=1.0))
        .tool("right", act, args={"name": "right"}, retry=1, on_error="continue")
        .map("each", over="names", tool=act, args={"name": "{{ item }}"}, concurrency=2)
        .function("end", world.function("end"))
        .edge("start", "left", "right", "each")
        .edge(("left", "right", "each"), "end")
        .build()
    )


def failing() -> World:
    world = World()
    world.fails, world.breaks = {"left": [ConnectionError("away")]}, {"right": RuntimeError("no")}
    return world


def told_of(result: FlowResult) -> tuple[object, object]:
    """Return what a run came to. How many tries there were is left out: a crash makes one more."""
    texts = {key: re.sub(r"^.* attempts: ", "", str(value)) for key, value in result.envelope.vars.items()}
    return texts, [re.sub(r"^.* attempts: ", "", error.message) for error in result.errors]


DEATHS = 7
"""How many appends the run below makes, and how many attempts at nodes."""


@pytest.mark.acceptance("7.2-4")
@pytest.mark.parametrize("point", ["before-append", "after-append", "before-node", "after-node"])
async def test_a_crash_at_any_point_changes_nothing_that_was_finished(point: str) -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        expected = told_of(await run_to_rest(trail, clock, diamond(failing())))
    for number in range(1, DEATHS + 2):
        world, clock = failing(), HandClock()
        async with trail_of(clock) as trail:
            with dies(number, DEATHS):
                await run_to_rest(again_on(trail, clock, crash_at(point, number)), clock, diamond(world))
            before = await events_of(trail) if await trail.runs() else []
            finished = {(event.node, event.visit) for event in before if isinstance(event, NodeCompleted)}
            result = await run_to_rest(trail, clock, diamond(world))
            after = (await events_of(trail))[len(before) :]
            again = {(event.node, event.visit) for event in after if isinstance(event, NodeAttemptStarted)}
            assert result.status is ExecutionStatus.COMPLETED, (point, number)
            assert told_of(result) == expected, (point, number)
            assert not again & finished, (point, number)
            assert max(world.done.values()) <= 3, (point, number, world.done)


@pytest.mark.parametrize("effect", [ToolEffect.READ, ToolEffect.IDEMPOTENT, ToolEffect.KEYED])
async def test_an_effect_that_may_be_repeated_runs_again_under_its_id(effect: ToolEffect) -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(effect), args={"name": "a"}).build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await trail_run(again_on(trail, clock, crash_at("after-node")), flow)
        result = await run_to_rest(trail, clock, flow)
        started = [event for event in await events_of(trail) if isinstance(event, NodeAttemptStarted)]
    assert (result.status, world.done["a"]) == (ExecutionStatus.COMPLETED, 2)
    assert {event.effect_id for event in started} == {"f:1:a:1"}
    assert [event.attempt for event in started] == [1, 2]


async def trail_run(trail: Steptrail, flow: BuiltWorkflow) -> None:
    await trail.run(flow, session="f", options=LEAVES)


@pytest.mark.acceptance("7.2-5")
@pytest.mark.parametrize(
    ("verdict", "given", "status"),
    [("completed", {"output": "said so"}, "completed"), ("failed", {}, "failed"), ("rerun", {}, "completed")],
)
async def test_an_unsafe_effect_is_parked_until_a_person_says_what_happened(
    verdict: str, given: dict[str, str], status: str
) -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(ToolEffect.UNSAFE), args={"name": "a"}).build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await trail_run(again_on(trail, clock, crash_at("after-node")), flow)
        result = await run_to_rest(trail, clock, flow)
        assert result.status is ExecutionStatus.WAITING
        assert [task.phase for task in result.state.tasks] == [TaskPhase.PARKED]
        handle = trail.flow("f")
        with pytest.raises(CommandRejected, match="nobody waits for a verdict on f:1:b:1"):
            await handle.settle("f:1:b:1", "completed", by="ana")
        await handle.settle("f:1:a:1", verdict, by="ana", reason="I looked", **given)  # type: ignore[arg-type]
        said = [record.event for record in await handle.events()]
        by = [(getattr(each, "settled_by", None), getattr(each, "settled_reason", None)) for each in said]
        assert [each for each in by if each != (None, None)] == [("ana", "I looked")]
        first = "ana has settled it already, at 2027-01-15 08:00:00 UTC, and a call in doubt is settled once"
        with pytest.raises(CommandRejected, match=first):
            await handle.settle("f:1:a:1", "completed", by="ben")
        result = await run_to_rest(trail, clock, flow)
        assert result.status.value == status
        assert world.done["a"] == (2 if verdict == "rerun" else 1)
        if verdict == "completed":
            assert result.output == "said so"


async def test_a_keyed_effect_that_was_cut_off_is_asked_about_where_its_tool_is_unsafe_by_now() -> None:
    world, clock = World(), HandClock()
    before, now = (
        Workflow("t").tool("a", world.tool(effect), args={"name": "a"}).build()
        for effect in (ToolEffect.KEYED, ToolEffect.UNSAFE)
    )
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await trail_run(again_on(trail, clock, crash_at("after-node")), before)
        assert (await trail.flow("f").resume(now)).status is ExecutionStatus.WAITING
        (question,) = await trail.inbox()
        assert (question.kind, world.done["a"]) == ("unknown_outcome", 1)
        await trail.flow("f").settle(question.id, "rerun", by="ana")
        result = await trail.flow("f").resume(now)
        assert (result.status, world.done["a"]) == (ExecutionStatus.COMPLETED, 2)


async def test_an_unsafe_effect_of_a_node_that_tolerates_it_is_recorded_and_not_repeated() -> None:
    world, clock = World(), HandClock()
    unsafe = world.tool(ToolEffect.UNSAFE, OnUnknown.FAIL)
    flow = Workflow("t").tool("a", unsafe, args={"name": "a"}, on_error="continue").build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await trail_run(again_on(trail, clock, crash_at("after-node")), flow)
        result = await run_to_rest(trail, clock, flow)
    assert [error.failure for error in result.errors] == [FailureClass.UNKNOWN_OUTCOME]
    assert world.done["a"] == 1


async def test_a_run_that_keeps_killing_its_process_ends_as_a_crash_loop() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(), args={"name": "a"}).build()
    async with trail_of(clock) as trail:
        for _ in range(3):
            with pytest.raises(Crash):
                await run_to_rest(again_on(trail, clock, crash_at("before-node")), clock, flow)
        result = await run_to_rest(trail, clock, flow)
    assert (result.status, result.stop_reason and result.stop_reason.value) == (ExecutionStatus.FAILED, "guard")
    assert world.done["a"] == 0


def asking_two(world: World) -> BuiltWorkflow:
    """A flow that asks two people, and works on when the first has answered."""
    asking = Workflow("t").human("a", prompt="A?").human("b", prompt="B?")
    return asking.tool("work", world.tool(), args={"name": "work"}).chain("a", "work").build()


async def test_a_run_that_keeps_killing_its_process_beside_an_open_question_ends_as_a_crash_loop() -> None:
    world, clock = World(), HandClock()
    flow = asking_two(world)
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").answer("a", approved=True, by="ana")
        for _ in range(6):
            with suppress(Crash):
                await again_on(trail, clock, crash_at("before-node")).flow("f").resume(flow)
        state = await trail.flow("f").state()
    assert (state.status, state.stop_reason) == ("failed", "guard")


async def test_the_time_after_a_crash_beside_an_open_question_is_no_active_time() -> None:
    world, clock = World(), HandClock()
    flow = asking_two(world)
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=RunOptions(cumulative_timeout=600.0, longest_wait=0.0))
        await trail.flow("f").answer("a", approved=True, by="ana")
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).flow("f").resume(flow)
        clock.advance(3_600.0)
        result = await trail.flow("f").resume(flow)
        (resumed,) = [each for each in await events_of(trail) if isinstance(each, FlowResumed)][1:]
    assert (result.status, result.state.active_seconds, world.done["work"]) == (ExecutionStatus.WAITING, 0.0, 2)
    assert resumed.ended_by == "crash"


async def test_a_question_that_is_asked_while_a_run_goes_on_after_an_answer_is_in_its_row() -> None:
    world = World()
    asking = Workflow("t").human("a", prompt="A?").human("b", prompt="B?").human("c", prompt="C?")
    flow = asking.tool("work", world.tool(), args={"name": "work"}).edge("a", "c", "work").build()
    world.holds = "work"
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").answer("a", approved=True, by="ana")
        running = asyncio.create_task(trail.flow("f").resume(flow))
        await world.entered.wait()
        (row,) = await trail.runs()
        world.gate.set()
        await running
    assert {wait.id for wait in row.waits} == {"f:1:b:1", "f:1:c:1"}


async def test_a_run_that_goes_on_after_an_answer_in_its_own_wait_is_at_work_and_may_crash() -> None:
    world, clock = World(), HandClock()
    world.fails["late"], world.holds = [ConnectionError("away")], "next"
    again = RetryPolicy(max_attempts=2, backoff=10.0)
    flow = (
        Workflow("t")
        .human("a", prompt="A?")
        .tool("late", world.tool(), args={"name": "late"}, retry=again)
        .tool("next", world.tool(), args={"name": "next"})
        .chain("a", "next")
        .build()
    )
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, session="f"))
        while not (rows := await trail.runs()) or rows[0].status is not ExecutionStatus.WAITING:
            await asyncio.sleep(0.01)
        await trail.flow("f").answer("a", approved=True, by="ana")
        await world.entered.wait()
        (row,) = await trail.runs()
        state = await trail.flow("f").state()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert (row.standing, row.waits) == (StandingState.WORKING, ())
    (resumed,) = decide(state, ResumeFlow(worker="w"))
    assert isinstance(resumed, FlowResumed)
    assert resumed.ended_by == "crash"


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_unsafe_tool_that_is_out_of_time_may_have_taken_effect_so_it_is_parked(is_async: bool) -> None:
    done = 0

    @tool(effect=ToolEffect.UNSAFE)
    async def slow() -> None:
        """Charge, and never return."""
        nonlocal done
        done += 1
        await asyncio.sleep(60)

    @tool(effect=ToolEffect.UNSAFE)
    def slow_in_a_thread() -> None:
        """Charge, and return too late."""
        nonlocal done
        done += 1
        time.sleep(1)

    flow = Workflow("t").tool("a", slow if is_async else slow_in_a_thread, timeout=0.2).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, session="f")
        assert result.status is ExecutionStatus.WAITING
        assert [task.phase for task in result.state.tasks] == [TaskPhase.PARKED]
    assert done == 1


@pytest.mark.parametrize("kind", ["function", "edited"])
async def test_the_inbox_asks_what_became_of_an_unsafe_effect(kind: str) -> None:
    world, clock = World(), HandClock()
    act = world.tool(ToolEffect.UNSAFE)
    written = Workflow("t")
    if kind == "function":
        written.function("a", world.function("a"), effect="unsafe")
    else:
        written.tool("a", act, args={"name": "a"}, approval=True)
    flow = written.build()
    async with trail_of(clock) as trail:
        if kind == "edited":
            result = await trail.run(flow, session="f", options=LEAVES)
            approval = result.state.tasks[0].approval
            assert approval is not None
            await trail.flow("f").approve(approval.id, by="ana", arguments={"name": "b"})
        with pytest.raises(Crash):
            await trail_run(again_on(trail, clock, crash_at("after-node")), flow)
        await trail_run(trail, flow)
        (question,) = await trail.inbox()
    assert (question.kind, question.node) == ("unknown_outcome", "a")
    assert question.arguments == (None if kind == "function" else {"name": "b"})
