"""The cache of a node: a result is kept within one run, and stands for a visit that would ask the same again."""

from typing import Any

from steptrail.domain.flow.events import FlowEvent, NodeAttemptCompleted, NodeAttemptStarted, NodeOpened
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.usage import Usage
from steptrail.testing import ScriptedModel, say
from steptrail.workflow import (
    Budget,
    BuiltWorkflow,
    Cache,
    Envelope,
    FlowResult,
    RetryPolicy,
    Rule,
    RunOptions,
    Update,
    Workflow,
)
from tests.flow.kit import World, events_of, run_to_rest
from tests.runner.kit import HandClock, trail_of


def loop(work: Any, count: Any, rounds: int, cache: Cache, **settings: Any) -> BuiltWorkflow:
    """Return a workflow that visits the node `work` in each round, after `count` has changed the variables."""
    return (
        Workflow("t", result="found")
        .function("count", count)
        .function("work", work, cache=cache, output="found", **settings)
        .rule_router("again", [Rule(lambda seen: rounds_of(seen) < rounds, to="count")], default="done")
        .noop("done")
        .chain("count", "work", "again", "done")
        .edge("again", "count", loop=True)
        .build()
    )


def rounds_of(seen: Envelope) -> int:
    number = seen.get("round", 0)
    assert isinstance(number, int)
    return number


def counting(*values: str) -> Any:
    """Return a function that sets `round`, and `q` to the next of these values."""

    def count(seen: Envelope) -> Update:
        number = rounds_of(seen)
        return Update(set={"round": number + 1, "q": values[number]})

    return count


def ends(events: list[FlowEvent], node: str) -> list[tuple[object, bool]]:
    found = [event for event in events if isinstance(event, NodeAttemptCompleted) and event.node == node]
    return [(event.output, event.is_kept) for event in found]


async def played(flow: BuiltWorkflow, given: object = None) -> tuple[FlowResult, list[FlowEvent]]:
    clock = HandClock()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow, given)
        return result, await events_of(trail)


async def test_a_loop_asks_once_for_each_value_that_the_cache_names() -> None:
    asked: list[str] = []

    def work(seen: Envelope) -> Update:
        asked.append(str(seen.vars["q"]))
        return Update(f"about {seen.vars['q']}", set={"beside": seen.vars["round"]})

    result, events = await played(loop(work, counting("a", "b", "a", "b"), 4, Cache(key=("q",))))
    assert asked == ["a", "b"]
    assert ends(events, "work") == [("about a", False), ("about b", False), ("about a", True), ("about b", True)]
    started = [event for event in events if isinstance(event, NodeAttemptStarted) and event.node == "work"]
    assert [event.visit for event in started] == [1, 2]
    # A kept result brings its own key, and not what the node has set beside it.
    assert (result.output, result.envelope.vars["beside"]) == ("about b", 2)


async def test_two_nodes_share_no_results() -> None:
    world, cache = World(), Cache(key=("input",))
    flow = Workflow("t").function("a", world.function("a"), cache=cache).function("b", world.function("b"), cache=cache)
    result, _ = await played(flow.chain("a", "b").build(), 1)
    assert result.output == "b is done"
    assert world.done == {"a": 1, "b": 1}


async def test_a_variable_that_is_missing_is_not_one_that_is_none() -> None:
    world = World()

    def count(seen: Envelope) -> Update:
        number = rounds_of(seen)
        return Update(set={"round": number + 1, **({"q": None} if number else {})})

    await played(loop(world.function("work"), count, 3, Cache(key=("q",))))
    assert world.done == {"work": 2}


async def test_a_result_that_is_older_than_the_ttl_is_not_taken() -> None:
    clock, ages = HandClock(), iter([0.0, 10.0, 0.1])
    world = World()

    def count(seen: Envelope) -> Update:
        clock.advance(next(ages))
        return Update(set={"round": rounds_of(seen) + 1})

    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, loop(world.function("work"), count, 3, Cache(ttl=10.0)))
        found = [is_kept for _, is_kept in ends(await events_of(trail), "work")]
    assert found == [False, True, False]


async def test_the_age_of_a_result_counts_from_when_it_was_made() -> None:
    clock, ages = HandClock(), iter([0.0, 6.0, 6.0])
    world = World()

    def count(seen: Envelope) -> Update:
        clock.advance(next(ages))
        return Update(set={"round": rounds_of(seen) + 1})

    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, loop(world.function("work"), count, 3, Cache(ttl=10.0)))
    assert world.done == {"work": 2}


async def test_a_failure_is_not_kept() -> None:
    world = World()
    world.fails["work"] = [RuntimeError("no"), None]
    flow = loop(world.function("work"), counting("a", "a", "a"), 3, Cache(key=("q",)), on_error="continue")
    result, events = await played(flow)
    assert world.done == {"work": 2}
    assert ends(events, "work") == [("work is done", False), ("work is done", True)]
    assert len(result.errors) == 1


async def test_a_result_over_the_budget_is_not_kept() -> None:
    model = ScriptedModel([say("dear", usage=Usage(input=50)), say("cheap", usage=Usage(input=1))])
    flow = (
        Workflow("t", result="found")
        .function("count", counting("a", "a"))
        .llm(
            "work",
            model,
            prompt="{{ q }}",
            cache=Cache(key=("q",)),
            budget=Budget(max_input_tokens=10),
            on_error="continue",
            output="found",
        )
        .rule_router("again", [Rule(lambda seen: rounds_of(seen) < 2, to="count")], default="done")
        .noop("done")
        .chain("count", "work", "again", "done")
        .edge("again", "count", loop=True)
        .build()
    )
    result, _ = await played(flow)
    assert result.output == "cheap"


async def test_the_items_of_a_map_that_are_equal_are_done_once() -> None:
    world = World()
    flow = Workflow("t", result="all").map(
        "each", over="input", tool=world.tool(), args={"name": "{{ item }}"}, cache=Cache(), output="all"
    )
    result, events = await played(flow.noop("end").chain("each", "end").build(), ["a", "b", "a", "a"])
    assert result.output == ["a is done", "b is done", "a is done", "a is done"]
    assert world.done == {"a": 1, "b": 1}
    assert [is_kept for _, is_kept in ends(events, "each")] == [False, False, True, True]


async def test_a_node_that_was_tried_is_tried_again_although_the_result_of_another_is_kept_meanwhile() -> None:
    world, retry = World(), RetryPolicy(max_attempts=2, backoff=5.0)
    world.fails["a"] = [ConnectionError("no"), None]
    flow = Workflow("t", result="all").map(
        "each",
        over="input",
        tool=world.tool(),
        args={"name": "{{ item }}"},
        cache=Cache(),
        retry=retry,
        concurrency=2,
        output="all",
    )
    result, events = await played(flow.noop("end").chain("each", "end").build(), ["a", "a"])
    assert result.output == ["a is done", "a is done"]
    assert [is_kept for _, is_kept in ends(events, "each")] == [False, False]


async def test_the_choice_of_a_model_is_kept_with_its_answer() -> None:
    model = ScriptedModel([say('{"label": "more"}'), say("not asked"), say('{"label": "enough"}')])
    flow = (
        Workflow("t")
        .function("count", counting("a", "a", "b"))
        .llm_router(
            "choose",
            model,
            prompt="{{ q }}",
            routes={"more": "count", "enough": "done"},
            cache=Cache(key=("q",)),
        )
        .noop("done")
        .chain("count", "choose", "done")
        .edge("choose", "count", loop=True)
        .build()
    )
    result, events = await played(flow)
    assert result.status is ExecutionStatus.COMPLETED
    assert [is_kept for _, is_kept in ends(events, "choose")] == [False, True, False]
    assert [event.visit for event in events if isinstance(event, NodeOpened) and event.node == "done"] == [1]


async def test_a_retry_of_the_run_takes_what_was_kept_and_another_run_does_not() -> None:
    world, clock = World(), HandClock()
    world.fails["check"] = [None, RuntimeError("no")]
    flow = (
        Workflow("t")
        .function("count", counting("a", "a", "a"))
        .function("check", world.function("check"))
        .function("work", world.function("work"), cache=Cache(key=("q",)))
        .rule_router("again", [Rule(lambda seen: rounds_of(seen) < 2, to="count")], default="done")
        .noop("done")
        .chain("count", "check", "work", "again", "done")
        .edge("again", "count", loop=True)
        .build()
    )
    async with trail_of(clock) as trail:
        assert (await trail.run(flow, session="f")).status is ExecutionStatus.FAILED
        assert (await trail.flow("f").retry(flow)).status is ExecutionStatus.COMPLETED
        assert [is_kept for _, is_kept in ends(await events_of(trail), "work")] == [False, True]
        await trail.run(flow, session="f", key="again")
        assert [is_kept for _, is_kept in ends(await events_of(trail), "work")][2:] == [False, True]
    assert world.done["work"] == 2


async def test_what_now_changes_the_world_is_done_although_a_result_is_kept() -> None:
    """The recorded node says that it reads, and the tool that is brought for the retry declares something else."""
    world, clock = World(), HandClock()
    world.fails["check"] = [None, RuntimeError("no")]

    def flow(effect: Any, **cache: Any) -> BuiltWorkflow:
        return (
            Workflow("t")
            .function("count", counting("a", "a"))
            .function("check", world.function("check"))
            .tool("work", world.tool(effect), args={"name": "work"}, **cache)
            .rule_router("again", [Rule(lambda seen: rounds_of(seen) < 2, to="count")], default="done")
            .noop("done")
            .chain("count", "check", "work", "again", "done")
            .edge("again", "count", loop=True)
            .build()
        )

    async with trail_of(clock) as trail:
        assert (
            await trail.run(flow("idempotent", cache=Cache(key=("q",))), session="f")
        ).status is ExecutionStatus.FAILED
        assert (await trail.flow("f").retry(flow("unsafe"))).status is ExecutionStatus.COMPLETED
    assert world.done["work"] == 2


async def test_a_result_is_kept_over_a_pause() -> None:
    world, clock = World(), HandClock()
    flow = loop(world.function("work"), counting("a", "a", "a"), 3, Cache(key=("q",)))
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f", options=RunOptions(pause_before=("again",), longest_wait=0.0))
        for _ in range(3):
            await trail.flow("f").step("again", "continue", by="ana")
            result = await trail.flow("f").resume(flow)
    assert result.status is ExecutionStatus.COMPLETED
    assert world.done == {"work": 1}
