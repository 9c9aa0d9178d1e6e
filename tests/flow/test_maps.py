"""Maps as visits of their own: their time, their budget, and people who hold them."""

import asyncio
from functools import partial
from typing import Any

import pytest

from steptrail.domain.flow.effects import Await
from steptrail.domain.flow.events import NodeAttemptStarted, NodeAttemptSuspended
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.seeing import seen_by
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.events import WaitStarted
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.errors import CommandRejected
from steptrail.messages import Message
from steptrail.testing import ScriptedModel
from steptrail.workflow import (
    Budget,
    BuiltWorkflow,
    Condition,
    Envelope,
    FailureClass,
    FlowResult,
    NodeContext,
    RetryPolicy,
    Rule,
    RunOptions,
    Workflow,
)
from tests.flow.kit import LEAVES, World, calls_of, events_of, named
from tests.runner.kit import HandClock, trail_of

BEFORE = RunOptions(pause_before=("m",), longest_wait=0.0)
AFTER = RunOptions(pause_after=("m",), longest_wait=0.0)


def mapped(done: list[Any], **settings: Any) -> BuiltWorkflow:
    """Return a map over the items of the input, which notes each item."""

    async def act(_: object, context: NodeContext) -> int | None:
        done.append(context.index)
        return context.index

    return Workflow("t").map("m", over="items", function=act, output="all", **settings).build()


async def test_no_more_items_are_looked_at_than_can_begin() -> None:
    called = list[int]()
    for count in (20, 100):
        flow = mapped([], concurrency=count)
        async with trail_of() as trail:
            await trail.run(flow, vars={"items": [0] * count}, session="f")
            records = await trail.flow("f").events()
        begun = [at for at, each in enumerate(records) if isinstance(each.event, NodeAttemptStarted)][7]
        state = FLOW.evolve_all(FLOW.initial("flow:f"), records[: begun + 1])
        effects, calls = calls_of(partial(FLOW.next_effects, state, state.as_of))
        assert [type(effect) for effect in effects] == [Await]
        called.append(calls)
    assert called[0] == called[1]


async def test_an_item_is_found_by_the_same_calls_however_many_messages_a_map_goes_over() -> None:
    called = list[int]()
    for count in (20, 100):
        flow = Workflow("t").map("m", over="messages", function=lambda seen: seen.item["role"], output="all").build()
        async with trail_of() as trail:
            result = await trail.run(flow, messages=[Message.user("x")] * count, session="f")
            records = await trail.flow("f").events()
        assert result.output == ["user"] * count
        begun = next(at for at, each in enumerate(records) if isinstance(each.event, NodeAttemptStarted))
        run = FLOW.evolve_all(FLOW.initial("flow:f"), records[: begun + 1]).at_work()
        called.append(calls_of(partial(seen_by, run, run.open["m"], 3))[1])
    assert called[0] == called[1]


async def test_a_step_takes_the_same_calls_however_many_items_wait_for_people() -> None:
    asking = Workflow("inner").human("ask", prompt="May I?").build()
    called = list[tuple[int, int]]()
    for count in (20, 100):
        flow = Workflow("t", options=LEAVES).map("m", over="items", flow=asking, concurrency=count).build()
        async with trail_of() as trail:
            await trail.run(flow, vars={"items": list(range(count))}, session="f", options=LEAVES)
            records = await trail.flow("f").events()
        last = max(at for at, each in enumerate(records) if isinstance(each.event, NodeAttemptSuspended))
        state = FLOW.evolve_all(FLOW.initial("flow:f"), records[:last])
        effects, calls = calls_of(partial(FLOW.next_effects, state, state.as_of))
        assert [type(effect) for effect in effects] == [Await]
        begun = max(at for at, each in enumerate(records) if isinstance(each.event, NodeAttemptStarted))
        before = FLOW.evolve_all(FLOW.initial("flow:f"), records[:begun])
        _, folding = calls_of(partial(FLOW.evolve_all, before, records[begun : begun + 1]))
        called.append((calls, folding))
    assert called[0] == called[1]


async def test_a_function_reads_its_item_from_the_envelope_and_may_change_what_it_has_read() -> None:
    def act(seen: Envelope, context: NodeContext) -> str:
        seen.item["name"] += str(context.index)
        return f"{seen.item['name']} is now {seen.get('items')[context.index]['name']}"

    flow = Workflow("t").map("m", over="items", function=act, output="all")
    flow = flow.function("after", lambda seen: seen.item).chain("m", "after")
    async with trail_of() as trail:
        result = await trail.run(flow.build(), vars={"items": [{"name": "tea"}, {"name": "pot"}]}, session="f")
    assert result.envelope.vars["all"] == ["tea is now tea", "pot is now pot"]
    assert (result.output, result.envelope.item) == (None, None)


@pytest.mark.parametrize("names", [("m",), ("*",)])
async def test_a_map_is_held_before_its_first_item(names: tuple[str, ...]) -> None:
    done: list[Any] = []
    flow = mapped(done)
    async with trail_of() as trail:
        options = RunOptions(pause_before=names, longest_wait=0.0)
        held = await trail.run(flow, vars={"items": [1, 2]}, session="f", options=options)
        assert (held.status, done) == (ExecutionStatus.WAITING, [])
        await trail.flow("f").step("m", "continue", by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.status, result.output) == (ExecutionStatus.COMPLETED, [0, 1])


@pytest.mark.parametrize(
    ("before", "given", "then"),
    [
        ([1, 2], {"items": [1, 2, 3]}, [0, 1, 2]),
        ([1, 2], {"items": [1]}, [0]),
        ([1, 2], {"items": []}, []),
        ([], {"items": [1]}, [0]),
        (None, {"items": [1]}, [0]),
        ([1, 2], {"other": 1}, [0, 1]),
    ],
)
async def test_a_map_that_was_held_runs_over_the_list_that_it_was_given(
    before: list[int] | None, given: dict[str, Any], then: list[int]
) -> None:
    flow = mapped([])
    async with trail_of() as trail:
        assert (await trail.run(flow, vars={"items": before}, session="f", options=BEFORE)).state.is_open
        await trail.flow("f").step("m", "continue", set=given, by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.status, result.output) == (ExecutionStatus.COMPLETED, then)


async def test_a_map_that_was_held_and_has_no_list_any_more_fails() -> None:
    flow = mapped([])
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1]}, session="f", options=BEFORE)
        await trail.flow("f").step("m", "continue", unset=("items",), by="ana")
        result = await trail.flow("f").resume(flow)
    assert result.error is not None
    assert (result.status, result.error.failure) == (ExecutionStatus.FAILED, FailureClass.CONFIG)


@pytest.mark.parametrize(
    ("action", "status"), [("skip", ExecutionStatus.COMPLETED), ("abort", ExecutionStatus.STOPPED)]
)
async def test_a_map_that_was_held_may_be_skipped_or_ends_the_run(action: Any, status: ExecutionStatus) -> None:
    done: list[Any] = []
    flow = mapped(done)
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1, 2]}, session="f", options=BEFORE)
        await trail.flow("f").step("m", action, by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.status, done, "all" in result.envelope.vars) == (status, [], False)


async def test_a_map_that_is_held_takes_no_place_of_those_that_run() -> None:
    done: list[str] = []
    flow = (
        Workflow("t")
        .map("m", over="items", function=lambda _: done.append("item"))
        .function("beside", lambda _: done.append("beside"))
        .noop("end")
        .edge(("m", "beside"), "end")
        .build()
    )
    options = RunOptions(pause_before=("m",), longest_wait=0.0, concurrency=1)
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1]}, session="f", options=options)
        assert done == ["beside"]


async def test_a_map_is_held_after_its_last_item() -> None:
    done: list[Any] = []
    flow = mapped(done)
    async with trail_of() as trail:
        held = await trail.run(flow, vars={"items": [1, 2]}, session="f", options=AFTER)
        assert (held.status, done) == (ExecutionStatus.WAITING, [0, 1])
        await trail.flow("f").step("m", "continue", by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.status, result.output, done) == (ExecutionStatus.COMPLETED, [0, 1], [0, 1])


async def test_a_map_of_which_an_item_has_failed_is_held_before_it_fails() -> None:
    async def fails(_: object) -> None:
        raise ValueError("no")

    flow = Workflow("t").map("m", over="items", function=fails, concurrency=2, on_error="continue").build()
    async with trail_of() as trail:
        held = await trail.run(flow, vars={"items": [1, 2, 3]}, session="f", options=AFTER)
        assert (held.status, named(await events_of(trail))[-2:]) == ("waiting", ["step.held", "wait.started"])
        await trail.flow("f").step("m", "continue", by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.status, [error.item for error in result.errors]) == (ExecutionStatus.COMPLETED, [0])


async def test_a_held_map_of_which_an_item_was_to_be_tried_again_waits_for_the_person_alone() -> None:
    clock = HandClock()

    async def act(_: object, context: NodeContext) -> None:
        if context.index == 0:
            raise ConnectionError("away")
        while "node.retry.scheduled" not in named(await events_of(trail)):
            await asyncio.sleep(0)
        raise ValueError("wrong")

    retry = RetryPolicy(backoff=60.0, retry_on=(FailureClass.UNAVAILABLE,))
    flow = Workflow("t").map("m", over="items", function=act, concurrency=2, retry=retry).build()
    async with trail_of(clock) as trail:
        result = await trail.run(flow, vars={"items": [0, 1]}, session="f", options=AFTER)
        assert result.state.run is not None
        assert result.state.run.wait == WaitStarted(kind="step")
        assert [(wait.kind, wait.due_at) for wait in result.state.run.waits] == [("step", None)]
        clock.advance(3600.0)
        assert await trail.due() == []
        await trail.flow("f").step("m", "continue", by="ana")
        ended = await trail.flow("f").resume(flow)
    assert (ended.status, ended.error and ended.error.item) == (ExecutionStatus.FAILED, 1)


async def test_a_map_is_held_again_by_a_retry_and_keeps_the_items_that_have_ended() -> None:
    done: list[Any] = []

    async def act(_: object, context: NodeContext) -> int | None:
        done.append(context.index)
        if context.index == 1 and done.count(1) == 1:
            raise ValueError("no")
        return context.index

    flow = Workflow("t").map("m", over="items", function=act, output="all").build()
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1, 2]}, session="f", options=BEFORE)
        await trail.flow("f").step("m", "continue", by="ana")
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.FAILED
        assert (await trail.flow("f").retry(flow)).status is ExecutionStatus.WAITING
        assert done == [0, 1]
        await trail.flow("f").step("m", "continue", by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.status, result.output, done) == (ExecutionStatus.COMPLETED, [0, 1], [0, 1, 1])


@pytest.mark.parametrize("given", [{"items": [1]}, {"items": [1, 2, 3]}, {"items": None}, {}])
async def test_a_map_that_has_begun_takes_no_list_of_another_length(given: dict[str, Any]) -> None:
    tries: list[Any] = []

    async def act(seen: Envelope, context: NodeContext) -> object:
        tries.append(context.index)
        if tries == [0, 1]:
            raise ValueError("no")
        return seen.vars["items"]

    flow = Workflow("t").map("m", over="items", function=act, output="all").build()
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1, 2]}, session="f", options=BEFORE)
        await trail.flow("f").step("m", "continue", by="ana")
        await trail.flow("f").resume(flow)
        await trail.flow("f").retry(flow)
        with pytest.raises(CommandRejected, match="a list of 2 items"):
            await trail.flow("f").step("m", "continue", set=given, unset=() if given else ("items",), by="ana")
        await trail.flow("f").step("m", "continue", set={"items": [3, 4]}, by="ana")
        result = await trail.flow("f").resume(flow)
    assert (result.output, tries) == ([[1, 2], [3, 4]], [0, 1, 1])


async def test_nobody_answers_for_the_other_items_of_a_map_when_its_run_has_ended() -> None:
    world = World()
    act = world.tool(approval=True)
    flow = Workflow("t").map("m", over="input", tool=act, args={"name": "{{ item }}"}, concurrency=2).build()
    async with trail_of() as trail:
        await trail.run(flow, ["a", "b"], session="f", options=LEAVES)
        first, second = await trail.inbox()
        await trail.flow("f").deny(first.id, by="ana")
        failed = await trail.flow("f").resume(flow)
        assert (failed.status, failed.state.tasks) == (ExecutionStatus.FAILED, ())
        with pytest.raises(CommandRejected, match="no approval"):
            await trail.flow("f").approve(second.id, by="ana")


async def timed(clock: HandClock, *, takes: float, **settings: Any) -> tuple[FlowResult, list[Any]]:
    """Run a map of five items, each of which takes so many seconds."""
    done: list[Any] = []

    async def act(_: object, context: NodeContext) -> int | None:
        clock.advance(takes)
        done.append(context.index)
        return context.index

    flow = Workflow("t").map("m", over="items", function=act, output="all", **settings).build()
    async with trail_of(clock) as trail:
        return await trail.run(flow, vars={"items": [*range(5)]}, session="f", options=LEAVES), done


async def test_the_timeout_of_a_map_is_for_all_its_items_together() -> None:
    result, done = await timed(HandClock(), takes=40.0, timeout=100.0, item_timeout=60.0, on_item_error="record")
    assert result.error is not None
    assert (result.status, result.error.failure) == (ExecutionStatus.FAILED, FailureClass.TIMEOUT)
    assert (result.error.item, result.error.message) == (None, "its items did not end within 100 s")
    assert done == [0, 1, 2]


async def test_a_map_whose_time_was_up_may_be_tolerated_and_keeps_no_items() -> None:
    result, _ = await timed(HandClock(), takes=60.0, timeout=100.0, on_error="continue")
    assert (result.status, result.envelope.vars["all"]) == (ExecutionStatus.COMPLETED, None)
    assert [(error.failure, error.item) for error in result.errors] == [(FailureClass.TIMEOUT, None)]


async def test_a_map_whose_last_item_ends_as_its_time_is_up_has_ended_well() -> None:
    result, _ = await timed(HandClock(), takes=20.0, timeout=100.0)
    assert (result.status, result.output) == (ExecutionStatus.COMPLETED, [0, 1, 2, 3, 4])


async def test_the_items_that_run_are_cut_off_when_the_time_of_their_map_is_up() -> None:
    async def for_ever(_: object) -> None:
        await asyncio.Event().wait()

    flow = Workflow("t").map("m", over="items", function=for_ever, concurrency=3, timeout=0.05).build()
    async with trail_of(None) as trail:
        result = await trail.run(flow, vars={"items": [*range(5)]}, session="f", options=LEAVES)
    assert result.error is not None
    assert (result.status, result.error.failure) == (ExecutionStatus.FAILED, FailureClass.TIMEOUT)


async def test_the_time_of_a_map_counts_the_waits_of_its_items_and_no_pause() -> None:
    clock, tries = HandClock(), list[Any]()

    async def act(_: object, context: NodeContext) -> str:
        tries.append(context.index)
        if tries.count(context.index) == 1:
            raise ConnectionError("away")
        return "ok"

    flow = (
        Workflow("t")
        .map("m", over="items", function=act, retry=RetryPolicy(max_attempts=2, backoff=40.0), timeout=100.0)
        .build()
    )
    async with trail_of(clock) as trail:
        await trail.run(flow, vars={"items": [1]}, session="f", options=LEAVES)
        await trail.flow("f").pause(by="ana")
        clock.advance(3600.0)
        result = await trail.flow("f").resume(flow)
        assert result.status is ExecutionStatus.COMPLETED
        tries.clear()
        await trail.run(flow, vars={"items": [1, 2, 3]}, session="h", options=LEAVES)
        for _ in range(2):
            clock.advance(40.0)
            result = await trail.flow("h").resume(flow)
    # The third wait would end beyond the timeout, and is not begun.
    assert result.error is not None
    assert (result.error.failure, result.error.item) == (FailureClass.TIMEOUT, 2)
    assert "away" in result.error.message


async def test_a_retry_gives_a_map_its_time_anew_and_repeats_no_item_that_has_ended() -> None:
    clock, done = HandClock(), list[Any]()

    async def act(_: object, context: NodeContext) -> int | None:
        clock.advance(40.0)
        done.append(context.index)
        return context.index

    flow = Workflow("t").map("m", over="items", function=act, output="all", timeout=100.0).build()
    async with trail_of(clock) as trail:
        failed = await trail.run(flow, vars={"items": [*range(5)]}, session="f", options=LEAVES)
        assert failed.status is ExecutionStatus.FAILED
        result = await trail.flow("f").retry(flow)
    assert (result.status, result.output, done) == (ExecutionStatus.COMPLETED, [*range(5)], [*range(5)])


def asking(model: ScriptedModel, **settings: Any) -> BuiltWorkflow:
    """Return a map in which a model answers each item, for 15 tokens."""
    return Workflow("t").map("m", over="items", model=model, prompt="{{ item }}", output="all", **settings).build()


async def test_the_budget_of_a_map_is_for_all_its_items_together() -> None:
    model = ScriptedModel(["a"] * 5)
    flow = asking(model, budget=Budget(max_total_tokens=40), on_item_error="record")
    async with trail_of() as trail:
        result = await trail.run(flow, vars={"items": [*range(5)]}, session="f", options=LEAVES)
        events = named(await events_of(trail))
    assert result.error is not None
    assert (result.status, result.stop_reason) == (ExecutionStatus.FAILED, StopReason.TOKEN_LIMIT)
    assert (result.error.failure, result.error.details["actual"]) == (FailureClass.BUDGET, "45")
    assert (len(model.requests), events.count("limit.reached")) == (3, 1)


async def test_the_last_item_of_a_map_may_pass_its_budget_too() -> None:
    flow = asking(ScriptedModel(["a"] * 3), budget=Budget(max_total_tokens=40))
    async with trail_of() as trail:
        result = await trail.run(flow, vars={"items": [*range(3)]}, session="f", options=LEAVES)
    assert result.stop_reason is StopReason.TOKEN_LIMIT


async def test_the_budget_of_an_item_is_for_all_its_tries_and_for_no_other_item() -> None:
    schema = {"type": "object"}
    model = ScriptedModel(["{}", "no object", "{}", "{}"])
    flow = asking(
        model,
        item_budget=Budget(max_total_tokens=20),
        on_item_error="record",
        schema=schema,
        retry=RetryPolicy(max_attempts=2, backoff=0.0, retry_on=(FailureClass.VALIDATION,)),
    )
    async with trail_of() as trail:
        result = await trail.run(flow, vars={"items": [*range(3)]}, session="f", options=LEAVES)
    assert result.output == [{}, None, {}]
    assert [(error.item, error.failure, error.details["actual"]) for error in result.errors] == [
        (1, FailureClass.BUDGET, "30")
    ]


def below_a_map_that_fails(waits: bool) -> tuple[Workflow, dict[str, JsonValue]]:
    """Return a workflow that begins with such a map, and its variables.

    One item of the map fails while the workflow of the other one waits for a person, or is at work.
    """
    begun = asyncio.Event()

    async def work(envelope: Envelope) -> None:
        if envelope.input == "slow":
            begun.set()
            await asyncio.Event().wait()
        await begun.wait()
        raise RuntimeError("no")

    if waits:
        begun.set()
    below = (
        Workflow("below")
        .rule_router("which", [Rule([Condition(path="input", value="ask")], to="ask")], default="work")
        .human("ask", prompt="?")
        .function("work", work)
        .edge("which", "ask", "work")
        .build()
    )
    begins = Workflow("t").map("m", over="items", flow=below, input="{{ item }}", concurrency=2, on_error="record")
    return begins, {"items": ["ask" if waits else "slow", "ill"]}


@pytest.mark.parametrize("waits", [True, False])
async def test_a_run_leaves_no_workflow_open_below_a_map_that_has_failed(waits: bool) -> None:
    begins, given = below_a_map_that_fails(waits)
    flow = begins.noop("end").chain("m", "end").build()
    async with trail_of() as trail:
        result = await trail.run(flow, vars=given, session="f", options=LEAVES)
        rows = {row.status.value for row in await trail.runs() if row.parent is not None}
        assert not await trail.inbox()
    assert (result.status, rows) == (ExecutionStatus.COMPLETED, {"stopped", "failed"})


@pytest.mark.parametrize("waits", [True, False])
async def test_what_runs_below_a_map_that_has_failed_is_stopped_while_the_run_goes_on(waits: bool) -> None:
    begins, given = below_a_map_that_fails(waits)
    flow = begins.human("end", prompt="Go on?").chain("m", "end").build()
    async with trail_of() as trail:
        result = await trail.run(flow, vars=given, session="f", options=LEAVES)
        rows = {row.status.value for row in await trail.runs() if row.parent is not None}
        asked = [question.node for question in await trail.inbox()]
        reasons = [row.stop_reason for row in await trail.runs() if row.status is ExecutionStatus.STOPPED]
    assert (result.status, rows, asked, len(reasons)) == (ExecutionStatus.WAITING, {"stopped", "failed"}, ["end"], 1)


@pytest.mark.parametrize(
    ("given", "failure", "said"),
    [
        ({}, "config", "there is nothing at 'items': 'vars' has nothing"),
        ({"items": {"a": 1}}, "validation", "at 'items' stands no list, but a value of the type dict"),
    ],
)
async def test_a_map_without_a_list_fails_as_a_filter_does_and_says_what_is_there(
    given: dict[str, Any], failure: str, said: str
) -> None:
    for flow in (mapped([]), Workflow("t").filter("m", "dedupe", over="items").build()):
        async with trail_of() as trail:
            result = await trail.run(flow, vars=given, session="f")
        assert result.error is not None
        assert (result.error.failure, result.error.message) == (failure, said)
