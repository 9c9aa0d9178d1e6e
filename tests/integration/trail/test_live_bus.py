"""Live text between two stores of one database, as two processes have them: on PostgreSQL, and not on SQLite."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from steptrail import Agent, AgentBuilder, Steptrail, ToolContext, ToolEffect, tool
from steptrail.domain.flow.events import NodeAttemptCompleted
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import NodeDelta, ReplyDelta, ToolProgress
from steptrail.events import InferenceCompleted, InferenceStarted
from steptrail.infrastructure.store.opening import open_store
from steptrail.models import ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.following import Followed, Following
from steptrail.runtime.kernel.live_fanout import LiveFanout
from steptrail.testing import ScriptedModel, call, say
from steptrail.workflow import Workflow
from tests.harness.postgres_server import PostgresServer
from tests.integration.trail.test_following import Halting, text, until_shown
from tests.integration.trail.test_subscriptions import PATIENCE

LISTENING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND (query LIKE '%LISTEN steptrail_live%' OR query LIKE 'SELECT pg_notify(%')
"""


async def all_of(following: Following) -> list[Followed]:
    return [each async for each in following]


async def test_a_follower_of_another_process_sees_a_reply_while_it_is_written_from_its_beginning(
    postgres_url: str,
) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        Steptrail.open(postgres_url, live=True) as here,
        Steptrail.open(postgres_url) as there,
    ):
        model = Halting("It is ", "very ", "late.")
        running = asyncio.create_task(here.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        begun = len(await there.session("a").events())
        async with there.session("a").follow() as early, there.session("a").follow(after=begun) as late:
            for following in (early, late):
                seen = await until_shown(following, "It is very ")
                assert [each.version for each in seen if isinstance(each, Recorded)] == list(
                    range(1, begun + 1) if following is early else []
                )
            model.go_on.set()
            rest = await all_of(early)
        stored = await there.session("a").events()
        assert [each for each in rest if isinstance(each, Recorded)] == list(stored)[begun:]
        ends = next(
            i
            for i, each in enumerate(rest)
            if isinstance(each, Recorded) and isinstance(each.event, InferenceCompleted)
        )
        assert "late.".startswith(text(rest))
        assert not any(isinstance(each, ReplyDelta) for each in rest[ends:])
        assert (await running).output == "It is very late."


async def test_a_follower_of_another_process_sees_nodes_of_a_workflow_write_at_once(postgres_url: str) -> None:
    a, b = Halting("I am ", "a"), Halting("I am ", "b")
    flow = Workflow("w").noop("begin").llm("a", a, prompt="go").llm("b", b, prompt="go").edge("begin", "a", "b").build()
    async with (
        asyncio.timeout(PATIENCE),
        Steptrail.open(postgres_url, live=True) as here,
        Steptrail.open(postgres_url) as there,
    ):
        running = asyncio.create_task(here.run(flow, session="f"))
        await a.written.wait()
        await b.written.wait()
        shown: dict[str, str] = {}
        ended = set[str]()
        async with there.flow("f").follow() as following:
            async for each in following:
                if isinstance(each, NodeDelta):
                    assert each.node not in ended
                    shown[each.node] = shown.get(each.node, "") + each.text
                elif isinstance(each, Recorded) and isinstance(each.event, NodeAttemptCompleted):
                    ended.add(each.event.node)
                    b.go_on.set()
                if shown == {"a": "I am ", "b": "I am "}:
                    a.go_on.set()
        assert ended == {"a", "b"}
        assert all(f"I am {node}".startswith(text) for node, text in shown.items())
        await running


async def test_a_follower_of_another_process_has_models_stream_from_the_next_call_on(postgres_url: str) -> None:
    class Asked(ScriptedModel):
        """Calls a tool for as long as nobody asks it to stream."""

        def __init__(self) -> None:
            super().__init__([call("wait")] * 10_000)

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
            assert request.messages
            yield ModelDelta("You see.")
            yield say("You see.")

    @tool(effect=ToolEffect.READ)
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(0.02)
        return "waited"

    async with asyncio.timeout(PATIENCE), Steptrail.open(postgres_url) as here, Steptrail.open(postgres_url) as there:
        agent = AgentBuilder("asked").with_model(Asked()).with_tools(wait).with_max_steps(10_000).build()
        running = asyncio.create_task(here.run(agent, "hi", session="a"))
        while not await there.store.version("agent:a"):
            await asyncio.sleep(0.01)
        async with there.session("a").follow() as following:
            assert (await running).output == "You see."
            assert len(await all_of(following)) > 3


async def test_progress_of_a_tool_comes_from_another_process(postgres_url: str) -> None:
    shown, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def scan(context: ToolContext) -> str:
        """Scan."""
        shown.set()
        for shelf in range(10_000):
            context.progress(f"shelf {shelf}", done=shelf)
            await asyncio.sleep(0.02)
            if go_on.is_set():
                break
        return "done"

    async with asyncio.timeout(PATIENCE), Steptrail.open(postgres_url) as here, Steptrail.open(postgres_url) as there:
        agent = AgentBuilder("scans").with_model(ScriptedModel([call("scan"), "done"])).with_tools(scan).build()
        running = asyncio.create_task(here.run(agent, "hi", session="a"))
        await shown.wait()
        async with there.session("a").follow() as following:
            async for each in following:
                if isinstance(each, ToolProgress):
                    assert each.message == f"shelf {round(each.done or 0)}"
                    break
            go_on.set()
            await running


async def test_a_reply_that_is_larger_than_a_notification_arrives_whole(postgres_url: str) -> None:
    whole = "".join(f"{i} \u8336\0'\"\\ " for i in range(4_000))
    async with (
        asyncio.timeout(PATIENCE),
        Steptrail.open(postgres_url, live=True) as here,
        Steptrail.open(postgres_url) as there,
    ):
        model = Halting(*(whole[i : i + 300] for i in range(0, len(whole), 300)), "end")
        running = asyncio.create_task(here.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        seen = ""
        async with there.session("a").follow() as following:
            async for each in following:
                seen += each.text if isinstance(each, ReplyDelta) else ""
                assert whole.startswith(seen)
                if seen == whole:
                    model.go_on.set()
                    break
            await running


@pytest.mark.parametrize("whose", ["the runner's", "the follower's", "both"])
async def test_a_line_that_is_cut_is_made_anew_and_nothing_is_shown_twice(
    postgres_url: str, postgres_server: PostgresServer, postgres_database: str, whose: str
) -> None:
    def listening() -> set[int]:
        own = postgres_server.execute(f"{LISTENING} AND pid <> pg_backend_pid()", database=postgres_database)
        return {row[0] for row in own}

    async with (
        asyncio.timeout(PATIENCE),
        Steptrail.open(postgres_url, live=True) as here,
        Steptrail.open(postgres_url) as there,
    ):
        model = Gated()
        running = asyncio.create_task(here.run(model.agent(), "hi", session="a"))
        await until(lambda: len(listening()) == 1)
        runners = listening()
        model.say("one ")
        async with there.session("a").follow() as following:
            shown = text(await until_shown(following, "one "))
            cut = {"the runner's": runners, "the follower's": listening() - runners, "both": listening()}[whose]
            for pid in cut:
                postgres_server.execute(f"SELECT pg_terminate_backend({pid})")
            model.say("two ")
            shown += text(await until_shown(following, "two "))
            model.say("three")
            shown += text(await until_shown(following, "three"))
        model.end()
        assert (await running).output == shown == "one two three"


async def test_on_sqlite_live_text_is_seen_where_the_run_is_and_events_are_seen_everywhere(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with asyncio.timeout(PATIENCE), Steptrail.open(url, live=True) as here, Steptrail.open(url) as there:
        model = Halting("It is ", "late.")
        running = asyncio.create_task(here.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        async with here.session("a").follow() as own, there.session("a").follow() as other:
            await until_shown(own, "It is ")
            model.go_on.set()
            seen = await all_of(other)
        await running
        assert seen == list(await there.session("a").events())


async def test_text_that_arrives_after_the_event_that_holds_the_whole_is_not_shown() -> None:
    fanout = LiveFanout()
    async with (
        asyncio.timeout(PATIENCE),
        Steptrail(Environment(store=open_store("sqlite:///:memory:"), fanout=fanout)) as trail,
    ):
        agent = AgentBuilder("quick").with_model(ScriptedModel(["hello", "again"])).build()
        await trail.run(agent, "hi", session="a")
        stored = await trail.session("a").events()
        late = ReplyDelta(session_id="a", execution_id="a:1", step=1, attempt=1, text="hello")
        begun = next(record.version for record in stored if isinstance(record.event, InferenceStarted))
        async with trail.session("a").follow(forever=True) as following:
            for _ in stored:
                await anext(following)
            fanout.show("agent:a", begun, late)
            await trail.session("a").send(agent, "again")
            assert isinstance(await anext(following), Recorded)


async def test_nothing_is_left_when_the_trails_are_closed(postgres_url: str) -> None:
    before = set(threading.enumerate())
    async with asyncio.timeout(PATIENCE), Steptrail.open(postgres_url) as here, Steptrail.open(postgres_url) as there:
        await here.run(AgentBuilder("quick").with_model(ScriptedModel(["hello"])).build(), "hi", session="a")
        async with there.session("a").follow(forever=True) as following:
            await anext(following)
            assert any(thread.name == "steptrail-live" for thread in threading.enumerate())
    assert set(threading.enumerate()) <= before
    assert asyncio.all_tasks() == {asyncio.current_task()}


class Gated:
    """A driver that writes what it is told to."""

    def __init__(self) -> None:
        self._words: asyncio.Queue[str | None] = asyncio.Queue()

    def agent(self) -> Agent:
        return AgentBuilder("gated").with_model(self).build()

    def say(self, words: str) -> None:
        self._words.put_nowait(words)

    def end(self) -> None:
        self._words.put_nowait(None)

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="gated", model="gated")

    async def infer(self, request: ModelRequest) -> ModelReply:
        raise AssertionError(f"it was not asked to stream: {request}")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        assert request.messages
        said: list[str] = []
        while (words := await self._words.get()) is not None:
            said.append(words)
            yield ModelDelta(words)
        yield say("".join(said))

    async def close(self) -> None:
        pass


async def until(condition: Callable[[], object]) -> None:
    while not await asyncio.to_thread(condition):
        await asyncio.sleep(0.02)
