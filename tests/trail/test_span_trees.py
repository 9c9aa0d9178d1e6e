"""The spans of several streams make one tree, although each stream is folded alone."""

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.projections.telemetry.span import Span
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import SubagentTool
from steptrail.workflow import FailureClass, RetryPolicy, Workflow
from tests.flow.kit import World, run_to_rest
from tests.harness.spans import drawn, hold_together, spans_of
from tests.runner.families import asks, boss, look, named
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of


async def all_spans(trail: Steptrail) -> list[Span]:
    spans: list[Span] = []
    for row in await trail.runs():
        spans += spans_of(row.stream, await (await trail.find_any(row.stream)).events())
    hold_together(spans)
    return spans


async def test_an_agent_below_an_agent_below_an_agent_is_in_one_trace() -> None:
    async with trail_of() as trail:
        lowest = named("lowest", call("look"), "42").with_tools(look).build()
        middle = named("middle", asks("lowest", "go"), "It says 42.").with_tools(SubagentTool(lowest)).build()
        await trail.run(boss([SubagentTool(middle)], asks("middle", "go"), "Done.").build(), "go", session="s")
        spans = await all_spans(trail)
    assert len({span.trace_id for span in spans}) == 1
    assert drawn(spans) == [
        "invoke_agent boss",
        "  step 1",
        "    chat scripted",
        "    execute_tool middle",
        "      invoke_agent middle",
        "        step 1",
        "          chat scripted",
        "          execute_tool lowest",
        "            invoke_agent lowest",
        "              step 1",
        "                chat scripted",
        "                execute_tool look",
        "              step 2",
        "                chat scripted",
        "        step 2",
        "          chat scripted",
        "  step 2",
        "    chat scripted",
    ]


@pytest.mark.parametrize("number", range(2, 9))
async def test_a_child_has_its_parent_after_a_crash_anywhere(number: int) -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        child = named("reader", call("look"), "42", "42").with_tools(look).build()
        agent = boss([SubagentTool(child)], asks("reader", "go"), *["Done."] * 3).build()
        try:
            await again_on(trail, clock, crash_at("before-append", number)).run(agent, "go", session="s")
        except Crash:
            await trail.session("s").resume(agent)
        spans = await all_spans(trail)
    calls = {span.span_id for span in spans if span.name == "execute_tool reader"}
    below = [span for span in spans if span.name == "invoke_agent reader"]
    assert {span.parent_id for span in below} <= calls
    assert len({span.trace_id for span in spans}) == 1


async def test_a_stream_that_a_node_begins_anew_stands_below_the_try_that_began_it() -> None:
    world, clock = World(), HandClock()
    policy = RetryPolicy(max_attempts=2, retry_on=(FailureClass.CHILD,))
    turns = iter([call("act", name="x"), say("dogs")])
    agent = AgentBuilder("a").with_model(ScriptedModel([lambda _: next(turns)])).with_tools(world.tool())
    flow = Workflow("t").agent("below", agent.with_max_steps(1).build(), prompt="go", retry=policy).build()
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow)
        spans = await all_spans(trail)
    tries = sorted((span for span in spans if span.name == "try below"), key=lambda span: span.start)
    below = sorted((span for span in spans if span.name == "invoke_agent a"), key=lambda span: span.start)
    assert [span.parent_id for span in below] == [span.span_id for span in tries]
    assert len(tries) == 2
    assert len({span.trace_id for span in spans}) == 1


async def test_a_stream_that_a_retried_run_goes_on_with_stays_below_the_try_that_began_it() -> None:
    world, clock = World(), HandClock()
    world.fails["x"] = [RuntimeError("no"), None]
    inner = Workflow("inner").function("x", world.function("x")).build()
    flow = Workflow("t").flow("below", inner).build()
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow)
        await trail.flow("f").retry(flow)
        spans = await all_spans(trail)
    tries = sorted((span for span in spans if span.name == "try below"), key=lambda span: span.start)
    below = [span for span in spans if span.name == "invoke_workflow inner"]
    assert len(tries) == len(below) == 2
    assert {span.parent_id for span in below} == {tries[0].span_id}
    assert {span.trace_id for span in below} == {tries[0].trace_id}
