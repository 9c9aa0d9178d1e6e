"""What a run does about what is in doubt after a crash or a race, and how often it is written."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

import pytest

from steptrail import Steptrail, ToolEffect, tool
from steptrail.domain.flow.events import NodeAttemptStarted, NodeCompleted
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import CommandRejected
from steptrail.tools import OnUnknown
from steptrail.workflow import (
    FailureClass,
    RetryPolicy,
    Rule,
    RunOptions,
    Workflow,
)
from tests.flow.kit import LEAVES, World, events_of, named, run_to_rest
from tests.runner.kit import Crash, HandClock, again_on, crash_at, dies, trail_of

TRIES = RetryPolicy(max_attempts=2, backoff=0.0)
TOLERANT = RunOptions(continue_on_error=True, longest_wait=0.0)

# What is in doubt, and what is lost.


async def test_a_tool_that_is_out_of_its_own_time_is_tried_again_under_the_same_effect_id() -> None:
    tries = 0

    @tool(effect=ToolEffect.KEYED, timeout=0.05)
    async def slow() -> int:
        """Be slow once."""
        nonlocal tries
        tries += 1
        if tries == 1:
            await asyncio.sleep(60)
        return tries

    flow = Workflow("t").tool("a", slow, retry=TRIES, output="n").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, session="f")
        started = [event for event in await events_of(trail) if isinstance(event, NodeAttemptStarted)]
    assert (result.status, result.envelope.vars) == (ExecutionStatus.COMPLETED, {"n": 2})
    assert [(event.attempt, event.effect_id) for event in started] == [(1, "f:1:a:1"), (2, "f:1:a:1")]


async def test_an_unsafe_node_that_is_out_of_time_fails_where_that_is_tolerated_and_is_not_repeated() -> None:
    done = 0

    @tool(effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.FAIL)
    async def slow() -> None:
        """Charge, and never return."""
        nonlocal done
        done += 1
        await asyncio.sleep(60)

    flow = Workflow("t").tool("a", slow, timeout=0.05, retry=TRIES, on_error="record").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow)
    assert [(error.failure, error.attempt) for error in result.errors] == [(FailureClass.TIMEOUT, 1)]
    assert done == 1


@pytest.mark.parametrize(("covered", "status"), [("timeout", "completed"), ("unknown_outcome", "waiting")])
async def test_an_unsafe_node_that_is_out_of_time_is_parked_unless_its_node_tolerates_that_class(
    covered: Literal["timeout", "unknown_outcome"], status: str
) -> None:
    @tool(effect=ToolEffect.UNSAFE)
    async def slow() -> None:
        """Charge, and never return."""
        await asyncio.sleep(60)

    flow = Workflow("t").tool("a", slow, timeout=0.05, continue_on=(covered,)).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, session="f")
    assert (result.status.value, result.error) == (status, None)
    assert [error.failure for error in result.errors] == ([covered] if status == "completed" else [])


async def test_what_a_person_wants_to_run_again_has_its_time_and_its_tries() -> None:
    done = 0

    @tool(effect=ToolEffect.UNSAFE)
    async def charge() -> str:
        """Charge, slowly at first."""
        nonlocal done
        done += 1
        if done == 1:
            await asyncio.sleep(60)
        if done == 2:
            raise ConnectionError("away")
        return "receipt"

    tries = RetryPolicy(max_attempts=3, backoff=0.0)
    flow = Workflow("t").tool("a", charge, timeout=0.5, retry=tries, output="said").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        assert (await trail.run(flow, session="f")).status is ExecutionStatus.WAITING
        await trail.flow("f").settle("f:1:a:1", "rerun", by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.status, result.output, done) == (ExecutionStatus.COMPLETED, "receipt", 3)


@pytest.mark.parametrize("number", range(1, 4))
async def test_what_does_not_leave_the_process_is_computed_again_after_a_crash(number: int) -> None:
    clock = HandClock()
    flow = (
        Workflow("t")
        .transform("a", "template", template="{{ input }}!", output="a")
        .rule_router("choose", [Rule(lambda seen: seen.vars["a"] == "x!", to="b")])
        .noop("b")
        .human("ask", prompt="{{ vars.a }}", output="said")
        .chain("a", "choose", "b", "ask")
        .build()
    )
    async with trail_of(clock) as trail:
        with dies(number, 2):
            await run_to_rest(again_on(trail, clock, crash_at("before-append", number)), clock, flow, "x")
        result = await run_to_rest(trail, clock, flow, "x")
        events = await events_of(trail)
    assert result.status is ExecutionStatus.WAITING
    assert {"node.attempt.interrupted", "node.attempt.started"} & set(named(events)) == set()
    assert named(events).count("human.requested") == 1
    assert [event.node for event in events if isinstance(event, NodeCompleted)] == ["a", "choose", "b"]


@pytest.mark.acceptance("7.2-12")
@pytest.mark.parametrize("how", ["pause", "stop"])
async def test_what_happened_is_kept_when_a_command_comes_between_and_the_rest_is_decided_anew(
    how: str,
) -> None:
    world, clock = World(), HandClock()
    async with trail_of(clock) as trail:
        other = again_on(trail, clock)

        async def work(_: object) -> str:
            await (other.flow("f").pause(by="ana") if how == "pause" else other.flow("f").stop(by="ana"))
            return await world.do("a")

        flow = (
            Workflow("t")
            .function("a", work, effect="unsafe")
            .function("b", world.function("b"))
            .chain("a", "b")
            .build()
        )
        result = await trail.run(flow, session="f", options=RunOptions(stop_grace=60.0, longest_wait=0.0))
        assert result.status.value == {"pause": "paused", "stop": "stopped"}[how]
        assert (world.done, result.envelope.vars) == ({"a": 1}, {"a_output": "a is done"})
        result = await (trail.flow("f").resume(flow) if how == "pause" else trail.flow("f").retry(flow))
        events = await events_of(trail)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"a": 1, "b": 1})
    assert [event.node for event in events if isinstance(event, NodeCompleted)] == ["a", "b"]


@pytest.mark.parametrize("verdict", ["completed", "failed", "rerun"])
@pytest.mark.parametrize("items", [None, 2])
async def test_a_retry_of_a_run_asks_about_what_is_in_doubt_and_takes_the_verdict(
    verdict: Literal["completed", "failed", "rerun"], items: int | None
) -> None:
    world, clock = World(), HandClock()
    act = world.tool(effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.FAIL)
    written = Workflow("t")
    if items is None:
        written.tool("a", act, args={"name": "a"})
    else:
        written.map("a", over="input", tool=act, args={"name": "{{ item }}"}, concurrency=items)
    flow, given = written.build(), [f"item {number}" for number in range(items or 0)]
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).run(flow, given, session="f", options=LEAVES)
        failed = await trail.flow("f").resume(flow)
        assert (failed.status, failed.error and failed.error.failure) == (
            ExecutionStatus.FAILED,
            FailureClass.UNKNOWN_OUTCOME,
        )
        clock.advance(60)
        waiting = await trail.flow("f").retry(flow)
        done = dict(world.done)
        questions = await trail.inbox()
        assert waiting.status is ExecutionStatus.WAITING
        assert sorted(each.id for each in questions) == (
            ["f:1:a:1"] if items is None else [f"f:1:a:1:{item}" for item in range(items)]
        )
        for question in questions:
            await trail.flow("f").settle(question.id, verdict, by="ana", output="it happened")
            with pytest.raises(CommandRejected, match="ana has settled it already"):
                await trail.flow("f").settle(question.id, verdict, by="ben")
        result = await trail.flow("f").resume(flow)
        assert [record.version for record in await trail.flow("f").history()][-1] == result.state.version
    assert result.status is (ExecutionStatus.FAILED if verdict == "failed" else ExecutionStatus.COMPLETED)
    assert world.done == (dict.fromkeys(done, 2) if verdict == "rerun" else done)


@pytest.mark.parametrize("verdict", ["failed", "rerun"])
@pytest.mark.parametrize("items", [None, 1])
async def test_a_retry_asks_nobody_about_a_try_whose_outcome_was_told_or_is_known(
    verdict: Literal["failed", "rerun"], items: int | None
) -> None:
    world, clock = World(), HandClock()
    world.fails["a"] = [None, *[ValueError("refused")] * (verdict == "rerun")]
    act = world.tool(effect=ToolEffect.UNSAFE)
    written = Workflow("t")
    if items is None:
        written.tool("a", act, args={"name": "a"}, retry=1)
    else:
        written.map("a", over="input", tool=act, args={"name": "{{ item }}"}, retry=1)
    flow = written.build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).run(flow, ["a"], session="f", options=LEAVES)
        await trail.flow("f").resume(flow)
        (question,) = await trail.inbox()
        await trail.flow("f").settle(question.id, verdict, by="ana")
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.FAILED
        result = await trail.flow("f").retry(flow)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"a": 2 if verdict == "failed" else 3})


async def test_a_retry_does_again_what_a_person_wanted_to_run_again_before_the_run_was_stopped() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(effect=ToolEffect.UNSAFE), args={"name": "a"}).build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).run(flow, session="f", options=LEAVES)
        await trail.flow("f").resume(flow)
        await trail.flow("f").settle("f:1:a:1", "rerun", by="ana")
        await trail.flow("f").stop(by="ana")
        result = await trail.flow("f").retry(flow)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"a": 2})


async def test_a_verdict_before_the_node_was_in_doubt_again_is_not_the_one_that_came_first() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(effect=ToolEffect.UNSAFE), args={"name": "a"}).build()
    async with trail_of(clock) as trail:
        handle = trail.flow("f")
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).run(flow, session="f", options=LEAVES)
        await handle.resume(flow)
        await handle.settle("f:1:a:1", "rerun", by="ana")
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("after-node")).flow("f").resume(flow)
        await handle.resume(flow)
        await handle.stop(by="ops")
        with pytest.raises(CommandRejected, match="cannot settle") as told:
            await handle.settle("f:1:a:1", "completed", by="ben")
    assert "ana" not in str(told.value)


async def test_a_config_failure_that_was_not_stored_leaves_nothing_behind() -> None:
    clock = HandClock()
    flow = Workflow("t").tool("a", World().tool(), args={"name": "{{ vars.nothing }} x"}, on_error="record").build()
    for number in range(1, 4):
        async with trail_of(clock) as trail:
            try:
                await run_to_rest(again_on(trail, clock, crash_at("before-append", number)), clock, flow)
            except Crash:
                pass
            result = await run_to_rest(trail, clock, flow)
            assert named(await events_of(trail)).count("node.attempt.failed") == 1
        assert [(error.failure, error.attempt) for error in result.errors] == [(FailureClass.CONFIG, 0)]


# How often it is written.


@asynccontextmanager
async def counting(clock: HandClock) -> AsyncGenerator[tuple[Steptrail, list[str]]]:
    appends: list[str] = []

    def reach(point: str) -> None:
        if point == "before-append":
            appends.append(point)

    async with trail_of(clock, reach) as trail:
        yield trail, appends


@pytest.mark.parametrize("length", [1, 4, 9])
async def test_a_chain_of_nodes_is_one_commit_more_than_it_has_nodes(length: int) -> None:
    world, flow = World(), Workflow("t")
    names = [f"n{number}" for number in range(length)]
    for name in names:
        flow.function(name, world.function(name))
    async with counting(HandClock()) as (trail, appends):
        await trail.run((flow.chain(*names) if length > 1 else flow).build(), session="f")
    assert len(appends) == length + 1


async def test_a_chain_of_nodes_that_do_not_leave_the_process_is_few_commits() -> None:
    flow, names = Workflow("t"), [f"n{number}" for number in range(30)]
    for name in names:
        flow.noop(name)
    async with counting(HandClock()) as (trail, appends):
        await trail.run(flow.chain(*names).build(), session="f")
    assert len(appends) <= 3


async def test_an_unknown_outcome_is_parked_where_only_the_run_is_tolerant() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(ToolEffect.UNSAFE), args={"name": "a"}).build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await run_to_rest(again_on(trail, clock, crash_at("after-node")), clock, flow, options=TOLERANT)
        result = await run_to_rest(trail, clock, flow, options=TOLERANT)
    assert (result.status, result.errors) == (ExecutionStatus.WAITING, ())
    assert [task.phase for task in result.state.tasks] == [TaskPhase.PARKED]


async def test_an_unknown_outcome_is_recorded_where_the_node_tolerates_it() -> None:
    world, clock = World(), HandClock()
    act = world.tool(ToolEffect.UNSAFE)
    flow = Workflow("t").tool("a", act, args={"name": "a"}, on_error="record", retry=3).build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await run_to_rest(again_on(trail, clock, crash_at("after-node")), clock, flow)
        result = await run_to_rest(trail, clock, flow)
    assert [(error.failure, error.attempt) for error in result.errors] == [(FailureClass.UNKNOWN_OUTCOME, 1)]
    assert world.done["a"] == 1


async def test_an_unknown_outcome_of_an_item_is_recorded_where_its_map_records_failed_items() -> None:
    world, clock = World(), HandClock()
    act = world.tool(ToolEffect.UNSAFE)
    written = Workflow("t").map("m", over="input", tool=act, args={"name": "{{ item }}"}, on_item_error="record")
    flow = written.build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await run_to_rest(again_on(trail, clock, crash_at("after-node")), clock, flow, ["a", "b"])
        result = await run_to_rest(trail, clock, flow, ["a", "b"])
    assert (result.status, result.output) == (ExecutionStatus.COMPLETED, [None, "b is done"])
    assert [(error.failure, error.item) for error in result.errors] == [(FailureClass.UNKNOWN_OUTCOME, 0)]
    assert world.done == {"a": 1, "b": 1}
