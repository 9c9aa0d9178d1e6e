"""A workflow as a tool of an agent: begun once, at rest with it, never left behind, and billed."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel, field_validator

from steptrail import Agent, AgentBuilder, ErrorPolicy, Limits, RunResult, Steptrail, ToolEffect
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import ConfigurationError
from steptrail.models import Usage
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.testing import Reply, ScriptedModel, call, calls, say
from steptrail.tools import SubagentTool
from steptrail.workflow import BuiltWorkflow, Envelope, FlowTool, NodeContext, RunOptions, Workflow
from tests.flow.kit import World
from tests.runner.kit import Crash, HandClock, again_on, crash_at, slowly, trail_of

BILLED = say("gladly", usage=Usage(output=5))
FIRST = session_for_call("s:1:1:0")
"""The run of the first call."""


class Order(BaseModel):
    number: int = Field(description="the number of the order", gt=0)
    note: str = Field(default="none", alias="theNote")


def boss(tool: FlowTool | SubagentTool, *replies: Reply, limits: Limits | None = None) -> Agent:
    model, policy = ScriptedModel([*replies]), ErrorPolicy.retry_all(3)
    builder = AgentBuilder("boss").with_model(model).with_tools(tool).with_error_policy(policy)
    return (builder if limits is None else builder.with_limits(limits)).build()


def shipping(world: World) -> BuiltWorkflow:
    act = world.tool(ToolEffect.KEYED)
    return (
        Workflow("ship order", result="out")
        .llm("say", ScriptedModel([BILLED] * 9), prompt="{{ input.number }}")
        .tool("pack", act, args={"name": "pack {{ input.number }} {{ input.theNote }}"}, retry=1, output="out")
        .chain("say", "pack")
        .build()
    )


def asking(world: World, **options: object) -> BuiltWorkflow:
    return (
        Workflow("ask", result="out")
        .human("ask", prompt="Ship?", output="said", **options)  # type: ignore[arg-type]
        .tool("pack", world.tool(), args={"name": "pack"}, output="out")
        .chain("ask", "pack")
        .build()
    )


def shown(result: RunResult[Any]) -> list[str]:
    parts = [part for message in result.state.messages if message.is_tool() for part in message.parts]
    return [part.text for part in parts if part.kind == "tool_result"]


async def below(trail: Steptrail) -> list[str]:
    return [row.stream for row in await trail.runs() if row.parent is not None]


async def test_the_arguments_are_the_input_and_the_output_is_the_result() -> None:
    world = World()
    tool = FlowTool(shipping(world), description="Ship an order.", parameters=Order)
    assert (tool.spec.name, tool.spec.effect, tool.spec.runs_children) == ("ship_order", ToolEffect.IDEMPOTENT, "flow")
    assert tool.spec.parameters["required"] == ["number"]
    async with trail_of() as trail:
        result = await trail.run(boss(tool, call("ship_order", number=7), "Done."), "go", session="s")
        child = await trail.flow(FIRST).state()
        tree = await trail.tree("s")
    assert result.output == "Done."
    assert shown(result) == ["pack 7 none is done"]
    assert child.run is not None
    assert child.run.started.input == {"number": 7, "theNote": "none"}
    assert child.usage.total == 5
    assert [each.run.stream for each in tree.children] == [f"flow:{FIRST}"]
    assert result.usage.total >= 5
    assert child.parent is not None
    assert child.parent.stream == "agent:s"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({}, "Missing required parameters: number"), ({"number": -1}, "greater than 0"), ({"number": "x"}, "integer")],
)
async def test_arguments_that_do_not_fit_begin_nothing(arguments: dict[str, JsonValue], said: str) -> None:
    world = World()
    tool = FlowTool(shipping(world), parameters=Order)
    async with trail_of() as trail:
        result = await trail.run(boss(tool, calls(("ship_order", arguments)), "Done."), "go", session="s")
        assert await below(trail) == []
    assert said in shown(result)[0]
    assert not world.done


async def test_a_validator_that_breaks_is_a_failed_call() -> None:
    class Broken(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def check(cls, value: int) -> int:
            raise RuntimeError("out of order")

    tool = FlowTool(shipping(World()), parameters=Broken)
    async with trail_of() as trail:
        result = await trail.run(boss(tool, call("ship_order", number=1), "Done."), "go", session="s")
    assert "out of order" in shown(result)[0]


def test_what_makes_no_tool_is_refused() -> None:
    class Numbers(RootModel[list[int]]):
        pass

    flow = shipping(World())
    with pytest.raises(ConfigurationError, match="named fields"):
        FlowTool(flow, parameters=Numbers)
    with pytest.raises(ConfigurationError, match="makes no tool"):
        FlowTool(flow, name="no name")
    with pytest.raises(ConfigurationError, match=r"`max_depth` of workflow .* is a number from 1 to"):
        FlowTool(flow, max_depth=0)
    with pytest.raises(ConfigurationError, match="build"):
        FlowTool(Workflow("a").noop("a"))  # type: ignore[arg-type]
    assert FlowTool(flow).spec.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


async def test_a_workflow_that_fails_is_a_failed_call_with_the_message_of_its_node() -> None:
    world = World()
    world.breaks["pack 7 none"] = RuntimeError("no paper left")
    tool = FlowTool(shipping(world), parameters=Order)
    async with trail_of() as trail:
        result = await trail.run(boss(tool, call("ship_order", number=7), "Sorry."), "go", session="s")
        verdict = (await trail.flow(FIRST).why()).verdict
    (said,) = shown(result)
    assert result.output == "Sorry."
    assert verdict in said
    assert "no paper left" in said
    assert f"flow:{FIRST}" in said


@pytest.mark.acceptance("7.2-7")
async def test_a_question_of_the_flow_rests_the_agent_and_a_worker_carries_it_on() -> None:
    world, clock = World(), HandClock()
    agent = boss(FlowTool(asking(world)), call("ask"), "Done.")
    async with trail_of(clock) as trail:
        waiting = await trail.run(agent, "go", session="s")
        assert waiting.status is ExecutionStatus.WAITING
        assert (await trail.session("s").why()).waits_for == f"flow:{FIRST}, which is waiting (human)"
        assert await trail.due() == []
        assert (await again_on(trail, clock).session("s").resume(agent)).status is ExecutionStatus.WAITING
        assert [each.stream for each in await trail.inbox()] == [f"flow:{FIRST}"]
        await again_on(trail, clock).flow(FIRST).answer("ask", approved=True, by="ana")
        assert "agent:s" in [row.stream for row in await trail.due()]
        async with asyncio.timeout(30), again_on(trail, clock).work(agent):
            while (state := await trail.session("s").state()).is_open:
                await asyncio.sleep(0.01)
        assert await below(trail) == [f"flow:{FIRST}"]
    assert (state.output, world.done) == ("Done.", {"pack": 1})


async def test_a_question_that_expires_brings_the_agent_on() -> None:
    clock = HandClock()
    agent = boss(FlowTool(asking(World(), expires=600.0, on_timeout="fail")), call("ask"), "Nobody said yes.")
    async with trail_of(clock) as trail:
        await trail.run(agent, "go", session="s")
        clock.advance(1000.0)
        assert {row.stream for row in await trail.due()} == {"agent:s", f"flow:{FIRST}"}
        result = await trail.session("s").resume(agent)
    assert result.output == "Nobody said yes."


async def test_a_stop_of_an_agent_that_waits_stops_the_flow() -> None:
    agent = boss(FlowTool(asking(World())), call("ask"), "Done.")
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        await again_on(trail).session("s").stop(by="ops")
        child = await trail.flow(FIRST).state()
    assert child.status is ExecutionStatus.STOPPED


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.usefixtures("soon")
async def test_a_stop_or_a_cancellation_while_the_flow_works_goes_down_to_it(stops: bool) -> None:
    world = World()
    world.holds = "pack 7 none"
    flow = shipping(world)
    tool = FlowTool(flow, parameters=Order)
    agent = boss(tool, call("ship_order", number=7), "Done.", limits=Limits(stop_grace=0.1))
    async with trail_of() as trail:
        running = asyncio.create_task(trail.run(agent, "go", session="s"))
        await world.entered.wait()
        if stops:
            await again_on(trail).session("s").stop(by="ops")
            result = await running
            assert result.state.stop_reason == "user_requested"
            assert result.state.steps[0].tool_executions[0].status == "interrupted"
            assert result.usage.total >= 5
        else:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        child = await trail.flow(FIRST).state()
        assert child.is_open is not stops
        if not stops:
            world.holds = None
            assert (await again_on(trail).session("s").resume(agent)).output == "Done."
    assert world.done == {"pack 7 none": 1 if stops else 2}


async def test_a_flow_that_is_out_of_time_is_a_call_that_timed_out() -> None:
    clock = HandClock()

    def slow(_: object) -> int:
        clock.advance(30.0)
        return 1

    flow = Workflow("slow").function("a", slow).function("b", slow).chain("a", "b").build()
    async with trail_of(clock) as trail:
        agent = boss(FlowTool(flow, timeout=10.0), slowly(clock, 1.0, call("slow")), "Too slow.")
        result = await trail.run(agent, "go", session="s")
    assert "did not end within its time" in shown(result)[0]


@pytest.mark.parametrize("point", ["before-append", "after-append"])
async def test_a_crash_anywhere_begins_no_second_run_and_repeats_nothing(point: str) -> None:
    number = 0
    while True:
        number += 1
        world, clock = World(), HandClock()
        flow = shipping(world)
        async with trail_of(clock) as trail:

            def reply(request: ModelRequest) -> ModelReply:
                asked = any(message.is_tool() for message in request.messages)
                return say("Done.") if asked else call("ship_order", number=7)

            agent = boss(FlowTool(flow, parameters=Order), *[reply] * 5)
            try:
                await again_on(trail, clock, crash_at(point, number)).run(agent, "go", session="s")
                break
            except Crash:
                clock.advance(60.0)
            result = await again_on(trail, clock).run(agent, "go", session="s")
            streams = await below(trail)
            child, _ = await fold_stream(FLOW, trail.store, streams[0])
            assert (result.output, len(streams)) == ("Done.", 1), number
            assert world.done["pack 7 none"] <= 2, number
            assert result.usage.total >= child.usage.total > 0, number
    assert number > 6


async def test_nesting_of_both_kinds_has_an_end() -> None:
    flow = Workflow("deep").function("f", lambda _: 1, output="f").build()
    agent = boss(FlowTool(flow), call("deep"), "1")
    for level in range(4):
        tool = FlowTool(Workflow(f"level{level}").agent("below", agent, prompt="go", output="f").build())
        agent = boss(tool, call(f"level{level}"), f"level {level}")
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        depths = [row.parent.depth for row in await trail.runs() if row.parent is not None]
    assert max(depths) == 3


async def test_a_workflow_has_a_tool_that_is_a_workflow() -> None:
    world = World()
    tool = FlowTool(shipping(world), parameters=Order)
    flow = Workflow("outer").tool("ship", tool, args={"number": 7}, output="out", timeout=None).build()
    async with trail_of() as trail:
        result = await trail.run(flow, session="f")
        assert (await below(trail))[0].startswith("flow:child-")
        assert result.usage.total == 5
    assert result.envelope.vars["out"] == "pack 7 none is done"


async def test_the_run_is_told_what_the_agent_was_told() -> None:
    class Caller(BaseModel):
        name: str

    def named(seen: Envelope, node: NodeContext) -> str:
        return f"for {node.context}"

    flow = Workflow("who").function("who", named, output="who").build()
    model = ScriptedModel([call("who"), "Done."])
    agent = AgentBuilder("boss").with_model(model).with_tools(FlowTool(flow)).with_context(Caller).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "go", session="s", context=Caller(name="ana"))
    assert shown(result) == ["for {'name': 'ana'}"]


async def test_recorded_errors_of_a_flow_fail_no_call() -> None:
    world = World()
    world.breaks["pack"] = RuntimeError("no")
    written = Workflow("some", options=RunOptions(continue_on_error=True))
    flow = written.tool("pack", world.tool(), args={"name": "pack"}, retry=1, output="out").build()
    async with trail_of() as trail:
        result = await trail.run(boss(FlowTool(flow), call("some"), "Done."), "go", session="s")
    assert (result.output, shown(result)) == ("Done.", ["null"])


async def test_a_tree_counts_what_is_below_a_workflow_once() -> None:
    """A try that runs a stream is told the whole bill of that, which is none of the workflow's own."""
    inner = shipping(World())
    outer = (
        Workflow("outer")
        .llm("own", ScriptedModel([BILLED]), prompt="hello")
        .flow("flow", inner, input={"number": 1, "theNote": "none"})
        .tool("tool", FlowTool(inner, parameters=Order), args={"number": 2})
        .agent("agent", AgentBuilder("a").with_model(ScriptedModel([BILLED])).build(), prompt="go")
        .chain("own", "flow", "tool", "agent")
        .build()
    )
    async with trail_of() as trail:
        result = await trail.run(outer, session="f")
        tree = await trail.tree("flow:f")
    assert (tree.own_usage.total, tree.usage.total, result.usage.total) == (5, 20, 20)
    assert [each.usage.total for each in tree.children] == [5, 5, 5]
