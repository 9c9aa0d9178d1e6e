"""What the clocks of nodes and runs count, and what is cut off when a run or a map is to end."""

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from steptrail import AgentBuilder, Limits, Steptrail, ToolEffect, tool
from steptrail.domain.flow.effects import Await
from steptrail.domain.flow.events import (
    CutReason,
    FlowEvent,
    FlowResumed,
    NodeAttemptInterrupted,
    NodeRetryScheduled,
)
from steptrail.domain.flow.next_effects import next_effects
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.instants import to_datetime
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.testing import ManualClock, ScriptedModel, call, say
from steptrail.workflow import (
    BuiltWorkflow,
    Envelope,
    FailureClass,
    NodeContext,
    RetryPolicy,
    Rule,
    RunOptions,
    Workflow,
)
from tests.flow.kit import LEAVES, World, events_of, run_to_rest
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of

DAY = 86_400.0


def twice(world: World, tries: int = 2, **settings: Any) -> BuiltWorkflow:
    """Return a workflow of one tool that succeeds in its last try, waits a minute, and has 100 seconds in all."""
    world.fails["a"] = [ConnectionError("away")] * (tries - 1)
    retry = RetryPolicy(max_attempts=tries, backoff=60.0)
    act = world.tool()
    return Workflow("t").tool("a", act, args={"name": "a"}, retry=retry, timeout=100.0, **settings).build()


async def test_the_time_of_a_node_counts_waits_that_ended_the_call() -> None:
    world, clock = World(), HandClock()
    flow = twice(world, tries=3)
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=LEAVES)
        clock.advance(150.0)
        result = await trail.flow("f").resume(flow)
    assert result.error is not None
    # The second wait would be longer than the 40 seconds that are left.
    assert (result.error.failure, world.done["a"]) == (FailureClass.TIMEOUT, 2)


@pytest.mark.parametrize("work", ["a tool", "a function"])
async def test_what_may_happen_once_is_not_begun_without_time_and_nobody_is_asked_about_it(work: str) -> None:
    world, clock = World(), HandClock()
    world.fails["a"] = [ConnectionError("away")]
    settings: Any = {"retry": RetryPolicy(max_attempts=2, backoff=60.0), "timeout": 100.0}

    async def take_long(_: Envelope) -> None:
        clock.advance(150.0)

    written = Workflow("t", options=RunOptions(concurrency=1, longest_wait=0.0)).noop("in")
    if work == "a tool":
        written.tool("a", world.tool(ToolEffect.UNSAFE), args={"name": "a"}, **settings)
    else:
        written.function("a", world.function("a"), effect=ToolEffect.UNSAFE, **settings)
    flow = written.function("b", take_long).edge("in", "a", "b").build()
    async with trail_of(clock) as trail:
        # While the first of them waits for its second try, the other one has the only place, and takes its time.
        result = await trail.run(flow, session="f")
        explained = await trail.flow("f").why()
    assert (result.status, world.done["a"]) == (ExecutionStatus.FAILED, 1)
    failed = result.error
    assert failed is not None
    assert failed.error is not None
    assert (failed.failure, failed.message) == (FailureClass.TIMEOUT, "it did not end within 100 s")
    # Its first try had failed for another reason, which stays with the try, and beside the end.
    assert [(each.attempt, each.outcome) for each in explained.attempts] == [(1, "failed (unavailable)")]
    assert failed.error.causes[1:] == ("builtins:ConnectionError: away",)


async def test_the_time_of_a_node_stands_still_while_the_run_is_paused() -> None:
    world, clock = World(), HandClock()
    flow = twice(world)
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=LEAVES)
        await trail.flow("f").pause(by="ana")
        clock.advance(DAY)
        result = await trail.flow("f").resume(flow)
    assert (result.status, world.done["a"]) == (ExecutionStatus.COMPLETED, 2)


@pytest.mark.parametrize("hours", [3, 24 * 365 * 75])
async def test_a_run_that_a_machine_with_a_fast_clock_began_goes_on_when_its_answer_is_there(
    store_url: str, hours: int
) -> None:
    flow = Workflow("t").human("q", prompt="?").noop("a").chain("q", "a").build()
    right = ManualClock()
    fast = ManualClock(to_datetime(right.utc() + hours * 3600 * 10**6))
    async with Steptrail.open(store_url, clock=fast) as ahead, Steptrail.open(store_url, clock=right) as trail:
        await ahead.run(flow, session="f")
        await trail.flow("f").answer("q", approved=True, by="ana")
        assert (await trail.flow("f").resume(flow)).status == ExecutionStatus.COMPLETED


async def test_the_time_of_a_node_stands_still_while_a_person_is_asked() -> None:
    world, clock = World(), HandClock()
    flow = twice(world, approval=True)
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f", options=LEAVES)
        approval = result.state.tasks[0].approval
        assert approval is not None
        clock.advance(DAY)
        await trail.flow("f").approve(approval.id, by="ana")
        await trail.flow("f").resume(flow)
        clock.advance(60.0)
        result = await trail.flow("f").resume(flow)
    assert (result.status, world.done["a"]) == (ExecutionStatus.COMPLETED, 2)


async def test_the_time_of_a_node_stands_still_after_a_crash() -> None:
    world, clock = World(), HandClock()
    flow = twice(world)
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await run_to_rest(again_on(trail, clock, crash_at("before-node")), clock, flow)
        clock.advance(DAY)
        result = await run_to_rest(trail, clock, flow)
    assert result.status is ExecutionStatus.FAILED
    assert world.done["a"] == 1
    assert result.error is not None
    # The crash was one of its two tries.
    assert (result.error.attempt, result.error.failure) == (2, FailureClass.UNAVAILABLE)


async def test_the_time_of_a_node_stands_still_when_its_wait_is_over_and_nobody_is_there() -> None:
    world, clock = World(), HandClock()
    flow = twice(world)
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=LEAVES)
        clock.advance(DAY)
        result = await trail.flow("f").resume(flow)
    assert (result.status, world.done["a"]) == (ExecutionStatus.COMPLETED, 2)


async def test_the_time_of_a_node_stands_still_after_a_crash_in_its_wait() -> None:
    world, clock = World(), HandClock()
    world.fails["a"], world.holds = [ConnectionError("away")], "b"
    settings: Any = {"retry": RetryPolicy(max_attempts=2, backoff=60.0), "timeout": 100.0}
    written = Workflow("t").function("in", lambda _: 1).function("b", world.function("b"))
    flow = written.function("a", world.function("a"), **settings).edge("in", "a", "b").build()

    def die(records: Sequence[Recorded[FlowEvent]]) -> None:
        if any(isinstance(record.event, NodeRetryScheduled) for record in records):
            raise Crash

    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await trail.run(flow, session="f", on_commit=die)
        clock.advance(DAY)
        world.gate.set()
        result = await trail.flow("f").resume(flow)
        events = await events_of(trail)
    assert [event.ended_by for event in events if isinstance(event, FlowResumed)] == [SegmentEnd.CRASH]
    assert (result.status, world.done["a"]) == (ExecutionStatus.COMPLETED, 2)


async def test_nodes_beside_each_other_use_the_time_of_the_run_once() -> None:
    clock, begun = HandClock(), 0
    both = asyncio.Event()

    async def work(_: object) -> None:
        nonlocal begun
        begun += 1
        if begun == 2:
            clock.advance(10.0)
            both.set()
        await both.wait()

    flow = Workflow("t").function("a", work).function("b", work).noop("end").edge(("a", "b"), "end").build()
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f", options=RunOptions(cumulative_timeout=15.0))
    assert result.status is ExecutionStatus.COMPLETED
    assert result.state.run is not None
    assert result.state.run.active.us(clock.utc()) == 10_000_000


@pytest.mark.parametrize("held_up_by", ["no room", "a pause"])
async def test_a_retry_whose_time_has_come_while_it_may_not_begin_has_nobody_look_again_and_again(
    held_up_by: str,
) -> None:
    world, clock = World(), HandClock()
    world.holds, world.breaks["a"] = "b", ConnectionError("away")
    written = Workflow("t").noop("end").edge(("a", "b"), "end")
    written.function("a", world.function("a"), retry=RetryPolicy(max_attempts=2, backoff=60.0))
    flow = written.function("b", world.function("b")).build()
    room = RunOptions(concurrency=1 if held_up_by == "no room" else 2)
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, session="f", options=room))
        await world.entered.wait()
        while not (tasks := (await trail.flow("f").state()).tasks) or tasks[0].phase is not TaskPhase.RETRYING:
            await asyncio.sleep(0)
        if held_up_by == "a pause":
            await trail.flow("f").pause(by="ana")
        state = await trail.flow("f").state()
        assert next_effects(state, clock.utc() + 60 * 10**6) == (Await((("b", 1, None),)),)
        world.gate.set()
        clock.advance(60.0)
        await running


async def test_limits_count_anew_after_a_retry_and_tokens_go_on() -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .function("a", world.function("a"))
        .rule_router("again", [Rule(lambda _: world.done["a"] < 5, to="a")])
        .chain("a", "again")
        .edge("again", "a", loop=True)
        .build()
    )
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f", options=RunOptions(max_visits=3))
        assert (result.stop_reason, world.done["a"]) == (StopReason.STEPS_LIMIT, 3)
        result = await trail.flow("f").retry(flow)
    assert (result.status, world.done["a"]) == (ExecutionStatus.COMPLETED, 5)


@pytest.mark.usefixtures("soon")
async def test_a_stop_cuts_what_reads_at_once_and_lets_the_rest_end_for_a_while() -> None:
    world, clock = World(), HandClock()
    begun, cut = asyncio.Event(), asyncio.Event()

    async def read(_: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    async def write(_: object) -> str:
        await cut.wait()
        return await world.do("write")

    flow = (
        Workflow("t")
        .function("read", read)
        .function("write", write, effect="idempotent")
        .function("next", world.function("next"))
        .noop("end")
        .chain("write", "next", "end")
        .edge("read", "end")
        .build()
    )
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, session="f", options=RunOptions(stop_grace=60.0)))
        await begun.wait()
        await trail.flow("f").stop(by="ana")
        result = await running
        ends = [event for event in await events_of(trail) if isinstance(event, NodeAttemptInterrupted)]
    assert result.status is ExecutionStatus.STOPPED
    assert [(event.node, event.reason) for event in ends] == [("read", CutReason.STOP)]
    assert (world.done, result.envelope.vars) == ({"write": 1}, {"write_output": "write is done"})


@pytest.mark.parametrize("kind", ["read", "unsafe", "flow", "agent"])
@pytest.mark.parametrize("ends", ["blocked", "out of time"])
async def test_what_was_to_begin_when_the_run_has_to_end_is_not_begun_and_nothing_is_asked_about_it(
    kind: str, ends: str
) -> None:
    world, clock, is_open = World(), HandClock(), False

    def decides(_: object) -> bool:
        clock.advance(100.0 if ends == "out of time" and not is_open else 0.0)
        return is_open or ends == "out of time"

    flow = Workflow("t")
    match kind:
        case "flow":
            flow.flow("a", Workflow("below").function("b", world.function("a")).build())
        case "agent":
            script = ScriptedModel([lambda _: say(f"{world.done.update('a') or 'said'}")])
            flow.agent("a", AgentBuilder("a").with_model(script).build(), prompt="Go.")
        case _:
            flow.function("a", world.function("a"), effect=ToolEffect(kind))
    built = flow.gate("b", when=decides).build()
    async with trail_of(clock) as trail:
        options = RunOptions(timeout=50.0, longest_wait=0.0)
        async with asyncio.timeout(60.0):
            failed = await trail.run(built, session="f", options=options)
        assert (failed.status, world.done) == (ExecutionStatus.FAILED, {})
        is_open = True
        result = await trail.flow("f").retry(built)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"a": 1})


@pytest.mark.parametrize("on_error", ["fail", "record"])
async def test_items_that_were_to_begin_are_not_begun_when_one_beside_them_cannot_run(
    on_error: Literal["fail", "record"],
) -> None:
    world = World()
    act = world.tool(ToolEffect.UNSAFE)
    args, given = {"name": "{{ item.name }}"}, [{"name": "a"}, {}, {"name": "c"}]
    flow = Workflow("t").map("m", over="input", tool=act, args=args, concurrency=3, on_error=on_error).build()
    async with trail_of() as trail:
        async with asyncio.timeout(60.0):
            result = await trail.run(flow, given, session="f")
    failed = result.error if on_error == "fail" else result.errors[0]
    assert failed is not None
    assert (failed.failure, failed.item, world.done) == (FailureClass.CONFIG, 1, {})
    assert result.status is (ExecutionStatus.FAILED if on_error == "fail" else ExecutionStatus.COMPLETED)


async def test_a_failed_run_has_what_its_ended_branches_wrote_and_every_error() -> None:
    world, clock = World(), HandClock()
    world.breaks = {"soft": RuntimeError("soft"), "hard": RuntimeError("hard")}
    flow = (
        Workflow("t")
        .function("well", world.function("well"))
        .function("soft", world.function("soft"), on_error="record")
        .function("hard", world.function("hard"))
        .chain("well", "soft", "hard")
        .build()
    )
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f")
    assert result.envelope.vars == {"well_output": "well is done", "soft_output": None, "soft_output_error": "soft"}
    assert [error.message for error in result.errors] == ["soft"]
    assert result.error is not None
    assert result.error.message == "hard"


@pytest.mark.parametrize("on_error", ["fail", "record"])
async def test_an_item_that_fails_its_map_cuts_the_others_off(on_error: str) -> None:
    world, begun = World(), asyncio.Event()

    async def work(_: Envelope, context: NodeContext) -> str:
        if context.index == 0:
            begun.set()
            await asyncio.Event().wait()
        await begun.wait()
        raise RuntimeError("no")

    flow = (
        Workflow("t")
        .map("each", over="input", function=work, concurrency=2, on_error=on_error, output="all")  # type: ignore[arg-type]
        .function("end", world.function("end"))
        .chain("each", "end")
        .build()
    )
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, ["slow", "ill", "never"], session="f")
        ends = [event for event in await events_of(trail) if isinstance(event, NodeAttemptInterrupted)]
    assert [(event.item, event.reason) for event in ends] == [(0, CutReason.SIBLING)]
    if on_error == "fail":
        assert (result.status, world.done) == (ExecutionStatus.FAILED, {})
        assert result.error is not None
        assert result.error.item == 1
    else:
        assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"end": 1})
        assert [error.item for error in result.errors] == [1]
        assert result.envelope.vars["all"] is None


@pytest.mark.parametrize(
    ("retry", "least", "most"),
    [
        (RetryPolicy(max_attempts=4, backoff=2.0, max_delay=3.0), [2.0, 3.0, 3.0], [2.0, 3.0, 3.0]),
        (RetryPolicy(max_attempts=4, backoff=4.0, jitter=0.5), [2.0, 4.0, 6.0], [4.0, 8.0, 12.0]),
    ],
)
async def test_a_wait_is_drawn_once_and_recorded_with_when_it_ends(
    retry: RetryPolicy, least: list[float], most: list[float]
) -> None:
    world, clock = World(), HandClock()
    world.breaks["a"] = ConnectionError("away")
    flow = Workflow("t").function("a", world.function("a"), retry=retry).build()
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow)
        records = await trail.flow("f").events()
    waits = [record for record in records if isinstance(record.event, NodeRetryScheduled)]
    for record, low, high in zip(waits, least, most, strict=True):
        assert isinstance(record.event, NodeRetryScheduled)
        assert low <= record.event.delay_seconds <= high
        assert record.event.due_at == record.at + round(record.event.delay_seconds * 1e6)


@pytest.mark.usefixtures("soon")
async def test_a_stop_leaves_its_grace_to_what_runs_after_items_were_cut_off() -> None:
    world, begun, stopped = World(), asyncio.Event(), asyncio.Event()

    async def work(_: Envelope, context: NodeContext) -> None:
        if context.index == 0:
            begun.set()
            await asyncio.Event().wait()
        await begun.wait()
        raise RuntimeError("no")

    async def read(_: object) -> None:
        world.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def write(_: object) -> str:
        await stopped.wait()
        await asyncio.sleep(0)
        return await world.do("write")

    flow = (
        Workflow("t")
        .map("each", over="input", function=work, concurrency=2, on_error="record")
        .function("write", write, effect="idempotent")
        .function("read", read)
        .noop("end")
        .edge("each", "write", "read")
        .edge(("write", "read"), "end")
        .build()
    )
    async with trail_of() as trail:
        running = asyncio.create_task(
            trail.run(flow, ["slow", "ill"], session="f", options=RunOptions(stop_grace=60.0))
        )
        await world.entered.wait()
        await trail.flow("f").stop(by="ana")
        await running
        ends = [event for event in await events_of(trail) if isinstance(event, NodeAttemptInterrupted)]
    assert [(event.node, event.reason) for event in ends] == [("each", CutReason.SIBLING), ("read", CutReason.STOP)]
    assert world.done == {"write": 1}


@pytest.mark.parametrize("kind", ["agent", "flow"])
@pytest.mark.parametrize(
    ("own", "cumulative", "node", "failure"),
    [
        (10.0, None, 3600.0, FailureClass.CHILD),
        (10.0, None, None, FailureClass.CHILD),
        (1800.0, 10.0, 900.0, FailureClass.CHILD),
        (None, 10.0, 900.0, FailureClass.CHILD),
        (3600.0, None, 10.0, FailureClass.TIMEOUT),
        (None, None, 10.0, FailureClass.TIMEOUT),
        (10.0, None, 10.0, FailureClass.TIMEOUT),
        (1800.0, 900.0, 10.0, FailureClass.TIMEOUT),
    ],
)
async def test_the_node_times_out_when_its_own_time_is_up_and_not_when_a_limit_of_its_child_is_reached(
    kind: str, own: float | None, cumulative: float | None, node: float | None, failure: FailureClass
) -> None:
    clock = HandClock()

    @tool(effect=ToolEffect.READ)
    def slow() -> None:
        """Take 30 seconds."""
        clock.advance(30.0)

    if kind == "agent":
        model = ScriptedModel([call("slow"), say("dogs")])
        agent = AgentBuilder("below").with_model(model).with_tools(slow)
        limits = Limits(timeout=own, cumulative_timeout=cumulative)
        flow = Workflow("t").agent("below", agent.with_limits(limits).build(), prompt="go", timeout=node)
    else:
        bounds = RunOptions(timeout=own, cumulative_timeout=cumulative)
        inner = Workflow("below", options=bounds).tool("a", slow, args={}).tool("b", slow, args={}).chain("a", "b")
        flow = Workflow("t").flow("below", inner.build(), timeout=node)
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow.build())
    assert result.error is not None
    assert result.error.failure is failure
    if failure is FailureClass.CHILD:
        assert result.error.details["stop_reason"] == "time_limit"
