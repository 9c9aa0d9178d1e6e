"""Steps of a run that are held for a person, before and after them."""

from typing import Literal

import pytest

from steptrail import ToolEffect
from steptrail.domain.flow.events import LimitReached
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.errors import CommandRejected
from steptrail.testing import ScriptedModel
from steptrail.workflow import Budget, RunOptions, Workflow
from tests.flow.kit import World, events_of, run_to_rest
from tests.runner.kit import HandClock, trail_of

DAY = 86_400.0


async def test_a_held_step_goes_on_is_changed_skipped_or_aborted() -> None:
    async def of(action: str, **given: object) -> tuple[str, dict[str, object], World]:
        world, clock = World(), HandClock()
        flow = (
            Workflow("t")
            .function("a", lambda seen: seen.vars.get("who", "nobody"), output="a")
            .function("b", world.function("b"))
            .chain("a", "b")
            .build()
        )
        async with trail_of(clock) as trail:
            options = RunOptions(pause_before=("a",))
            result = await trail.run(flow, session="f", options=options)
            assert result.status is ExecutionStatus.WAITING
            await trail.flow("f").step("a", action, by="ana", **given)  # type: ignore[arg-type]
            result = await trail.flow("f").resume(flow)
            return result.status.value, dict(result.envelope.vars), world

    assert (await of("continue"))[:2] == ("completed", {"a": "nobody", "b_output": "b is done"})
    assert (await of("continue", set={"who": "ana", "x": 1}, unset=["x"]))[1]["a"] == "ana"
    status, told, world = await of("skip")
    assert (status, "a" in told, world.done["b"]) == ("completed", False, 1)
    status, told, world = await of("abort")
    assert (status, told, world.done["b"]) == ("stopped", {}, 0)


async def test_a_step_is_held_after_it_has_ended_and_cannot_be_changed_then() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").function("a", world.function("a"), output="a").noop("b").chain("a", "b").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=RunOptions(pause_after=("*",), longest_wait=0.0))
        handle = trail.flow("f")
        with pytest.raises(CommandRejected):
            await handle.step("a", "skip", by="ana")
        with pytest.raises(CommandRejected):
            await handle.step("a", "continue", by="ana", set={"x": 1})
        await handle.step("a", "continue", by="ana")
        result = await handle.resume(flow)
        assert result.status is ExecutionStatus.WAITING
        await handle.step("b", "continue", by="ana")
        result = await handle.resume(flow)
    assert (result.status, world.done["a"]) == (ExecutionStatus.COMPLETED, 1)


async def test_a_step_that_nobody_answers_fails_the_run_in_time() -> None:
    clock = HandClock()
    flow = Workflow("t").noop("a").build()
    async with trail_of(clock) as trail:
        options = RunOptions(pause_before=("a",), step_timeout=DAY, longest_wait=0.0, continue_on_error=True)
        result = await run_to_rest(trail, clock, flow, options=options)
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.TIME_LIMIT)


@pytest.mark.parametrize("ends", ["stop", "failure", "step timeout"])
async def test_what_is_held_after_its_end_does_not_run_again_when_the_run_is_retried(ends: str) -> None:
    world, clock = World(), HandClock()
    world.fails["b"] = [ValueError("no")]
    flow = (
        Workflow("t")
        .tool("a", world.tool(ToolEffect.UNSAFE), args={"name": "a"}, output="a")
        .human("ask")
        .function("b", world.function("b"))
        .chain("ask", "b")
        .build()
    )
    async with trail_of(clock) as trail:
        options, handle = RunOptions(pause_after=("a",), step_timeout=DAY, longest_wait=0.0), trail.flow("f")
        await trail.run(flow, session="f", options=options)
        match ends:
            case "stop":
                await handle.stop(by="ana")
            case "failure":
                await handle.answer("ask", approved=True, by="ana")
            case _:
                clock.advance(DAY)
        ended = await handle.resume(flow)
        assert (ended.state.is_open, ended.envelope.vars["a"]) == (False, "a is done")
        await handle.retry(flow)
    assert world.done["a"] == 1


async def test_what_ends_well_while_the_run_fails_is_held_for_nobody_and_does_not_run_again() -> None:
    world, clock = World(), HandClock()
    world.holds, world.fails["b"] = "a", [ValueError("no")]

    async def fails(_: object) -> str:
        await world.entered.wait()
        world.gate.set()
        return await world.do("b")

    flow = Workflow("t").function("a", world.function("a"), effect="unsafe").function("b", fails).build()
    async with trail_of(clock) as trail:
        options = RunOptions(pause_after=("a",), stop_grace=60.0, longest_wait=0.0)
        failed = await trail.run(flow, session="f", options=options)
        assert failed.status is ExecutionStatus.FAILED
        result = await trail.flow("f").retry(flow)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"a": 1, "b": 2})


@pytest.mark.parametrize("ends", ["continue", "abort", "stop"])
async def test_the_limit_of_a_node_that_is_held_after_it_is_recorded_once(ends: str) -> None:
    tight = Budget(max_total_tokens=1)
    flow = Workflow("t").llm("a", ScriptedModel(["An answer."]), prompt="x", budget=tight).build()
    async with trail_of() as trail:
        handle = trail.flow("f")
        await trail.run(flow, session="f", options=RunOptions(pause_after=("a",), longest_wait=0.0))
        if ends == "stop":
            await handle.stop(by="ana")
        else:
            await handle.step("a", "continue" if ends == "continue" else "abort", by="ana")
        assert not (await handle.resume(flow)).state.is_open
        events = await events_of(trail)
    assert [event.limit for event in events if isinstance(event, LimitReached)] == ["max_total_tokens"]


@pytest.mark.parametrize("action", ["continue", "skip"])
@pytest.mark.parametrize("sources", [("a", "b"), ("b", "a")])
async def test_what_a_person_has_changed_at_a_held_step_is_seen_behind_a_join(
    action: Literal["continue", "skip"], sources: tuple[str, str]
) -> None:
    flow = (
        Workflow("t")
        .noop("a")
        .noop("b")
        .function("end", lambda seen: [seen.get("new"), seen.get("old")], output="end")
        .edge(sources, "end")
        .build()
    )
    async with trail_of() as trail:
        options = RunOptions(pause_before=("b",), longest_wait=0.0)
        await trail.run(flow, vars={"old": 1}, session="f", options=options)
        await trail.flow("f").step("b", action, set={"new": 2}, unset=["old"], by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.output, result.envelope.vars) == ([2, None], {"new": 2, "end": [2, None]})
