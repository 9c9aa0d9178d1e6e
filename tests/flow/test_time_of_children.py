"""A stream below a node whose time is up: the node fails with `timeout`, however the stream rests."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from steptrail import AgentBuilder, ErrorPolicy, ToolEffect, tool
from steptrail.domain.instants import to_datetime
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.kernel import child as runs_below
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import SubagentTool
from steptrail.workflow import FailureClass, FlowTool, Workflow
from tests.flow.kit import LEAVES, World
from tests.runner.families import PATIENCE
from tests.runner.kit import Crash, HandClock, again_on, crash_at, slowly, trail_of


@pytest.mark.parametrize("kind", ["agent", "flow", "tool"])
async def test_a_stream_that_waits_in_its_process_until_the_time_of_its_node_is_up_fails_the_node(kind: str) -> None:
    """Its own clock stands still here, so only the timer of the node knows."""
    inner, written = Workflow("inner").human("ask", prompt="Well?", expires=30).build(), Workflow("t")
    agent = AgentBuilder("a").with_model(ScriptedModel([call("inner")])).with_tools(FlowTool(inner)).build()
    if kind == "agent":
        written.agent("below", agent, prompt="go", timeout=0.9)
    elif kind == "flow":
        written.flow("below", inner, timeout=0.9)
    else:
        written.tool("below", FlowTool(inner), timeout=0.9)
    async with trail_of() as trail:
        result = await trail.run(written.build(), session="f", options=LEAVES)
        below = [row for row in await trail.runs() if row.parent is not None]
    assert (result.status, result.error and result.error.failure) == (ExecutionStatus.FAILED, FailureClass.TIMEOUT)
    assert below
    assert not any(row.is_open for row in below)


async def test_what_an_item_ran_whose_time_was_up_is_stopped_while_the_run_goes_on() -> None:
    """Its question would stand in the inbox until the run ends, and nobody would make use of an answer."""
    inner = Workflow("inner").human("ask", prompt="Well?", expires=30).build()
    flow = (
        Workflow("t")
        .map("m", over="items", flow=inner, on_item_error="record", item_timeout=0.9)
        .human("end", prompt="Go on?")
        .chain("m", "end")
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1, 2]}, session="f", options=LEAVES)
        below = [row for row in await trail.runs() if row.parent is not None]
        assert [question.node for question in await trail.inbox()] == ["end"]
    assert [row.status for row in below] == 2 * [ExecutionStatus.STOPPED]


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_an_answer_that_was_stored_in_time_counts_although_the_time_is_up_when_it_is_heard(
    kind: str, is_answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody goes on with the stream below by hand, and the process that waits for it dies before it looks again."""
    monkeypatch.setattr(runs_below, "_LOOK_SECONDS", PATIENCE)
    clock, world, beside = HandClock(), World(), asyncio.Event()
    world.holds = "below"
    agent = AgentBuilder("a").with_model(ScriptedModel([call("act", name="below"), say("dogs")]))
    agent = agent.with_tools(world.tool())
    inner = Workflow("inner").function("below", world.function("below"), output="said").build()
    written = Workflow("t").function("beside", lambda _: beside.wait())
    if kind == "agent":
        written.agent("below", agent.build(), prompt="go", output="said", timeout=10)
    else:
        written.flow("below", inner, output="said", timeout=10)
    flow = written.build()
    async with asyncio.timeout(PATIENCE), trail_of(clock) as trail:
        dying = again_on(trail, clock, crash_at("after-append", 2))
        with pytest.raises(Crash):
            await dying.run(flow, session="f", options=LEAVES)
        (below,) = [row for row in await trail.runs() if row.parent is not None]
        by_hand = trail.session(below.session_id).resume(agent.build()) if kind == "agent" else None
        other = asyncio.ensure_future(by_hand or trail.flow(below.session_id).resume(inner))
        await world.entered.wait()
        waiting = again_on(trail, clock, crash_at("after-append", 2))
        dies = asyncio.ensure_future(waiting.flow("f").resume(flow))
        for _ in range(20):
            await asyncio.sleep(0.01)
        clock.advance(5)
        if is_answered:
            world.gate.set()
            await other
        clock.advance(7)
        beside.set()
        with pytest.raises(Crash):
            await dies
        monkeypatch.setattr(runs_below, "_LOOK_SECONDS", 0.01)
        goes_on = asyncio.ensure_future(trail.flow("f").resume(flow))
        while not goes_on.done():
            await asyncio.sleep(0.05)
            clock.advance(5)
        result = await goes_on
        world.gate.set()
        await other
    assert (result.error and result.error.failure) == (None if is_answered else FailureClass.TIMEOUT)
    assert ("said" in result.envelope.vars) is is_answered
    assert world.done == {"below": 1}


@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_a_stream_that_goes_on_after_a_wait_has_the_time_that_is_left_then(kind: str) -> None:
    """The wait ended the segment, so the clock of the agent above begins anew: ten seconds were left before it."""
    clock = HandClock()

    @tool(effect=ToolEffect.IDEMPOTENT, approval=kind == "agent")
    def slow() -> str:
        """Take twenty seconds."""
        clock.advance(20)
        return "Slow."

    steps = ScriptedModel([call("slow"), "Slow."])
    inner = Workflow("inner", result="out").human("ask", prompt="Well?").tool("slow", slow, output="out").noop("end")
    inner.chain("ask", "slow", "end")
    agent = AgentBuilder("inner").with_model(steps).with_tools(slow).build()
    below = SubagentTool(agent) if kind == "agent" else FlowTool(inner.build())
    asks = call("inner", prompt="go") if kind == "agent" else call("inner")
    model = ScriptedModel([slowly(clock, 290, asks), "Done."])
    above = AgentBuilder("above").with_model(model).with_tools(below).build()
    async with asyncio.timeout(PATIENCE), trail_of(clock) as trail:
        assert (await trail.run(above, "go", session="s")).status is ExecutionStatus.WAITING
        (row,) = [row for row in await trail.runs() if row.parent is not None]
        version = row.version
        assert (await trail.session("s").resume(above)).status is ExecutionStatus.WAITING
        assert [each.version for each in await trail.runs() if each.parent is not None] == [version]
        if kind == "flow":
            await trail.flow(row.session_id).answer("ask", approved=True, by="ana")
        else:
            await trail.session(row.session_id).approve(row.waits[0].id, by="ana")
        result = await trail.session("s").resume(above)
        (called,) = result.state.steps[0].tool_executions
        assert (result.output, called.text) == ("Done.", "[Subagent: inner] Slow." if kind == "agent" else "Slow.")


@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_what_somebody_ran_by_hand_in_a_stream_below_is_not_the_answer_of_its_node(kind: str) -> None:
    world = World()
    world.fails["below"] = [RuntimeError("broken"), None]
    model = ScriptedModel([RuntimeError("broken"), "by hand"])
    agent = AgentBuilder("a").with_model(model).with_error_policy(ErrorPolicy.stop_on_any_error()).build()
    inner, written = Workflow("inner").function("below", world.function("below"), output="said").build(), Workflow("t")
    if kind == "agent":
        written.agent("below", agent, prompt="go", output="said")
    else:
        written.flow("below", inner, input={"n": 1}, output="said")
    flow = written.build()
    async with trail_of() as trail:
        assert (await trail.run(flow, session="f")).status is ExecutionStatus.FAILED
        (row,) = [row for row in await trail.runs() if row.parent is not None]
        by_hand = trail.run(agent, "another", session=row.session_id) if kind == "agent" else None
        other = await (by_hand or trail.run(inner, {"n": 2}, session=row.session_id))
        assert other.status is ExecutionStatus.COMPLETED
        again = await trail.flow("f").retry(flow)
    assert (again.status, again.error and again.error.failure) == (ExecutionStatus.FAILED, FailureClass.CHILD)


@pytest.mark.parametrize("in_a_map", [False, True])
async def test_what_somebody_retries_by_hand_below_a_node_whose_failure_was_recorded_goes_on(in_a_map: bool) -> None:
    model = ScriptedModel([RuntimeError("broken"), call("ask"), "by hand"])
    ask = FlowTool(Workflow("ask").human("well", prompt="Well?").build())
    agent = AgentBuilder("a").with_model(model).with_tools(ask).build()
    written, clock = Workflow("t", options=LEAVES), HandClock()
    if in_a_map:
        written.map("below", over="input", agent=agent, prompt="go", on_error="continue")
    else:
        written.agent("below", agent, prompt="go", on_error="continue")
    flow = written.human("then", prompt="Go on?").noop("end").chain("below", "then", "end").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, [1], session="f")
        (row,) = [row for row in await trail.runs() if row.parent is not None]
        clock.advance(1.0)
        assert (await trail.session(row.session_id).retry(agent, by="ana")).status is ExecutionStatus.WAITING
        await trail.flow("f").answer("then", approved=True, by="ana")
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.COMPLETED
        (question,) = await trail.inbox()
        await trail.flow(question.stream.removeprefix("flow:")).answer("well", approved=True, by="ana")
        assert (await trail.session(row.session_id).resume(agent)).output == "by hand"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["agent", "flow", "tool"])
async def test_what_was_started_by_a_machine_with_a_fast_clock_waits_for_what_waits_below_it(kind: str) -> None:
    """By the clock of the run above the question below is over long before it is by the clock of this machine."""
    inner = Workflow("inner").human("ask", prompt="Well?", expires=300).build()
    agent = AgentBuilder("a").with_model(ScriptedModel([call("inner"), say("asked")])).with_tools(FlowTool(inner))
    above: Any = agent.build()
    if kind != "agent":
        written = Workflow("t")
        above = (written.agent("b", above, prompt="go") if kind == "tool" else written.flow("b", inner)).build()
    right = HandClock()
    fast = HandClock(to_datetime(right.utc()) + timedelta(minutes=10))
    async with trail_of(right) as trail:
        await again_on(trail, fast).start(above, "go", session="s")
        await trail.run(above, "go", session="s")
        rows = {row.session_id: row for row in await trail.runs()}
        assert rows["s"].status == ExecutionStatus.WAITING
        assert rows["s"].started_at == min(row.started_at for row in rows.values())
        (question,) = await trail.inbox()
        assert question.expires_at is not None
        right.advance(question.expires_at - to_datetime(right.utc()))
        assert "s" in {row.session_id for row in await trail.due()}
