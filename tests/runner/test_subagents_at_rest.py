"""A child that waits, is paused, stopped or out of time, and what becomes of its caller."""

import asyncio
from collections.abc import Sequence

import pytest

from steptrail import Agent, ErrorPolicy, Limits, ToolEffect, tool
from steptrail.domain.agent.events import (
    AgentEvent,
    ExecutionFinished,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
    ToolExecutionSuspended,
)
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import CutBy
from steptrail.testing import Reply, call, calls, say
from steptrail.tools import ApprovalRule, SubagentTool
from tests.runner.families import BILL_OF_ONE, FIRST, ONE, asks, boss, look, named, times
from tests.runner.kit import Crash, HandClock, Run, again_on, crash_at, run, slowly, trail_of


def asking_child(*script: Reply, expires: float = 3600.0) -> Agent:
    @tool(effect=ToolEffect.READ, approval=ApprovalRule(expires=expires))
    def pay() -> str:
        """Pay."""
        return "paid"

    return named("payer", *script).with_tools(pay).build()


async def test_a_child_that_waits_for_a_person_makes_its_caller_wait_and_goes_on_with_the_answer() -> None:
    parent = boss([SubagentTool(asking_child(call("pay"), "paid"))], asks("payer", "pay"), "Done.").build()
    async with trail_of() as trail:
        waiting = await trail.run(parent, "go", session="s")
        assert waiting.status == "waiting"
        assert (await trail.session("s").why()).waits_for == f"session {FIRST}, which is waiting (approval)"
        assert await trail.due() == []
        # Asked again before anybody has answered, it waits again.
        assert (await again_on(trail).session("s").resume(parent)).status == "waiting"
        (asked,) = (await trail.session(FIRST).state()).open_approvals
        await again_on(trail).session(FIRST).approve(asked.id, by="ana")
        assert "s" in [row.session_id for row in await trail.due()]
        result = await again_on(trail).session("s").resume(parent)
        assert (result.output, result.usage) == ("Done.", times(4))
        events = [record.event for record in await trail.session("s").events()]
        assert [event.usage for event in events if isinstance(event, ToolExecutionSuspended)] == [BILL_OF_ONE]
        starts = [event.attempt for event in events if isinstance(event, ToolExecutionStarted)]
        assert starts == [1, 2]


async def test_a_question_that_expires_soon_is_still_a_persons_and_its_end_brings_the_caller_on() -> None:
    child = asking_child(call("pay"), "nobody said yes", expires=10.0)
    parent = boss([SubagentTool(child)], asks("payer", "pay"), "Done.").build()
    clock = HandClock()
    async with trail_of(clock) as trail:
        assert (await trail.run(parent, "go", session="s")).status == "waiting"
        assert await trail.due() == []
        clock.advance(20.0)
        assert {row.session_id for row in await trail.due()} == {"s", FIRST}
        assert (await trail.session("s").resume(parent)).output == "Done."
        assert (await trail.session(FIRST).state()).output == "nobody said yes"


async def test_the_other_calls_of_the_reply_go_on_while_a_child_waits() -> None:
    tools = [SubagentTool(asking_child(call("pay"), "paid")), SubagentTool(named("reader", "read").build())]
    wanted = calls(("payer", {"prompt": "pay"}), ("reader", {"prompt": "read"}))
    async with trail_of() as trail:
        await trail.run(boss(tools, wanted, "Done.").build(), "go", session="s")
        state = await trail.session("s").state()
        assert [call.status.value for call in state.tool_executions] == ["pending", "completed"]


async def test_stopping_a_parent_that_waits_for_a_child_stops_the_child() -> None:
    parent = boss([SubagentTool(asking_child(call("pay"), "paid"))], asks("payer", "pay"), "Done.").build()
    async with trail_of() as trail:
        await trail.run(parent, "go", session="s")
        stopped = await again_on(trail).session("s").stop(by="ops")
        child = await trail.session(FIRST).state()
        assert (stopped.status, stopped.stop_reason, stopped.usage) == ("completed", "user_requested", times(2))
        assert (child.status, child.stop_reason) == ("completed", "user_requested")


@pytest.mark.usefixtures("soon")
async def test_a_child_begins_nothing_more_when_its_parent_is_to_stop() -> None:
    begun, here, go_on = list[str](), asyncio.Event(), asyncio.Event()

    @tool(effect=ToolEffect.UNSAFE)
    async def pay(order: str) -> str:
        """Pay."""
        begun.append(order)
        here.set()
        await go_on.wait()
        return "paid"

    child = named("payer", call("pay", order="A-1"), call("pay", order="A-2"), "paid both").with_tools(pay).build()
    parent = boss([SubagentTool(child)], asks("payer", "pay"), "Done.").with_limits(Limits(stop_grace=30)).build()
    async with trail_of() as trail:
        running = asyncio.create_task(trail.run(parent, "go", session="s"))
        await here.wait()
        await again_on(trail).session("s").stop(by="ops")
        go_on.set()
        result, state = await running, await trail.session(FIRST).state()
        assert begun == ["A-1"]
        assert (result.status, result.stop_reason) == ("completed", "user_requested")
        assert (state.status, state.stop_reason) == ("completed", "user_requested")


def held(here: asyncio.Event, go_on: asyncio.Event) -> Agent:
    @tool(effect=ToolEffect.READ)
    async def hold() -> str:
        """Hold."""
        here.set()
        await go_on.wait()
        return "held"

    return named("holder", call("hold"), "held it").with_tools(hold).with_limits(Limits(stop_grace=0)).build()


def impatient_boss(child: Agent) -> Agent:
    return boss([SubagentTool(child)], asks("holder", "go"), "Done.").with_limits(Limits(stop_grace=0.1)).build()


@pytest.mark.usefixtures("soon")
async def test_stopping_a_parent_while_its_child_works_stops_the_child_and_bills_it() -> None:
    async with trail_of() as trail:
        here = asyncio.Event()
        parent = impatient_boss(held(here, asyncio.Event()))
        running = asyncio.create_task(trail.run(parent, "go", session="s"))
        await here.wait()
        await again_on(trail).session("s").stop(by="ops")
        result = await running
        child = await trail.session(FIRST).state()
        assert (result.status, result.stop_reason, result.usage) == ("completed", "user_requested", times(2))
        assert (child.status, child.stop_reason) == ("completed", "user_requested")
        assert result.state.steps[0].tool_executions[0].status == "interrupted"


@pytest.mark.usefixtures("soon")
async def test_a_child_is_stopped_before_its_parent_has_finished_so_that_no_crash_leaves_it_behind() -> None:
    def die(records: Sequence[Recorded[AgentEvent]]) -> None:
        if any(isinstance(record.event, ExecutionFinished) for record in records):
            raise Crash

    async with trail_of() as trail:
        here = asyncio.Event()
        parent = impatient_boss(held(here, asyncio.Event()))
        running = asyncio.create_task(trail.run(parent, "go", session="s", on_commit=die))
        await here.wait()
        await again_on(trail).session("s").stop(by="ops")
        with pytest.raises(Crash):
            await running
        child = await trail.session(FIRST).state()
        assert (child.status, child.stop_reason) == ("completed", "user_requested")


async def test_pausing_a_parent_pauses_its_child_and_a_resume_goes_on_with_both() -> None:
    async with trail_of() as trail:
        here, go_on = asyncio.Event(), asyncio.Event()
        parent = boss([SubagentTool(held(here, go_on))], asks("holder", "go"), "Done.").build()
        running = asyncio.create_task(trail.run(parent, "go", session="s"))
        await here.wait()
        await again_on(trail).session("s").pause(by="ops", reason="deploy")
        go_on.set()
        assert ((await running).status, (await trail.session(FIRST).state()).status) == ("paused", "paused")
        result = await again_on(trail).session("s").resume(parent)
        assert (result.output, result.usage) == ("Done.", times(4))


async def test_a_cancelled_caller_leaves_both_paused_and_a_resume_goes_on_with_both() -> None:
    async with trail_of() as trail:
        here, go_on = asyncio.Event(), asyncio.Event()
        parent = boss([SubagentTool(held(here, go_on))], asks("holder", "go"), "Done.").build()
        running = asyncio.create_task(trail.run(parent, "go", session="s"))
        await here.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        state, child = await trail.session("s").state(), await trail.session(FIRST).state()
        assert (state.status, child.status, state.usage) == ("paused", "paused", times(2))
        go_on.set()
        result = await again_on(trail).session("s").resume(parent)
        assert (result.output, result.usage) == ("Done.", times(4))


@pytest.mark.usefixtures("soon")
async def test_a_child_that_somebody_stops_is_a_failed_call() -> None:
    async with trail_of() as trail:
        here = asyncio.Event()
        parent = boss([SubagentTool(held(here, asyncio.Event()))], asks("holder", "go"), "Done.").build()
        running = asyncio.create_task(trail.run(parent, "go", session="s"))
        await here.wait()
        await again_on(trail).session(FIRST).stop(by="ops")
        result = await running
        assert (result.output, result.usage) == ("Done.", times(3))
        error = result.state.steps[0].tool_executions[0].error
        assert error is not None
        assert "(user_requested: Stop requested by ops)" in error.message


async def test_a_child_that_somebody_else_brings_on_is_waited_for() -> None:
    async with trail_of() as trail:
        here, go_on = asyncio.Event(), asyncio.Event()
        below = held(here, go_on)
        parent = boss([SubagentTool(below)], asks("holder", "go"), "Done.").build()
        with pytest.raises(Crash):
            await again_on(trail, reach=crash_at("before-tool", 2)).run(parent, "go", session="s")
        elsewhere = asyncio.create_task(again_on(trail).session(FIRST).resume(below))
        await here.wait()
        running = asyncio.create_task(trail.session("s").resume(parent))
        while (await trail.session("s").state()).tool_executions[0].attempt < 2:
            await asyncio.sleep(0)
        go_on.set()
        assert ((await elsewhere).output, (await running).output) == ("held it", "Done.")
        assert (await trail.session("s").state()).usage == times(4)


# Time


def slow_child(clock: HandClock, seconds: float) -> Agent:
    script: list[Reply] = [slowly(clock, seconds, call("look")), "late"]
    return named("slow", *script).with_tools(look).with_timeout(1000).build()


async def test_what_is_left_of_the_parents_time_bounds_the_child_and_the_parent_says_so() -> None:
    clock = HandClock()
    parent = boss([SubagentTool(slow_child(clock, 70))], asks("slow", "go"), "Never said.").with_timeout(60).build()
    async with trail_of(clock) as trail:
        result = await trail.run(parent, "go", session="s")
        child = await trail.session(FIRST).state()
        assert (child.stop_reason, child.step_count) == ("time_limit", 1)
        session = trail.session("s")
        ran = Run(result, await session.events(), await session.why())
    assert ran.ending == ("completed", "time_limit")
    assert ran.one(ToolExecutionInterrupted).cut_by is CutBy.TIMEOUT
    assert ran.result.usage == times(2)


@pytest.mark.parametrize("off", [-0.02, -1e-6, 0.0, 1e-6, 0.02])
async def test_a_child_whose_own_time_ends_with_its_parents_is_out_of_the_parents_time(off: float) -> None:
    clock = HandClock()
    script: list[Reply] = [slowly(clock, 70, call("look")), "late"]
    child = named("slow", *script).with_tools(look).with_timeout(60).build()
    parent = boss([SubagentTool(child)], slowly(clock, 1 + off, asks("slow", "go")), "Never said.").with_timeout(61)
    ran = await run(parent.build(), clock=clock)
    assert ran.ending == ("completed", "time_limit")
    assert ran.one(ToolExecutionInterrupted).cut_by is CutBy.TIMEOUT


async def test_a_call_with_a_time_of_its_own_fails_when_that_is_up_and_the_parent_goes_on() -> None:
    clock = HandClock()
    tool = SubagentTool(slow_child(clock, 70), timeout=60)
    parent = boss([tool], asks("slow", "go"), "Done.").with_error_policy(ErrorPolicy.retry_all(3))
    ran = await run(parent.build(), clock=clock)
    assert (ran.result.output, ran.result.usage) == ("Done.", times(3))
    assert ran.shown == ["Error in tool call: subagent 'slow' did not end within its time"]


async def test_a_child_keeps_its_own_narrower_limit() -> None:
    clock = HandClock()
    child = named("slow", slowly(clock, 30, call("look")), "late").with_tools(look).with_timeout(20).build()
    ran = await run(boss([SubagentTool(child)], asks("slow", "go"), "Done.").with_timeout(100).build(), clock=clock)
    assert "came to no answer (time_limit: " in ran.shown[0]


# The two kinds of name


def test_a_tool_is_called_as_its_agent_is_in_the_letters_that_a_tool_may_have() -> None:
    assert SubagentTool(named("order desk 2", "ok").build()).spec.name == "order_desk_2"
    assert say("ok").usage == ONE


async def test_a_driven_run_has_no_child_where_no_call_asks_for_one() -> None:
    ran = await run(boss([SubagentTool(named("x", "ok").build())], "Done.").build())
    assert (ran.result.usage, ran.all(ToolExecutionStarted)) == (ONE, [])
