"""The tries of a node that runs a stream below: which of them go on with the stream, and which count."""

import pytest
from pydantic import BaseModel

from steptrail import AgentBuilder, Limits
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.models import ModelReply, ModelRequest, Usage
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import SubagentTool
from steptrail.workflow import Budget, Envelope, FailureClass, FlowTool, RetryPolicy, RunOptions, Workflow
from tests.flow.kit import World, run_to_rest
from tests.runner.kit import HandClock, trail_of


async def test_an_agent_that_was_looked_after_twice_and_failed_once_has_used_up_no_tries() -> None:
    world, clock = World(), HandClock()
    asking = AgentBuilder("below").with_model(ScriptedModel([call("act", name="a"), RuntimeError("no")]))
    below = asking.with_tools(world.tool(approval=True)).with_limits(Limits(longest_wait=0.0)).build()
    once = RetryPolicy(max_attempts=1, retry_on=(FailureClass.CHILD,))
    flow = Workflow("t").agent("ask", below, prompt="go", retry=once).build()
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow)
        (asked,) = await trail.inbox()
        await trail.session(asked.stream.partition(":")[2]).approve(asked.id, by="ana")
        result = await trail.flow("f").resume(flow)
        why = await trail.flow("f").why()
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.ERROR)
    assert result.error is not None
    assert (result.error.attempt, "came to no answer" in result.error.message) == (1, True)
    assert "attempts" not in result.error.message + why.verdict
    assert len(why.attempts) == 2


async def test_a_child_that_was_looked_after_and_failed_twice_was_tried_twice() -> None:
    world, clock = World(), HandClock()
    asking = AgentBuilder("below").with_model(ScriptedModel([call("act", name="a"), RuntimeError("no")]))
    below = asking.with_tools(world.tool(approval=True)).with_limits(Limits(longest_wait=0.0)).build()
    twice = RetryPolicy(max_attempts=2, retry_on=(FailureClass.CHILD,))
    flow = Workflow("t").agent("ask", below, prompt="go", retry=twice).build()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        for _ in range(2):
            (asked,) = await trail.inbox()
            await trail.session(asked.stream.partition(":")[2]).approve(asked.id, by="ana")
            await trail.flow("f").resume(flow)
            result = await run_to_rest(trail, clock, flow)
        assert len((await trail.flow("f").why()).attempts) == 4
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.RETRY_LIMIT)
    assert result.error is not None
    assert result.error.attempt == 2
    assert 'agent "ask" failed after 2 attempts: ' in result.error.message


async def test_a_try_that_succeeded_beyond_its_budget_is_one_of_those_after_which_its_node_failed() -> None:
    model, clock = ScriptedModel([ConnectionError("away"), say("dear", usage=Usage(input=10))]), HandClock()
    again, few = RetryPolicy(max_attempts=2, retry_on=(FailureClass.UNAVAILABLE,)), Budget(max_input_tokens=1)
    flow = Workflow("t").llm("ask", model, prompt="go", retry=again, budget=few).build()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
    assert result.error is not None
    assert (result.error.failure, result.error.attempt) == (FailureClass.BUDGET, 2)


@pytest.mark.parametrize("kind", ["flow", "map", "agent"])
@pytest.mark.parametrize(
    ("given", "begun", "parsed"),
    [
        ({"items": ["good"]}, 2, ["bad", "good"]),
        ({"items": ["bad"]}, 1, ["bad"]),
        ({"other": 1}, 1, ["bad"]),
    ],
)
async def test_a_retry_begins_a_stream_anew_where_a_person_has_changed_what_it_is_given(
    kind: str, given: dict[str, JsonValue], begun: int, parsed: list[str]
) -> None:
    asked, failures = list[JsonValue](), [RuntimeError("no")]

    def parse(envelope: Envelope) -> None:
        given: JsonValue = envelope.input
        asked.extend(given if isinstance(given, list) else [given])

    def end(_: object) -> str:
        if failures:
            raise failures.pop()
        return "done"

    def reply(request: ModelRequest) -> ModelReply:
        return say(end(request))

    below = Workflow("below").function("parse", parse).function("end", end).chain("parse", "end").build()
    agent = AgentBuilder("below").with_model(ScriptedModel([reply] * 2)).build()
    top = Workflow("t", options=RunOptions(pause_before=("n",)))
    match kind:
        case "flow":
            top.flow("n", below, input="{{ vars.items }}")
        case "map":
            top.map("n", over="items", flow=below, input="{{ item }}")
        case _:
            top.agent("n", agent, prompt="{{ vars.items }}")
    flow = top.build()
    async with trail_of() as trail:
        held = trail.flow("f")
        await trail.run(flow, session="f", vars={"items": ["bad"]})
        await held.step("n", "continue", by="ana")
        assert (await held.resume(flow)).status is ExecutionStatus.FAILED
        assert (await held.retry(flow)).status is ExecutionStatus.WAITING
        await held.step("n", "continue", set=given, by="ana")
        assert (await held.resume(flow)).status is ExecutionStatus.COMPLETED
        assert len(await trail.runs()) == 1 + begun
    assert asked == ([] if kind == "agent" else parsed)


async def test_a_retried_map_that_is_skipped_may_be_left_with_a_shorter_list() -> None:
    below = Workflow("below").gate("g", when="input.ok").build()
    top = Workflow("t", options=RunOptions(pause_before=("n",))).map("n", over="items", flow=below, input="{{ item }}")
    flow = top.build()
    async with trail_of() as trail:
        held = trail.flow("f")
        await trail.run(flow, session="f", vars={"items": [{"ok": False}, {"ok": False}]})
        await held.step("n", "continue", by="ana")
        assert (await held.resume(flow)).status is ExecutionStatus.FAILED
        assert (await held.retry(flow)).status is ExecutionStatus.WAITING
        await held.step("n", "skip", set={"items": []}, by="ana")
        assert (await held.resume(flow)).status is ExecutionStatus.COMPLETED


@pytest.mark.parametrize("edited", [0, 1])
async def test_a_retry_begins_a_stream_anew_where_a_person_has_edited_the_arguments_of_its_tool(edited: int) -> None:
    class Asked(BaseModel):
        text: str

    world, asked = World(), list[JsonValue]()
    world.fails["end"] = [RuntimeError("no")]
    below = (
        Workflow("below")
        .function("parse", lambda envelope: asked.append(envelope.input["text"]))
        .function("end", world.function("end"))
        .chain("parse", "end")
        .build()
    )
    called = FlowTool(below, parameters=Asked, approval=True)
    flow = Workflow("t").tool("n", called, args={"text": "as written"}, retry=1).build()
    said: list[dict[str, JsonValue] | None] = [None, None]
    said[edited] = {"text": "edited"}
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").approve((await trail.inbox())[0].id, by="ana", arguments=said[0])
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.FAILED
        await trail.flow("f").retry(flow)
        await trail.flow("f").approve((await trail.inbox())[0].id, by="ana", arguments=said[1])
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.COMPLETED
    assert asked == (["as written", "edited"] if edited else ["edited", "as written"])


@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_what_a_tool_runs_below_is_not_run_again_when_it_came_to_no_answer(kind: str) -> None:
    model = ScriptedModel([call("unknown"), call("unknown"), call("unknown")])
    agent = AgentBuilder("below").with_model(model).build()
    below = Workflow("below").agent("ask", agent, prompt="x").build()
    tool, args = (SubagentTool(agent), {"prompt": "x"}) if kind == "agent" else (FlowTool(below), dict[str, str]())
    flow, clock = Workflow("t").tool("n", tool, args=args).build(), HandClock()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
    assert result.error is not None
    assert (result.error.failure, result.error.attempt, len(model.requests)) == (FailureClass.CHILD, 1, 1)
