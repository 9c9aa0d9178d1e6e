"""Nodes beside each other: how many run, what is cut off when one fails, loops, maps, and the limits of a run."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from steptrail import Steptrail
from steptrail.domain.flow.events import CutReason, LimitReached, NodeAttemptInterrupted, NodeCancelled, NodeOpened
from steptrail.domain.inference import ModelReply
from steptrail.domain.shared.due import DueCause
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.testing import ScriptedModel, say
from steptrail.workflow import (
    Budget,
    BuiltWorkflow,
    Envelope,
    FailureClass,
    NodeContext,
    RetryPolicy,
    Rule,
    RunOptions,
    Update,
    Workflow,
)
from tests.flow.kit import LEAVES, World, events_of, run_to_rest
from tests.runner.kit import HandClock, trail_of


def fan(world: World, width: int) -> BuiltWorkflow:
    flow = Workflow("fan").noop("start")
    for number in range(width):
        flow.function(f"n{number}", world.function(f"n{number}"))
    names = [f"n{number}" for number in range(width)]
    return flow.noop("end").edge("start", *names).edge(tuple(names), "end").build()


@pytest.mark.parametrize("concurrency", [1, 3, 8])
async def test_no_more_nodes_run_at_once_than_they_may_and_all_do(concurrency: int) -> None:
    at_once = most = 0

    async def busy(_: object) -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        at_once -= 1
        return 1

    flow = Workflow("fan").noop("start")
    names = [f"n{number}" for number in range(20)]
    for name in names:
        flow.function(name, busy)
    built = flow.noop("end").edge("start", *names).edge(tuple(names), "end").build()
    async with trail_of() as trail:
        result = await trail.run(built, options=RunOptions(concurrency=concurrency))
    assert result.status is ExecutionStatus.COMPLETED
    assert most == concurrency
    assert set(result.envelope.vars) == {f"{name}_output" for name in names}


@pytest.mark.acceptance("7.2-2")
async def test_a_failure_cuts_off_its_siblings_and_a_retry_goes_on_with_them() -> None:
    world, clock = World(), HandClock()
    world.holds = "slow"
    flow = (
        Workflow("t")
        .noop("start")
        .function("slow", world.function("slow"))
        .function("ill", world.function("ill"))
        .function("well", world.function("well"))
        .function("end", world.function("end"))
        .edge("start", "slow", "ill", "well")
        .edge(("slow", "ill", "well"), "end")
        .build()
    )
    world.fails["ill"] = [RuntimeError("no")]
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f")
        events = await events_of(trail)
        assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.ERROR)
        cut = [event for event in events if isinstance(event, NodeAttemptInterrupted)]
        assert [(event.node, event.reason) for event in cut] == [("slow", CutReason.SIBLING)]
        assert [event.node for event in events if isinstance(event, NodeCancelled)] == ["slow"]
        world.holds = None
        result = await trail.flow("f").retry(flow)
    assert result.status is ExecutionStatus.COMPLETED
    assert world.done == {"slow": 2, "ill": 2, "well": 1, "end": 1}


@pytest.mark.usefixtures("soon")
async def test_a_stop_ends_as_stopped_and_a_retry_goes_on() -> None:
    world, clock = World(), HandClock()
    world.holds = "slow"
    flow = (
        Workflow("t")
        .function("slow", world.function("slow"))
        .function("end", world.function("end"))
        .chain("slow", "end")
        .build()
    )
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, session="f"))
        await world.entered.wait()
        await trail.flow("f").stop(by="ana", reason="enough")
        result = await running
        assert (result.status, result.stop_reason) == (ExecutionStatus.STOPPED, StopReason.USER_REQUESTED)
        assert "by ana: enough" in (await trail.flow("f").why()).verdict
        world.holds = None
        assert (await trail.flow("f").retry(flow)).status is ExecutionStatus.COMPLETED
    assert world.done == {"slow": 2, "end": 1}


@pytest.mark.acceptance("7.2-3")
async def test_the_cap_of_visits_is_said_and_is_no_silence() -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .function("a", world.function("a"))
        .rule_router("again", [Rule(lambda _: True, to="a")])
        .noop("done")
        .chain("a", "again", "done")
        .edge("again", "a", loop=True)
        .build()
    )
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f", options=RunOptions(max_visits=4))
        (limit,) = [event for event in await events_of(trail) if isinstance(event, LimitReached)]
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.STEPS_LIMIT)
    assert (limit.limit, limit.node, limit.at_most, limit.actual) == ("max_visits", "a", "4", "5")
    assert world.done["a"] == 4


@pytest.mark.parametrize("on_item_error", ["record", "fail"])
async def test_a_map_keeps_the_order_of_its_list_and_says_which_items_failed(on_item_error: str) -> None:
    world, clock = World(), HandClock()
    world.breaks["y"] = RuntimeError("no y")
    flow = (
        Workflow("t")
        .function("names", lambda _: ["x", "y", "z"], output="names")
        .map(
            "each",
            over="names",
            tool=world.tool(),
            args={"name": "{{ item }}"},
            concurrency=2,
            on_item_error=on_item_error,  # type: ignore[arg-type]
            retry=1,
            output="all",
        )
        .chain("names", "each")
        .build()
    )
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
    if on_item_error == "record":
        assert result.output == ["x is done", None, "z is done"]
        assert [(error.node_id, error.item, error.message) for error in result.errors] == [("each", 1, "no y")]
        assert result.status is ExecutionStatus.COMPLETED
    else:
        assert result.error is not None
        assert (result.error.item, result.error.failure) == (1, FailureClass.TOOL)


@pytest.mark.parametrize("listed", [None, "text", {"a": 1}])
async def test_a_map_over_what_is_no_list_is_a_failure_of_the_class_validation(listed: object) -> None:
    flow = (
        Workflow("t")
        .function("names", lambda _: listed, output="names")
        .map("each", over="names", function=lambda _: 1)
        .chain("names", "each")
        .build()
    )
    async with trail_of() as trail:
        result = await trail.run(flow)
    assert result.error is not None
    assert result.error.failure is FailureClass.VALIDATION


async def test_a_map_over_an_empty_list_is_an_empty_list() -> None:
    flow = (
        Workflow("t")
        .function("names", lambda _: [], output="names")
        .map("each", over="names", function=lambda _: 1)
        .chain("names", "each")
        .build()
    )
    async with trail_of() as trail:
        assert (await trail.run(flow)).output == []


async def test_a_timeout_of_the_run_ends_it_and_cuts_off_what_runs() -> None:
    async def never(_: object) -> None:
        await asyncio.Event().wait()

    flow = Workflow("t").function("a", never).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, options=RunOptions(timeout=0.1))
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.TIME_LIMIT)


async def test_a_node_that_is_out_of_time_is_a_failure_of_its_own() -> None:
    async def never(_: object) -> None:
        await asyncio.Event().wait()

    flow = Workflow("t").function("a", never, timeout=0.02, on_error="continue", output="a").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow)
    assert [error.failure for error in result.errors] == [FailureClass.TIMEOUT]
    assert result.envelope.vars["a"] is None


def model(text: str = "an answer") -> ScriptedModel:
    reply: ModelReply = say(text)
    return ScriptedModel([reply] * 5)


async def test_a_model_is_asked_and_its_usage_is_kept_and_charged_before_it_is_judged() -> None:
    flow = Workflow("t").llm("a", model(), prompt="About {{ input.topic }}", output="text").build()
    tight = (
        Workflow("t2").llm("a", model(), prompt="x", budget=Budget(max_total_tokens=1), retry=1, output="text").build()
    )
    async with trail_of() as trail:
        result = await trail.run(flow, {"topic": "cats"})
        assert result.output == "an answer"
        assert result.usage.total > 1
        assert "text_usage" in result.envelope.vars
        result = await trail.run(tight)
    assert result.error is not None
    assert (result.error.failure, result.stop_reason) == (FailureClass.BUDGET, StopReason.TOKEN_LIMIT)
    assert result.usage.total > 1
    assert "text" not in result.envelope.vars


@pytest.mark.parametrize("value", ["NaN", "1e999", '"\\ud800"', "9" * 5000, "[" * 100_000], ids=lambda value: value[:9])
async def test_an_answer_that_cannot_be_kept_is_charged_and_is_no_json(value: str) -> None:
    scripted = model(f'{{"a": {value}}}')
    flow = Workflow("t").llm("a", scripted, prompt="x", schema={"type": "object"}, retry=1, output="said").build()
    async with trail_of() as trail:
        result = await trail.run(flow)
    assert result.error is not None
    assert (result.error.failure, len(scripted.requests)) == (FailureClass.VALIDATION, 1)
    assert "the answer is no JSON: " in str(result.error.error)
    assert result.usage.total == 15


@pytest.mark.parametrize("sure", ["NaN", "1e999", "9" * 400, '"very"', "null"], ids=lambda value: value[:9])
async def test_a_choice_counts_however_odd_it_says_how_sure_it_is(sure: str) -> None:
    scripted, routes = model(f'{{"label": "left", "confidence": {sure}}}'), {"left": "x", "right": "y"}
    flow = Workflow("t").llm_router("a", scripted, prompt="x", routes=routes, retry=1, output="chosen")
    async with trail_of() as trail:
        result = await trail.run(flow.noop("x").noop("y").edge("a", "x", "y").build())
    assert result.status is ExecutionStatus.COMPLETED
    chosen = result.envelope.vars["chosen"]
    assert chosen == {"targets": ["x"], "label": "left", "reason": "left"}
    assert (result.usage.total, len(scripted.requests)) == (15, 1)


async def test_a_budget_of_the_run_ends_it() -> None:
    flow = Workflow("t").llm("a", model(), prompt="x").noop("b").chain("a", "b").build()
    async with trail_of() as trail:
        result = await trail.run(flow, options=RunOptions(budget=Budget(max_total_tokens=1)))
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.TOKEN_LIMIT)


async def test_a_function_may_change_several_variables_and_return_none() -> None:
    def change(seen: Envelope) -> Update:
        return Update(output=None, set={"a": seen.get("b.c", 1), "d": 2}, unset=("gone",))

    flow = Workflow("t").function("f", change, output="out").build()
    async with trail_of() as trail:
        result = await trail.run(flow, vars={"gone": 1, "kept": 3})
    assert result.envelope.vars == {"a": 1, "d": 2, "kept": 3, "out": None}


@pytest.mark.acceptance("7.2-1")
async def test_stacked_diamonds_run_the_last_node_once() -> None:
    world = World()
    flow = Workflow("t")
    for name in ("a", "b1", "b2", "c", "d1", "d2", "e"):
        flow.function(name, world.function(name))
    built = flow.edge("a", "b1", "b2").edge(("b1", "b2"), "c").edge("c", "d1", "d2").edge(("d1", "d2"), "e").build()
    async with trail_of() as trail:
        await trail.run(built, session="f")
        opened = [event for event in await events_of(trail) if isinstance(event, NodeOpened)]
    assert set(world.done.values()) == {1}
    assert [len(event.inputs) for event in opened if event.node == "e"] == [2]


async def test_a_pause_lets_what_runs_end_and_opens_nothing() -> None:
    world, clock = World(), HandClock()
    world.holds = "a"
    flow = Workflow("t").function("a", world.function("a")).function("b", world.function("b")).chain("a", "b").build()
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, session="f"))
        await world.entered.wait()
        await trail.flow("f").pause(by="ana")
        world.gate.set()
        assert (await running).status is ExecutionStatus.PAUSED
        assert world.done == {"a": 1}
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.COMPLETED
    assert world.done == {"a": 1, "b": 1}


async def test_a_cancelled_caller_leaves_a_run_that_is_due() -> None:
    world, clock = World(), HandClock()
    world.holds = "a"
    flow = Workflow("t").function("a", world.function("a")).build()
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, session="f"))
        await world.entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [row.stream for row in await trail.due()] == ["flow:f"]
        world.holds = None
        assert (await trail.run(flow, session="f")).status is ExecutionStatus.COMPLETED
    assert world.done == {"a": 2}


async def test_a_worker_carries_on_what_was_started() -> None:
    world = World()
    flow = Workflow("t").function("a", world.function("a")).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        handle = await trail.start(flow, {"x": 1}, key="k")
        again = await trail.start(flow, {"x": 1}, key="k")
        assert (await handle.state()).status is ExecutionStatus.PENDING
        assert again.id == handle.id
        async with trail.work(flow):
            async for _ in handle.follow():
                pass
        assert (await handle.result()).status is ExecutionStatus.COMPLETED
    assert world.done == {"a": 1}


async def test_what_was_asked_of_a_stream_in_another_way_is_refused() -> None:
    world = World()
    flow = Workflow("t").human("ask", prompt="Well?").build()
    async with trail_of() as trail:
        await run_to_rest(trail, HandClock(), flow, {"x": 1})
        from steptrail.errors import CommandRejected

        with pytest.raises(CommandRejected):
            await trail.run(flow, {"x": 2}, session="f", options=LEAVES)
    assert not world.done


async def test_a_model_is_shown_how_often_its_node_was_tried_so_a_script_goes_on() -> None:
    scripted = ScriptedModel([say("no JSON"), say('{"a": 1}')])
    retry = RetryPolicy(max_attempts=2, backoff=0.0, retry_on=(FailureClass.VALIDATION,))
    flow = Workflow("t").llm("a", scripted, prompt="x", schema={"type": "object"}, retry=retry, output="out").build()
    async with trail_of() as trail:
        assert (await trail.run(flow)).output == {"a": 1}


async def test_what_nodes_need_is_opened_once_for_a_segment_and_closed() -> None:
    world, opened = World(), list[str]()

    @asynccontextmanager
    async def shop(data: object) -> AsyncGenerator[str]:
        opened.append(f"open for {data}")
        yield "shop"
        opened.append("closed")

    def use(_: Envelope, context: NodeContext) -> str:
        return f"in the {context.resources}"

    flow = Workflow("t").function("a", use).function("b", use).chain("a", "b").with_resources(shop).build()
    async with trail_of() as trail:
        result = await trail.run(flow, context={"user": "ana"})
    assert (result.output, opened) == ("in the shop", ["open for {'user': 'ana'}", "closed"])
    assert not world.done


async def test_what_cannot_be_opened_fails_no_node_and_is_tried_again_by_a_resume() -> None:
    tries = 0

    @asynccontextmanager
    async def shop(_: object) -> AsyncGenerator[str]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("the shop is away")
        yield "shop"

    def use(_: Envelope, context: NodeContext) -> str:
        return f"in the {context.resources}"

    clock = HandClock()
    flow = Workflow("t").function("a", use).with_resources(shop).build()
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f")
        assert result.status is ExecutionStatus.WAITING
        clock.advance(600)
        result = await trail.flow("f").resume(flow)
    assert (result.output, tries) == ("in the shop", 2)


async def test_what_cannot_be_opened_is_tried_again_later_and_later_as_with_agents() -> None:
    away = 10

    @asynccontextmanager
    async def shop(_: object) -> AsyncGenerator[str]:
        nonlocal away
        away -= 1
        if away >= 0:
            clock.advance(30)  # for so long an answer was waited for
            raise ConnectionError("the shop is away")
        yield "shop"

    clock, waits = HandClock(), list[float]()
    flow = Workflow("t").function("a", lambda _: "used").with_resources(shop).build()
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f")
        while result.state.run is not None and (wait := result.state.run.wait) is not None:
            assert wait.until is not None
            waits.append((wait.until - clock.utc()) / 1e6)
            clock.reach(wait.until)
            result = await trail.flow("f").resume(flow)
    assert (result.output, waits) == ("used", [1, 2, 4, 8, 16, 32, 64, 128, 256, 300])


@pytest.mark.parametrize("due_first", ["a question", "a retry"])
async def test_a_run_without_its_resources_is_not_due_again_for_what_has_come_meanwhile(due_first: str) -> None:
    world, clock, is_away = World(), HandClock(), due_first == "a question"
    world.breaks["a"] = ConnectionError("away")

    @asynccontextmanager
    async def shop(_: object) -> AsyncGenerator[str]:
        if is_away:
            raise ConnectionError("the shop is away")
        yield "shop"

    written = Workflow("t").human("q", prompt="Well?", expires=0.5 if is_away else None).with_resources(shop)
    written.function("a", world.function("a"), retry=RetryPolicy(backoff=0.5))
    flow = written.noop("e").edge(("q", "a"), "e").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=LEAVES)
        is_away = True
        clock.advance(0.5)
        assert [row.due and row.due.cause for row in await trail.due()] == [DueCause.TIMER]
        result = await trail.flow("f").resume(flow)
        assert await trail.due() == []
    assert result.state.run is not None
    assert result.state.run.wait is not None
    assert result.state.run.wait.kind == "resources"


async def test_what_a_branch_has_written_that_comes_late_to_a_join_is_in_the_end() -> None:
    slow = asyncio.Event()

    async def late(_: object) -> str:
        await slow.wait()
        return "late"

    async def first(_: object) -> str:
        return "first"

    def end(_: object) -> str:
        slow.set()
        return "end"

    flow = (
        Workflow("t")
        .noop("start")
        .function("quick", first, output="quick")
        .function("slow", late, output="slow")
        .function("any", end, join="any", output="any")
        .edge("start", "quick", "slow")
        .edge(("quick", "slow"), "any")
        .build()
    )
    async with trail_of() as trail:
        result = await trail.run(flow, session="f")
    assert result.envelope.vars == {"quick": "first", "any": "end", "slow": "late"}
    assert result.output == "end"


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_a_branch_that_waits_with_the_first_one_at_a_join_is_in_the_end_as_well(concurrency: int) -> None:
    flow = (
        Workflow("t")
        .function("any", lambda seen: sorted(seen.vars), join="any", output="any")
        .function("one", lambda _: 1, output="one")
        .function("two", lambda _: 2, output="two")
        .edge(("one", "two"), "any")
        .build()
    )
    async with trail_of() as trail:
        result = await trail.run(flow, session="f", options=RunOptions(concurrency=concurrency))
    assert {key: result.envelope.vars[key] for key in ("one", "two")} == {"one": 1, "two": 2}
    assert result.output in (["one"], ["two"])
