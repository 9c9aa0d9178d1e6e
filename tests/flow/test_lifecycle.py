"""What listeners are told of runs of workflows: each thing once, in order, the same live and from the log."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from steptrail import Steptrail, ToolEffect
from steptrail.domain.flow.events import NodeAttemptStarted, NodeOpened
from steptrail.domain.flow.machine import FLOW
from steptrail.errors import OwnershipLost
from steptrail.lifecycle import (
    AgentExecutionStarted,
    FlowAttemptEnded,
    FlowAttemptStarted,
    FlowExecutionCompleted,
    FlowExecutionEnded,
    FlowExecutionFailed,
    FlowExecutionPaused,
    FlowExecutionStarted,
    FlowExecutionStopped,
    FlowExecutionWaiting,
    FlowNodeCancelled,
    FlowNodeEvent,
    FlowNodeFailed,
    FlowNodeFailureRecorded,
    FlowNodeSkipped,
    FlowQuestionAnswered,
    FlowQuestionAsked,
    FlowRunEvent,
    LifecycleReader,
    RunEvent,
)
from steptrail.projections.lifecycle.flow_fold import FlowLifecycleFold
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import OnUnknown
from steptrail.workflow import RunOptions, Workflow, flow_lifecycle_events
from tests.flow.kit import LEAVES, World, run_to_rest
from tests.flow.test_children import with_an_agent
from tests.flow.test_crashes import diamond, failing
from tests.runner.kit import Crash, HandClock, again_on, crash_at, dies, trail_of


def names(told: Sequence[object]) -> list[str]:
    return [type(each).__name__ for each in told]


async def from_the_log(trail: Steptrail) -> tuple[RunEvent, ...]:
    return flow_lifecycle_events("f", await trail.flow("f").history())


async def checked(trail: Steptrail) -> tuple[RunEvent, ...]:
    """Return what the log tells, after a look at what holds of every log."""
    records = await trail.flow("f").history()
    whole = flow_lifecycle_events("f", records)
    places = [(each.version, each.index) for each in whole]
    assert places == sorted(set(places))
    for each in whole:
        assert str(each).startswith("Workflow [f] ")
        assert each.to_dict()["flowId"] == "f"
    # A fold that begins anywhere tells what the whole tells.
    for cut in range(len(records) + 1):
        fold = FlowLifecycleFold(FLOW.evolve_all(FLOW.initial("f"), records[:cut]))
        rest = [event for record in records[cut:] for event in fold.apply(record)]
        assert rest == [each for each in whole if each.version > cut]
    # A subscription that begins anywhere does too.
    reader, heard = LifecycleReader(trail.store), list[RunEvent]()
    async for entry in trail.subscribe(session="flow:f", follow=False):
        heard += await reader.events(entry)
    assert heard == list(whole)
    # What begins ends once, and nothing else ends.
    ended = [each for each in whole if isinstance(each, FlowExecutionEnded)]
    assert len(ended) == sum(isinstance(each, FlowExecutionStarted) for each in whole)
    assert ended[-1].visits == sum(isinstance(record.event, NodeOpened) for record in records)
    tries = Counter[object]()
    for each in whole:
        if isinstance(each, FlowAttemptStarted | FlowAttemptEnded):
            key = (each.node, each.visit, each.item, each.attempt)
            tries[key] += 1 if isinstance(each, FlowAttemptStarted) else -1
            assert tries[key] in (0, 1)
    assert not any(tries.values())
    begun = sum(isinstance(record.event, NodeAttemptStarted) for record in records)
    assert sum(isinstance(each, FlowAttemptStarted) for each in whole) == begun
    return whole


@pytest.mark.acceptance("7.4-3")
async def test_a_run_is_told_live_as_its_log_tells_it() -> None:
    world, clock, told = failing(), HandClock(), list[RunEvent]()
    async with trail_of(clock) as trail:
        with trail.wiretap(told.append):
            await run_to_rest(trail, clock, diamond(world))
        whole = await checked(trail)
    assert told == list(whole)
    kinds = Counter(names(whole))
    assert kinds["FlowNodeStarted"] == kinds["FlowNodeCompleted"] + kinds["FlowNodeFailureRecorded"] == 5
    assert kinds["FlowRetryScheduled"] == 1
    (failed,) = [each for each in whole if isinstance(each, FlowNodeFailureRecorded)]
    assert (failed.node, failed.visit, failed.attempt, failed.error) == ("right", 1, 1, "no")
    end = whole[-1]
    assert isinstance(end, FlowExecutionCompleted)
    assert (end.errors, end.visits, end.session_status) == (1, 5, "completed")


@pytest.mark.parametrize("number", range(1, 9))
async def test_a_crash_leaves_no_beginning_without_an_end(number: int) -> None:
    world, clock = failing(), HandClock()
    async with trail_of(clock) as trail:
        with dies(number, 7):
            await run_to_rest(again_on(trail, clock, crash_at("after-append", number)), clock, diamond(world))
        await trail.flow("f").resume(diamond(world))
        await run_to_rest(trail, clock, diamond(world))
        await checked(trail)


async def test_questions_are_told_when_they_are_asked_and_when_they_are_answered() -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .human("ask", type="choice", prompt="Which of {{ input }}?", options=("a", "b"), expires=60.0)
        .tool("act", world.tool(), args={"name": "act"}, approval=True)
        .noop("held")
        .noop("skipped")
        .chain("ask", "act", "held", "skipped")
        .build()
    )
    options = RunOptions(longest_wait=0.0, pause_before=("held", "skipped"))
    async with trail_of(clock) as trail:
        await trail.run(flow, "two", session="f", options=options)
        handle = trail.flow("f")
        await handle.answer("ask", choice="a", by="ana")
        (approval,) = [each for each in (await handle.resume(flow)).state.tasks if each.approval is not None]
        assert approval.approval is not None
        await handle.approve(approval.approval.id, by="bob")
        await handle.resume(flow)
        await handle.step("held", "continue", by="cyn")
        await handle.resume(flow)
        await handle.step("skipped", "skip", by="dan", reason="no need")
        await handle.resume(flow)
        whole = await checked(trail)
    asked = [each for each in whole if isinstance(each, FlowQuestionAsked)]
    answered = [each for each in whole if isinstance(each, FlowQuestionAnswered)]
    assert [(each.kind, each.node, each.type, each.prompt, each.options, each.tool) for each in asked] == [
        ("human", "ask", "choice", "Which of two?", ("a", "b"), None),
        ("approval", "act", None, None, (), "act"),
        ("step", "held", "before", None, (), None),
        ("step", "skipped", "before", None, (), None),
    ]
    assert asked[0].expires_at is not None
    assert [(each.question_id, each.node) for each in asked] == [(each.question_id, each.node) for each in answered]
    assert [(each.answer, each.by) for each in answered] == [
        ("answered", "ana"),
        ("approved", "bob"),
        ("continue", "cyn"),
        ("skip", "dan"),
    ]
    assert [each.kind for each in whole if isinstance(each, FlowExecutionWaiting)] == [
        "human",
        "approval",
        "step",
        "step",
    ]
    (skipped,) = [each for each in whole if isinstance(each, FlowNodeSkipped)]
    assert (skipped.node, skipped.by, skipped.reason) == ("skipped", "dan", "no need")


async def test_an_unknown_outcome_is_a_question_and_its_try_has_ended_once() -> None:
    world, clock = World(), HandClock()
    act = world.tool(ToolEffect.UNSAFE, OnUnknown.PARK)
    flow = Workflow("t").tool("act", act, args={"name": "x"}).noop("end").chain("act", "end").build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).run(flow, session="f", options=LEAVES)
        parked = await trail.flow("f").resume(flow)
        (task,) = parked.state.tasks
        await trail.flow("f").settle(task.effect_id, "completed", by="ana", output="done")
        await trail.flow("f").resume(flow)
        whole = await checked(trail)
    (end,) = [each for each in whole if isinstance(each, FlowAttemptEnded)]
    (asked,) = [each for each in whole if isinstance(each, FlowQuestionAsked)]
    (answered,) = [each for each in whole if isinstance(each, FlowQuestionAnswered)]
    assert (end.outcome, end.attempt) == ("interrupted", 1)
    assert asked.question_id == answered.question_id == task.effect_id
    assert (asked.kind, answered.answer, answered.by) == ("unknown_outcome", "settled", "ana")


async def test_who_has_a_node_run_again_whose_outcome_is_unknown_is_named() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("act", world.tool(ToolEffect.UNSAFE, OnUnknown.PARK), args={"name": "x"}).build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).run(flow, session="f", options=LEAVES)
        await trail.flow("f").resume(flow)
        await trail.flow("f").settle("f:1:act:1", "rerun", by="ana")
        await trail.flow("f").resume(flow)
        whole = await checked(trail)
    (answered,) = [each for each in whole if isinstance(each, FlowQuestionAnswered)]
    assert (answered.answer, answered.by) == ("settled", "ana")
    assert [each.outcome for each in whole if isinstance(each, FlowAttemptEnded)] == ["interrupted", "completed"]


async def test_a_failed_run_says_where_and_its_retry_is_an_execution_of_its_own() -> None:
    world, clock = World(), HandClock()
    world.fails = {"b": [ValueError("no b")]}
    flow = Workflow("t").function("a", world.function("a")).function("b", world.function("b")).chain("a", "b").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").retry(flow, by="ana")
        whole = await checked(trail)
    (failed,) = [each for each in whole if isinstance(each, FlowExecutionFailed)]
    assert (failed.node, failed.failure, failed.stop_reason, failed.execution_id) == ("b", "error", "error", "f:1")
    assert "no b" in failed.error
    assert [
        (each.is_retry, each.flow, each.execution_id) for each in whole if isinstance(each, FlowExecutionStarted)
    ] == [
        (False, "t", "f:1"),
        (True, "t", "f:2"),
    ]
    assert sum(isinstance(each, FlowNodeFailed) for each in whole) == 1
    assert isinstance(whole[-1], FlowExecutionCompleted)


async def test_a_stop_is_told_and_what_it_gave_up() -> None:
    clock = HandClock()
    flow = Workflow("t").human("ask", prompt="?").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").stop(by="ana")
        whole = await checked(trail)
    assert isinstance(whole[-1], FlowExecutionStopped)
    assert [each.reason for each in whole if isinstance(each, FlowNodeCancelled)] == ["stop"]


async def test_listeners_of_agents_are_told_nothing_of_workflows_and_those_of_workflows_may_choose() -> None:
    agents, runs, nodes = list[RunEvent](), list[FlowRunEvent](), list[FlowNodeEvent]()
    flow = Workflow("t").llm("say", ScriptedModel(["late"]), prompt="go").build()
    async with trail_of() as trail:
        trail.on(AgentExecutionStarted, agents.append)
        trail.on(FlowExecutionEnded, runs.append)
        trail.on(FlowNodeEvent, nodes.append)
        await trail.run(flow, session="f")
    assert (agents, names(runs)) == ([], ["FlowExecutionCompleted"])
    assert names(nodes) == ["FlowNodeStarted", "FlowAttemptStarted", "FlowAttemptEnded", "FlowNodeCompleted"]
    end = nodes[2]
    assert isinstance(end, FlowAttemptEnded)
    assert end.usage is not None
    assert end.usage.total > 0


async def test_a_worker_that_was_taken_over_tells_nothing_twice() -> None:
    world, clock, told = World(), HandClock(), list[RunEvent]()
    world.holds = "a"
    flow = Workflow("t").tool("a", world.tool(), args={"name": "a"}).build()
    async with trail_of(clock) as trail, asyncio.timeout(60):
        trail.wiretap(told.append)
        first = asyncio.create_task(trail.run(flow, session="f"))
        await world.entered.wait()
        world.holds = None
        other = again_on(trail, clock)
        other.wiretap(told.append)
        await other.flow("f").resume(flow, take_over=True)
        world.gate.set()
        with pytest.raises(OwnershipLost):
            await first
        whole = await checked(trail)
    assert sorted(told, key=lambda each: (each.version, each.index)) == list(whole)


async def test_a_pause_is_told_with_who_wanted_it_and_why() -> None:
    flow = Workflow("t").human("ask", prompt="?").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=LEAVES)
        await trail.flow("f").pause(by="ana", reason="lunch")
        assert isinstance((await from_the_log(trail))[-1], FlowExecutionPaused)
        await trail.flow("f").stop(by="ana")
        whole = await checked(trail)
    (paused,) = [each for each in whole if isinstance(each, FlowExecutionPaused)]
    assert (paused.by, paused.reason, paused.execution_id) == ("ana", "lunch", "f:1")


async def test_a_question_that_nobody_answered_is_told_as_expired() -> None:
    clock = HandClock()
    flow = Workflow("t").human("ask", prompt="?", expires=60.0, on_timeout="skip").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=LEAVES)
        clock.advance(61.0)
        await trail.flow("f").resume(flow)
        answers = [each for each in await checked(trail) if isinstance(each, FlowQuestionAnswered)]
    assert [(each.node, each.kind, each.answer, each.by) for each in answers] == [("ask", "human", "expired", None)]


async def test_a_try_whose_child_waits_is_told_as_suspended_with_the_child() -> None:
    world = World()
    flow = with_an_agent(world, call("act", name="look"), say("dogs"), approval=True)
    async with trail_of() as trail:
        resting = await trail.run(flow, session="f", options=LEAVES)
        child = next(task.stream for task in resting.state.tasks if task.stream is not None)
        await trail.flow("f").stop(by="ana")
        ends = [each for each in await checked(trail) if isinstance(each, FlowAttemptEnded)]
    assert (ends[-1].outcome, ends[-1].stream) == ("suspended", child)
