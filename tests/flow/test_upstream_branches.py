"""What other engines do wrong with branches, cancels and crashes, one case each: here it goes better."""

import asyncio

import pytest

from steptrail import Steptrail, ToolEffect
from steptrail.domain.flow.events import (
    FlowEvent,
    HumanRequested,
    NodeAttemptStarted,
    NodeOpened,
    NodeRetryScheduled,
)
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.testing import ScriptedModel, say
from steptrail.workflow import (
    BuiltWorkflow,
    FailureClass,
    FlowResult,
    RetryPolicy,
    Rule,
    RunOptions,
    Update,
    Workflow,
)
from tests.flow.kit import LEAVES, World, events_of, named, run_to_rest
from tests.runner.kit import Crash, HandClock, again_on, crash_at, dies, trail_of

TOLERANT = RunOptions(continue_on_error=True, longest_wait=0.0)


async def played(
    flow: BuiltWorkflow, given: object = None, *, options: RunOptions = LEAVES
) -> tuple[FlowResult, list[FlowEvent]]:
    clock = HandClock()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow, given, options=options)
        return result, await events_of(trail)


def breaks(_: object) -> bool:
    raise RuntimeError("broken")


# Branches side by side.


@pytest.mark.acceptance("7.2-8")
async def test_a_failure_inside_a_branch_harms_no_other_under_tolerance() -> None:
    world = World()
    world.breaks["ill"] = RuntimeError("no")
    flow = Workflow("t")
    for name in ("start", "ill", "well", "behind", "end"):
        flow.function(name, world.function(name))
    built = flow.edge("start", "ill", "well").edge("ill", "behind").edge(("behind", "well"), "end").build()
    result, _ = await played(built, options=TOLERANT)
    assert (result.status, len(result.errors)) == (ExecutionStatus.COMPLETED, 1)
    assert world.done == dict.fromkeys(("start", "ill", "well", "behind", "end"), 1)


@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_wide_fan_out_ends_and_is_joined_once(concurrency: int, merges: bool) -> None:
    world, flow = World(), Workflow("t").noop("start")
    names = [f"n{number}" for number in range(60)]
    for name in names:
        flow.function(name, world.function(name))
    flow = flow.merge("join") if merges else flow.noop("join")
    built = flow.function("end", world.function("end")).edge("start", *names).edge(tuple(names), "join")
    options = RunOptions(concurrency=concurrency, longest_wait=0.0)
    result, _ = await played(built.edge("join", "end").build(), options=options)
    assert result.status is ExecutionStatus.COMPLETED
    assert world.done == dict.fromkeys((*names, "end"), 1)


@pytest.mark.acceptance("7.2-9")
@pytest.mark.usefixtures("impatient")
async def test_a_run_that_fails_does_not_wait_for_a_node_that_ignores_its_cut() -> None:
    released = asyncio.Event()
    begun = asyncio.Event()

    async def deaf(_: object) -> None:
        begun.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    async def ill(_: object) -> None:
        await begun.wait()
        raise RuntimeError("no")

    flow = Workflow("t").function("deaf", deaf).function("ill", ill).noop("end").edge(("deaf", "ill"), "end").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, options=RunOptions(stop_grace=0.0))
        released.set()
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.ERROR)


async def test_nothing_begins_after_a_failure_that_ends_the_run() -> None:
    world, flow = World(), Workflow("t").noop("start")
    world.breaks["n0"] = RuntimeError("no")
    names = [f"n{number}" for number in range(6)]
    for name in names:
        flow.function(name, world.function(name))
    result, events = await played(
        flow.edge("start", *names).build(), options=RunOptions(concurrency=1, longest_wait=0.0)
    )
    assert (result.status, world.done) == (ExecutionStatus.FAILED, {"n0": 1})
    assert named(events).count("node.attempt.started") == 1


@pytest.mark.acceptance("7.2-10")
async def test_a_branch_that_was_not_taken_keeps_no_merge_waiting() -> None:
    world = World()
    flow = (
        Workflow("t")
        .noop("start")
        .rule_router("choose", [Rule(lambda _: True, to="left")], default="right")
        .function("left", world.function("left"), output="left")
        .function("right", world.function("right"), output="right")
        .function("third", world.function("third"), output="third")
        .merge("join")
        .function("end", world.function("end"))
        .edge("start", "choose", "third")
        .edge("choose", "left", "right")
        .edge(("left", "right", "third"), "join")
        .edge("join", "end")
        .build()
    )
    result, _ = await played(flow)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"left": 1, "third": 1, "end": 1})
    assert {"left", "third"} <= result.envelope.vars.keys()


async def test_a_variable_from_before_the_fan_out_is_no_conflict_and_a_merge_runs_once() -> None:
    flow = (
        Workflow("t")
        .function("start", lambda _: Update(set={"k": 0, "j": 0}))
        .function("one", lambda _: Update(set={"k": 1}))
        .function("two", lambda _: Update(set={"j": 2}))
        .merge("join", conflict="error")
        .edge("start", "one", "two")
        .edge(("one", "two"), "join")
        .build()
    )
    result, events = await played(flow)
    assert result.status is ExecutionStatus.COMPLETED
    assert (result.envelope.vars["k"], result.envelope.vars["j"]) == (1, 2)
    assert [event.visit for event in events if isinstance(event, NodeOpened) and event.node == "join"] == [1]


@pytest.mark.usefixtures("soon")
async def test_a_map_that_is_stopped_is_no_success_with_none_for_what_it_has_not_done() -> None:
    world, clock = World(), HandClock()
    world.holds = "b"
    flow = (
        Workflow("t")
        .map("each", over="input", tool=world.tool(), args={"name": "{{ item }}"}, concurrency=2, output="all")
        .function("end", world.function("end"))
        .chain("each", "end")
        .build()
    )
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, ["a", "b", "c"], session="f", options=TOLERANT))
        await world.entered.wait()
        clock.advance(10.0)
        await trail.flow("f").stop(by="ana")
        clock.advance(10.0)
        result = await running
        assert (result.status, result.errors) == (ExecutionStatus.STOPPED, ())
        assert "all" not in result.envelope.vars
        world.holds = None
        result = await trail.flow("f").retry(flow)
    assert result.envelope.vars["all"] == ["a is done", "b is done", "c is done"]
    assert (world.done["a"], world.done["end"]) == (1, 1)


# A cancel, a stop and a pause are no errors.


@pytest.mark.acceptance("7.1-11")
@pytest.mark.parametrize("how", ["cancel", "stop", "pause"])
@pytest.mark.usefixtures("soon")
async def test_what_is_cut_off_on_request_is_seen_by_no_tier(how: str) -> None:
    world, clock = World(), HandClock()
    world.holds = "a"
    flow = Workflow("t").function("a", world.function("a"), on_error="continue", retry=3, output="a").build()
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, session="f", options=TOLERANT))
        await world.entered.wait()
        if how == "cancel":
            running.cancel()
        else:
            await (trail.flow("f").stop(by="ana") if how == "stop" else trail.flow("f").pause(by="ana"))
        if how == "pause":
            world.gate.set()
        await asyncio.gather(running, return_exceptions=True)
        state, events = await trail.flow("f").state(), await events_of(trail)
    expected = {"cancel": None, "stop": ExecutionStatus.STOPPED, "pause": ExecutionStatus.PAUSED}[how]
    assert expected is None or state.status is expected
    assert (len(state.errors), "a_error" in state.envelope.vars) == (0, False)
    assert not {"node.failed", "node.failure.recorded", "node.attempt.failed"} & set(named(events))
    assert ("execution.finished" in named(events)) is (how == "stop")


async def test_a_function_that_cancels_itself_has_failed() -> None:
    def cancelled(_: object) -> None:
        raise asyncio.CancelledError

    result, _ = await played(Workflow("t").function("a", cancelled, on_error="record").build())
    assert [error.failure for error in result.errors] == [FailureClass.ERROR]


# What a crash leaves behind.


@pytest.mark.acceptance("7.2-11")
async def test_after_a_crash_the_next_try_comes_when_it_was_due() -> None:
    world, clock = World(), HandClock()
    world.fails["a"] = [ConnectionError("away"), ConnectionError("away"), None]
    flow = (
        Workflow("t")
        .tool("a", world.tool(), args={"name": "a"}, retry=RetryPolicy(backoff=100.0), timeout=None)
        .build()
    )
    async with trail_of(clock) as trail:
        assert (await trail.run(flow, session="f", options=LEAVES)).status is ExecutionStatus.WAITING
        clock.advance(60.0)
        other = again_on(trail, clock)
        assert (await other.flow("f").resume(flow)).status is ExecutionStatus.WAITING
        assert world.done["a"] == 1
        clock.advance(40.0)
        assert (await other.flow("f").resume(flow)).status is ExecutionStatus.WAITING
        assert world.done["a"] == 2
        clock.advance(200.0)
        assert (await other.flow("f").resume(flow)).status is ExecutionStatus.COMPLETED
        events = await events_of(trail)
    assert [event.attempt for event in events if isinstance(event, NodeAttemptStarted)] == [1, 2, 3]
    assert [event.delay_seconds for event in events if isinstance(event, NodeRetryScheduled)] == [100.0, 200.0]


@pytest.mark.parametrize(("retry", "tries"), [
    (RetryPolicy(max_attempts=2, backoff=0.0), 2),
    (RetryPolicy(max_attempts=2, backoff=0.0, count_interrupted=False), 3),
    (RetryPolicy(max_attempts=1), 2),
])  # fmt: skip
async def test_a_crash_is_a_try_yet_never_the_last_one(retry: RetryPolicy, tries: int) -> None:
    world, clock = World(), HandClock()
    world.breaks["a"] = ConnectionError("away")
    flow = Workflow("t").tool("a", world.tool(), args={"name": "a"}, retry=retry).build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await run_to_rest(again_on(trail, clock, crash_at("after-node")), clock, flow)
        result = await run_to_rest(trail, clock, flow)
    assert result.error is not None
    assert (result.error.attempt, result.error.failure, world.done["a"]) == (tries, FailureClass.UNAVAILABLE, tries)


async def test_to_resume_is_no_further_visit() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").function("a", world.function("a")).human("ask", prompt="?").chain("a", "ask").build()
    options = RunOptions(max_visits=1, longest_wait=0.0)
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await run_to_rest(again_on(trail, clock, crash_at("before-node")), clock, flow, options=options)
        for _ in range(3):
            assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.WAITING
        await trail.flow("f").answer("ask", approved=True, by="ana")
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.COMPLETED


async def test_errors_values_and_bills_come_back_from_the_log_as_they_were() -> None:
    value = {"int": 2**60, "float": 1.0, "none": None, "nested": [{"a": True}], "text": "é😀"}
    model = ScriptedModel([say("an answer")])
    flow = (
        Workflow("t")
        .function("value", lambda _: value, output="value")
        .llm("say", model, prompt="x", output="said")
        .function("ill", breaks, on_error="record")
        .human("ask", prompt="?", output="answer")
        .chain("value", "say", "ill", "ask")
        .build()
    )
    clock = HandClock()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana", data=value)
        result = await trail.flow("f").resume(flow)
        state = await again_on(trail, clock).flow("f").state()
    assert tuple(state.errors) == result.errors
    assert [error.message for error in state.errors] == ["broken"]
    assert state.envelope.vars == result.envelope.vars
    assert state.envelope.vars["value"] == value
    assert [type(state.envelope.get(f"value.{key}")) for key in ("int", "float")] == [int, float]
    assert state.envelope.get("answer.data.int") == 2**60
    assert result.usage.total > 0
    assert state.run is not None
    assert state.run.usage == result.usage


async def test_each_node_visit_and_item_has_an_effect_id_of_its_own_and_its_tries_share_it() -> None:
    world = World()
    world.fails["x"] = [ConnectionError("away")]
    act = world.tool(ToolEffect.KEYED)
    flow = (
        Workflow("t")
        .tool("a", act, args={"name": "a"})
        .map("b", over="input", tool=act, args={"name": "{{ item }}"}, retry=2)
        .rule_router("again", [Rule(lambda _: world.done["a"] < 2, to="a")])
        .chain("a", "b", "again")
        .edge("again", "a", loop=True)
        .build()
    )
    _, events = await played(flow, ["x", "y"])
    ids = [event.effect_id for event in events if isinstance(event, NodeAttemptStarted)]
    first = ["f:1:a:1", "f:1:b:1:0", "f:1:b:1:0", "f:1:b:1:1"]
    assert sorted(ids) == sorted([*first, "f:1:a:2", "f:1:b:2:0", "f:1:b:2:1"])


@pytest.mark.acceptance("7.3-5")
async def test_an_answer_survives_a_crash_before_its_node_has_ended() -> None:
    clock = HandClock()
    flow = Workflow("t").human("ask", prompt="?", output="said").noop("end").chain("ask", "end").build()
    for number in range(1, 4):
        async with trail_of(clock) as trail:
            await trail.run(flow, session="f", options=LEAVES)
            await trail.flow("f").answer("ask", approved=True, by="ana")
            with dies(number, 2):
                await again_on(trail, clock, crash_at("before-append", number)).flow("f").resume(flow)
            result = await run_to_rest(trail, clock, flow)
            asked = [event for event in await events_of(trail) if isinstance(event, HumanRequested)]
        assert (result.status, result.envelope.vars["said_approved"]) == (ExecutionStatus.COMPLETED, True)
        assert len(asked) == 1


async def test_an_event_is_stored_before_anybody_sees_it() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").function("a", world.function("a")).function("b", world.function("b")).chain("a", "b").build()
    shown = 0
    async with trail_of(clock) as trail, trail.stream(flow, session="f") as stream:
        async for each in stream:
            if isinstance(each, Recorded):
                stored = await again_on(trail, clock).flow("f").events()
                assert stored[each.version - 1].event == each.event
                shown += 1
        assert shown == len(await trail.flow("f").events())


async def test_two_processes_that_resume_one_run_do_nothing_twice() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").human("ask", prompt="?").tool("a", world.tool(ToolEffect.UNSAFE), args={"name": "a"})
    built = flow.chain("ask", "a").build()
    async with trail_of(clock) as trail:
        await trail.run(built, session="f", options=LEAVES)
        await trail.flow("f").answer("ask", approved=True, by="ana")
        others = [again_on(trail, clock).flow("f").resume(built) for _ in range(3)]
        told = await asyncio.gather(*others, return_exceptions=True)
        result = await run_to_rest(trail, clock, built)
    assert any(isinstance(each, FlowResult) for each in told)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"a": 1})
