"""Nodes with two settings that meet: each of them holds as it does alone."""

import asyncio
from typing import Any

import pytest

from steptrail import AgentBuilder, ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import StopReason
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SubagentTool, ToolRetry
from steptrail.workflow import Budget, Cache, FailureClass, FlowTool, RetryPolicy, RunOptions, Workflow
from tests.flow.kit import LEAVES, World, run_to_rest
from tests.runner.kit import HandClock, trail_of

INVALID_AGAIN = RetryPolicy(max_attempts=5, backoff=0.0, retry_on=(FailureClass.VALIDATION,))


async def test_a_map_whose_items_wait_for_people_takes_no_place_of_those_that_run() -> None:
    world = World()
    flow = (
        Workflow("t")
        .map("m", over="input", tool=world.tool(approval=True), args={"name": "{{ item }}"})
        .function("beside", world.function("beside"))
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, ["a", "b"], session="f", options=RunOptions(concurrency=1, longest_wait=0.0))
        assert [question.node for question in await trail.inbox()] == ["m"]
    assert world.done == {"beside": 1}


@pytest.mark.parametrize("edited", [0, 1])
async def test_a_cache_holds_nothing_of_arguments_that_a_person_has_made(edited: int) -> None:
    world = World()
    act = world.tool(approval=True)
    flow = Workflow("t").map("m", over="items", tool=act, args={"name": "a"}, cache=Cache(), output="all").build()
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": ["x", "x"]}, session="f", options=LEAVES)
        for place in range(2):
            (question,) = await trail.inbox()
            arguments: dict[str, JsonValue] | None = {"name": "b"} if place == edited else None
            await trail.flow("f").approve(question.id, by="ana", arguments=arguments)
            await trail.flow("f").resume(flow)
        state = await trail.flow("f").state()
    assert state.output == (["b is done", "a is done"] if edited == 0 else ["a is done", "b is done"])


@pytest.mark.parametrize("of", ["budget", "item_budget"])
async def test_a_node_is_not_tried_again_beyond_its_budget(of: str) -> None:
    model, budget = ScriptedModel(["no object"] * 5), {of: Budget(max_total_tokens=20)}
    asked: dict[str, Any] = {"prompt": "x", "schema": {"type": "object"}, "retry": INVALID_AGAIN, **budget}
    if of == "budget":
        written = Workflow("t").llm("a", model, **asked)
    else:
        written = Workflow("t").map("a", over="input", model=model, **asked)
    async with trail_of() as trail:
        result = await trail.run(written.build(), ["x"], session="f")
    assert (len(model.requests), result.stop_reason) == (2, StopReason.TOKEN_LIMIT)
    assert result.error is not None
    assert (result.error.failure, result.error.attempt, result.error.details["actual"]) == ("budget", 2, "30")


async def test_what_an_item_has_used_in_its_first_try_is_not_lent_to_the_stream_of_its_next() -> None:
    model = ScriptedModel(["no object"] * 2)
    below = Workflow("below").llm("a", model, prompt="x", schema={"type": "object"}).build()
    again = RetryPolicy(max_attempts=2, backoff=0.0, retry_on=(FailureClass.CHILD,))
    flow = Workflow("t").map("m", over="input", flow=below, retry=again, item_budget=Budget(max_total_tokens=100))
    async with trail_of() as trail:
        await trail.run(flow.build(), ["x"], session="f")
        children = [await trail.flow(row.session_id).state() for row in await trail.runs() if row.parent is not None]
    lent = [child.run.options.budget for child in children if child.run is not None]
    assert sorted(budget.max_total_tokens or 0 for budget in lent if budget is not None) == [85, 100]


@pytest.mark.parametrize(
    ("failures", "timeout", "reason"),
    [
        ([ConnectionError("away")] * 3, None, StopReason.RETRY_LIMIT),
        ([ConnectionError("away"), ValueError("declined")], None, StopReason.ERROR),
        ([ConnectionError("away")] * 2, 2.5, StopReason.ERROR),
    ],
)
@pytest.mark.parametrize("is_item", [False, True])
async def test_a_run_has_met_its_limit_of_retries_where_the_tries_of_a_node_or_an_item_are_used_up(
    failures: list[BaseException | None], timeout: float | None, reason: StopReason, is_item: bool
) -> None:
    world, clock, written = World(), HandClock(), Workflow("t")
    world.fails["a"] = [*failures]

    @tool(effect=ToolEffect.IDEMPOTENT, retry=ToolRetry(), retry_on=(ConnectionError,))
    async def act() -> str:
        """Act."""
        return await world.do("a")

    again = RetryPolicy(max_attempts=3, backoff=1.0)
    if is_item:
        written.map("m", over="input", tool=act, retry=again, timeout=timeout)
    else:
        written.tool("m", act, retry=again, timeout=timeout)
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, written.build(), ["x"])
    assert (result.stop_reason, world.done["a"]) == (reason, len(failures))


async def test_a_try_that_was_cut_off_by_a_pause_is_none_of_those_of_its_node() -> None:
    world, clock = World(), HandClock()
    world.holds = "a"
    world.fails["a"] = [ConnectionError("away"), None]
    flow = Workflow("t").function("a", world.function("a"), retry=RetryPolicy(max_attempts=2, backoff=0.0)).build()
    async with trail_of(clock) as trail:
        running = asyncio.ensure_future(trail.run(flow, session="f"))
        await world.entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        world.gate.set()
        result = await run_to_rest(trail, clock, flow)
    assert (result.status.value, world.done["a"]) == ("completed", 3)


@pytest.mark.parametrize("kind", ["agent", "flow"])
@pytest.mark.parametrize("of", ["node", "run"])
async def test_what_the_tool_of_a_node_runs_below_may_use_no_more_than_the_budget_leaves(kind: str, of: str) -> None:
    model = ScriptedModel([call("look")] * 9)

    @tool(effect=ToolEffect.READ)
    def look() -> str:
        """Look."""
        return "nothing"

    agent, budget = AgentBuilder("below").with_model(model).with_tools(look).build(), Budget(max_total_tokens=40)
    below = Workflow("below").agent("ask", agent, prompt="x").build()
    runs, args = (SubagentTool(agent), {"prompt": "x"}) if kind == "agent" else (FlowTool(below), dict[str, str]())
    settings: dict[str, Any] = {"budget": budget} if of == "node" else {}
    flow = Workflow("t").tool("n", runs, args=args, **settings).build()
    options = RunOptions(budget=budget if of == "run" else None)
    async with trail_of() as trail:
        result = await trail.run(flow, session="f", options=options)
    assert (result.status.value, len(model.requests)) == ("failed", 3)
