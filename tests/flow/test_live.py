"""A run of a workflow that is watched: text of each node as it is written, progress, and the events that hold it."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail, ToolContext, ToolEffect, tool
from steptrail.domain.flow.events import FlowEvent, NodeAttemptCompleted, NodeAttemptFailed
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import LiveUpdate, NodeDelta, NodeProgress, ReplyDelta
from steptrail.errors import ConfigurationError
from steptrail.runtime.kernel.following import Followed
from steptrail.testing import ScriptedModel
from steptrail.workflow import BuiltWorkflow, Envelope, NodeContext, RetryPolicy, Workflow
from tests.integration.trail.test_following import Halting
from tests.integration.trail.test_subscriptions import PATIENCE
from tests.runner.kit import trail_of

Place = tuple[str, int, int | None, int]


def places(updates: Sequence[object]) -> dict[Place, str]:
    """Return the text of each try."""
    found: dict[Place, str] = {}
    for each in updates:
        if isinstance(each, NodeDelta):
            place = (each.node, each.visit, each.item, each.attempt)
            found[place] = found.get(place, "") + ("." if each.is_final else each.text)
    return found


def one_node(model: Any, **settings: Any) -> BuiltWorkflow:
    return Workflow("w").llm("say", model, prompt="go", output="said", **settings).build()


async def watched(flow: BuiltWorkflow, given: object = None) -> list[LiveUpdate]:
    seen: list[LiveUpdate] = []
    async with trail_of() as trail:
        await trail.run(flow, given, session="f", on_update=seen.append)
    return seen


@pytest.mark.acceptance("7.4-1")
async def test_the_text_of_a_node_comes_as_it_is_written_and_says_where_it_is_from() -> None:
    seen = await watched(one_node(ScriptedModel(["It is late"])))
    deltas = [each for each in seen if isinstance(each, NodeDelta)]
    assert [each.text for each in deltas] == ["It ", "is ", "late", ""]
    assert [each.is_final for each in deltas] == [False, False, False, True]
    assert {(each.session_id, each.execution_id) for each in deltas} == {("f", "f:1")}
    assert places(seen) == {("say", 1, None, 1): "It is late."}


async def test_each_item_of_a_map_has_a_text_of_its_own() -> None:
    model = ScriptedModel(["one", "two"])
    flow = Workflow("w").map("say", over="input", model=model, prompt="{{ item }}", output="said").build()
    assert places(await watched(flow, ["a", "b"])) == {("say", 1, 0, 1): "one.", ("say", 1, 1, 1): "two."}


async def test_a_function_and_a_tool_show_how_far_they_have_come_from_any_thread() -> None:
    @tool(effect=ToolEffect.READ)
    def scan(context: ToolContext) -> str:
        """Scan."""
        context.progress("half", done=1, total=2)
        return "scanned"

    def count(_: Envelope, context: NodeContext) -> int:
        assert threading.current_thread() is not threading.main_thread()
        context.progress("at 1", done=1)
        return 1

    flow = Workflow("w").tool("scan", scan).function("count", count).chain("scan", "count").build()
    seen = [each for each in await watched(flow) if isinstance(each, NodeProgress)]
    assert [(each.node, each.visit, each.attempt, each.message, each.done, each.total) for each in seen] == [
        ("scan", 1, 1, "half", 1, 2),
        ("count", 1, 1, "at 1", 1, None),
    ]


async def test_words_that_are_no_text_for_others_are_shown_so_that_they_can_be_sent() -> None:
    def read(_: Envelope, context: NodeContext) -> str:
        context.progress("caf\udce9.txt")
        return "read"

    seen = await watched(Workflow("w").function("read", read).build())
    assert [each.message for each in seen if isinstance(each, NodeProgress)] == ["caf?.txt"]


async def test_what_a_function_reports_after_its_try_has_ended_is_shown_to_nobody() -> None:
    late: list[NodeContext] = []

    async def give_away(_: Envelope, context: NodeContext) -> None:
        late.append(context)

    async def tell_late(_: Envelope, context: NodeContext) -> None:
        late[0].progress("late")
        context.progress("in time")

    flow = Workflow("w").function("a", give_away).function("b", tell_late).chain("a", "b").build()
    assert [each.message for each in await watched(flow) if isinstance(each, NodeProgress)] == ["in time"]


async def test_a_try_that_breaks_off_and_the_next_one_are_told_apart() -> None:
    broken, again = Halting("It is ", "late", breaks_off=True), Halting("It is ", "late")
    broken.go_on.set()
    again.go_on.set()
    models = [broken, again]

    class Each(Halting):
        def stream(self, request: Any) -> Any:
            return models.pop(0).stream(request)

    flow = one_node(Each(), retry=RetryPolicy(max_attempts=2, backoff=0))
    seen: list[LiveUpdate] = []
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, session="f", on_update=seen.append)
        (failed,) = [each.event for each in await trail.flow("f").events() if isinstance(each.event, NodeAttemptFailed)]
    assert result.output == "It is late"
    assert failed.failure == "unavailable"
    assert places(seen) == {("say", 1, None, 1): "It is ", ("say", 1, None, 2): "It is late."}


async def test_a_watcher_that_fails_harms_no_run() -> None:
    def fail(update: LiveUpdate) -> None:
        raise ValueError(update)

    async with trail_of() as trail:
        result = await trail.run(one_node(ScriptedModel(["late"])), session="f", on_update=fail)
    assert result.output == "late"


async def test_a_stream_of_a_run_yields_events_with_the_updates_between_them_and_then_the_result() -> None:
    async with trail_of() as trail:
        async with trail.stream(one_node(ScriptedModel(["It is late"])), session="f") as stream:
            seen: list[Recorded[FlowEvent] | LiveUpdate] = [each async for each in stream]
            result = await stream.result()
        stored = await trail.flow("f").events()
    assert result.output == "It is late"
    assert [(each.version, each.event) for each in seen if isinstance(each, Recorded)] == [
        (each.version, each.event) for each in stored
    ]
    written = [index for index, each in enumerate(seen) if isinstance(each, NodeDelta)]
    ends = next(i for i, each in enumerate(seen) if _is_end(each))
    assert places(seen) == {("say", 1, None, 1): "It is late."}
    assert max(written) < ends


def _is_end(each: Followed) -> bool:
    return isinstance(each, Recorded) and isinstance(each.event, NodeAttemptCompleted)


async def test_nodes_that_write_at_once_are_each_joined_for_a_slow_consumer() -> None:
    words = [f"word{i} " for i in range(500)]
    flow = (
        Workflow("w")
        .noop("begin")
        .llm("a", ScriptedModel(["".join(words)]), prompt="go")
        .llm("b", ScriptedModel(["".join(words)]), prompt="go")
        .edge("begin", "a", "b")
        .build()
    )
    async with trail_of() as trail, trail.stream(flow, session="f") as stream:
        await stream.result()
        seen = [each async for each in stream]
    assert places(seen) == {(node, 1, None, 1): "".join(words) + "." for node in "ab"}
    assert sum(isinstance(each, NodeDelta) for each in seen) < 10


async def test_leaving_a_stream_early_pauses_the_run_and_its_handle_goes_on_with_it() -> None:
    model = Halting("It is ", "late")
    flow = one_node(model)
    async with asyncio.timeout(PATIENCE), Steptrail.open("sqlite:///:memory:") as trail:
        async with trail.stream(flow, session="f") as stream:
            async for each in stream:
                if isinstance(each, NodeDelta):
                    break
        assert (await trail.flow("f").state()).status.value == "paused"
        model.go_on.set()
        async with trail.flow("f").stream(flow) as going_on:
            assert places([each async for each in going_on]) == {("say", 1, None, 2): "It is late."}
            assert (await going_on.result()).output == "It is late"


@pytest.mark.acceptance("7.4-2")
async def test_a_follower_that_comes_in_the_middle_sees_each_unfinished_text_from_its_beginning() -> None:
    a, b = Halting("I am ", "a"), Halting("I am ", "b")
    flow = Workflow("w").noop("begin").llm("a", a, prompt="go").llm("b", b, prompt="go").edge("begin", "a", "b").build()
    async with asyncio.timeout(PATIENCE), Steptrail.open("sqlite:///:memory:", live=True) as trail:
        running = asyncio.create_task(trail.run(flow, session="f"))
        await a.written.wait()
        await b.written.wait()
        a.go_on.set()
        while not any(_is_end(each) for each in await trail.flow("f").events()):
            await asyncio.sleep(0.01)
        begun = (await trail.flow("f").state()).version
        async with trail.flow("f").follow(after=begun) as late, trail.flow("f").follow() as early:
            b.go_on.set()
            seen_late, seen = [each async for each in late], [each async for each in early]
        await running
    assert places(seen_late) == {("b", 1, None, 1): "I am b."}
    # The text of `a` is whole, so the event that holds it stands for it.
    assert places(seen) == {("b", 1, None, 1): "I am b."}
    assert _ends_are_last(seen)


def _ends_are_last(seen: Sequence[Followed]) -> bool:
    """Tell whether no text of a node comes after the event that holds the whole of it."""
    ended: set[tuple[str, int, int | None]] = set()
    for each in seen:
        if isinstance(each, Recorded) and isinstance(each.event, NodeAttemptCompleted):
            ended.add((each.event.node, each.event.visit, each.event.item))
        elif isinstance(each, NodeDelta) and (each.node, each.visit, each.item) in ended:
            return False
    return True


async def test_an_agent_and_a_workflow_of_one_id_do_not_see_each_others_text() -> None:
    model = ScriptedModel(["It is late"] * 2)
    agent = AgentBuilder("a").with_model(model).build()
    async with Steptrail.open("sqlite:///:memory:", live=True) as trail:
        await trail.run(one_node(model), session="x")
        async with trail.flow("x").follow(forever=True) as flow:
            await trail.run(agent, "go", session="x")
            seen = [await anext(flow) for _ in range(3)]
            assert flow.ready() is None or isinstance(flow.ready(), Recorded)
    assert not [each for each in seen if isinstance(each, ReplyDelta)]


async def test_a_worker_that_is_live_has_models_stream_and_listeners_are_told_of_nodes() -> None:
    flow, seen = one_node(ScriptedModel(["It is late"])), list[NodeDelta]()
    async with asyncio.timeout(PATIENCE), Steptrail.open("sqlite:///:memory:") as trail:
        await trail.start(flow, session="f")
        with trail.on(NodeDelta, seen.append):
            async with trail.work(flow):
                while (await trail.flow("f").state()).is_open:
                    await asyncio.sleep(0.01)
    assert places(seen) == {("say", 1, None, 1): "It is late."}


@pytest.mark.parametrize("words", [{"on_update": print}, {"history": ()}])
async def test_a_stream_takes_what_run_takes(words: Any) -> None:
    async with trail_of() as trail:
        given: Any = {"history": [object()]} if "history" in words else words
        with pytest.raises((TypeError, ConfigurationError)):
            async with trail.stream(one_node(ScriptedModel(["x"])), **given) as stream:
                await stream.result()
