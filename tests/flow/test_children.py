"""Agents and workflows as nodes: a stream of their own, begun once, and never left behind."""

import asyncio

import pytest

from steptrail import AgentBuilder, Limits, Steptrail, ToolEffect, tool
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.testing import ScriptedModel, call, say
from steptrail.workflow import BuiltWorkflow, FailureClass, Workflow
from tests.flow.kit import World, run_to_rest
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of


def with_an_agent(world: World, *replies: object, approval: bool = False) -> BuiltWorkflow:
    @tool(effect=ToolEffect.UNSAFE, approval=approval)
    async def act(name: str) -> str:
        """Act."""
        return await world.do(name)

    model = ScriptedModel(list(replies))
    agent = AgentBuilder("critic").with_model(model).with_tools(act).build()
    return (
        Workflow("t")
        .function("plan", lambda _: "cats", output="plan")
        .agent("critic", agent, prompt="What is missing in {{ vars.plan }}?", output="critique")
        .function("end", world.function("end"))
        .chain("plan", "critic", "end")
        .build()
    )


async def child_of(trail: Steptrail) -> str:
    (row,) = [row for row in await trail.runs() if row.parent is not None]
    return row.stream


async def test_an_agent_answers_and_its_bill_is_the_nodes() -> None:
    world, clock = World(), HandClock()
    flow = with_an_agent(world, call("act", name="look"), say("dogs"))
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        tree = await trail.tree("flow:f")
        child = await child_of(trail)
    assert (result.status, result.envelope.vars["critique"]) == (ExecutionStatus.COMPLETED, "dogs")
    assert child.startswith("agent:")
    assert [below.run.stream for below in tree.children] == [child]
    assert result.usage == tree.children[0].usage
    assert result.usage.total > 0
    assert world.done == {"look": 1, "end": 1}


async def test_a_flow_waits_with_its_agent_and_goes_on_when_a_person_has_answered() -> None:
    world, clock = World(), HandClock()
    flow = with_an_agent(world, call("act", name="look"), say("dogs"), approval=True)
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        assert result.status is ExecutionStatus.WAITING
        stream = await child_of(trail)
        session = trail.session(stream.removeprefix("agent:"))
        (approval,) = (await session.state()).open_approvals
        await session.approve(approval.id, by="ana")
        assert "flow:f" in [row.stream for row in await trail.due()]
        result = await trail.flow("f").resume(flow)
        assert result.usage == (await trail.tree("flow:f")).children[0].usage
    assert (result.status, result.envelope.vars["critique"]) == (ExecutionStatus.COMPLETED, "dogs")
    assert world.done == {"look": 1, "end": 1}


@pytest.mark.parametrize("number", range(1, 14))
async def test_a_crash_anywhere_begins_no_second_session(number: int) -> None:
    world, clock = World(), HandClock()
    flow = with_an_agent(world, call("act", name="look"), say("dogs"))
    async with trail_of(clock) as trail:
        try:
            await run_to_rest(again_on(trail, clock, crash_at("before-append", number)), clock, flow)
        except Crash:
            pass
        result = await run_to_rest(trail, clock, flow)
        if result.status is ExecutionStatus.COMPLETED:
            assert result.envelope.vars["critique"] is not None
        assert len([row for row in await trail.runs() if row.parent is not None]) == 1
        assert world.done["look"] == 1


async def test_an_agent_without_an_answer_is_a_failure_of_the_class_child() -> None:
    world, clock = World(), HandClock()
    model = ScriptedModel([call("act", name="x")] * 3)

    @tool
    async def act(name: str) -> str:
        """Act."""
        return await world.do(name)

    agent = AgentBuilder("a").with_model(model).with_tools(act).with_limits(Limits(max_steps=1)).build()
    flow = Workflow("t").agent("a", agent, prompt="go").build()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
    assert result.error is not None
    assert result.error.failure is FailureClass.CHILD
    assert result.error.details["stop_reason"] == "steps_limit"


async def test_a_workflow_in_a_workflow_hands_its_output_on() -> None:
    world, clock = World(), HandClock()
    inner = Workflow("inner").function("double", lambda seen: int(str(seen.input)) * 2).build()
    flow = (
        Workflow("outer")
        .function("n", lambda _: 21, output="n")
        .flow("twice", inner, input="{{ vars.n }}", output="out")
        .chain("n", "twice")
        .build()
    )
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        assert (result.status, result.output) == (ExecutionStatus.COMPLETED, 42)
        assert (await child_of(trail)).startswith("flow:")
    assert not world.done


async def test_a_stop_of_the_flow_stops_what_it_has_begun() -> None:
    world, clock = World(), HandClock()
    world.holds = "look"
    flow = with_an_agent(world, call("act", name="look"), say("dogs"))
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, session="f"))
        await world.entered.wait()
        await trail.flow("f").stop(by="ana")
        result = await running
        assert result.status is ExecutionStatus.STOPPED
        child = await trail.handle(await child_of(trail)).state()
        assert child.is_open is False
    assert world.done == {"look": 1}


async def test_nesting_has_an_end() -> None:
    flow = Workflow("deep").function("f", lambda _: 1).build()
    for level in range(4):
        flow = Workflow(f"level{level}").flow("below", flow).build()
    async with trail_of() as trail:
        result = await trail.run(flow)
    assert result.status is ExecutionStatus.FAILED
