"""Following one session: events of any process and live updates of this one, in one order."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import pytest

from steptrail import Agent, AgentBuilder, Steptrail, ToolContext, ToolEffect, tool
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.inference import ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import ReplyDelta, ToolProgress, UpdatesLost
from steptrail.errors import ConfigurationError, SessionNotFound
from steptrail.events import ExecutionFinished, InferenceCompleted, InferenceFailed, InferenceStarted
from steptrail.runtime.kernel.following import Followed, Following
from steptrail.runtime.kernel.live_fanout import LiveFanout
from steptrail.testing import Reply, ScriptedModel, call, calls, say
from tests.integration.trail.test_subscriptions import PATIENCE

QUESTION = "Where is the tea?"
ANSWER = "The tea is on shelf 2, behind the coffee."


@tool(effect=ToolEffect.READ)
def scan(shelves: int, context: ToolContext) -> str:
    """Scan the shelves for tea."""
    for shelf in range(1, shelves + 1):
        context.progress(f"shelf {shelf}", done=shelf, total=shelves)
    return "tea on shelf 2"


SCANNED: Sequence[Reply] = (call("scan", shelves=3), ANSWER)
GREETED_FIRST: Sequence[Reply] = ("hello", *SCANNED)


def clerk(script: Sequence[Reply] = SCANNED) -> Agent:
    return AgentBuilder("clerk").with_model(ScriptedModel(script)).with_tools(scan).build()


class Halting:
    """A driver that stops in the middle of its reply until it is let go on."""

    def __init__(self, *pieces: str, breaks_off: bool = False) -> None:
        self.written, self.go_on = asyncio.Event(), asyncio.Event()
        self._pieces, self._breaks_off = pieces, breaks_off

    def agent(self) -> Agent:
        return AgentBuilder("halting").with_model(self).build()

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="halting", model="halting")

    async def infer(self, request: ModelRequest) -> ModelReply:
        self.written.set()
        await self.go_on.wait()
        return say("".join(self._pieces))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        assert request.messages
        for piece in self._pieces[:-1]:
            yield ModelDelta(piece)
        self.written.set()
        await self.go_on.wait()
        if self._breaks_off:
            raise ConnectionResetError("no line")
        yield ModelDelta(self._pieces[-1])
        yield say("".join(self._pieces))

    async def close(self) -> None:
        pass


async def play(scenario: Callable[[Steptrail], Awaitable[None]], *, live: bool = False, url: str = ":memory:") -> None:
    """Play on a store of its own; a scenario that hangs or leaves a task behind fails."""

    async with asyncio.timeout(PATIENCE):
        async with Steptrail.open(f"sqlite:///{url}", live=live) as trail:
            await scenario(trail)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def versions(seen: Sequence[Followed]) -> list[int]:
    return [each.version for each in seen if isinstance(each, Recorded)]


def text(seen: Sequence[Followed]) -> str:
    return "".join(each.text for each in seen if isinstance(each, ReplyDelta))


def index_of(seen: Sequence[Followed], kind: type[AgentEvent]) -> list[int]:
    return [i for i, each in enumerate(seen) if isinstance(each, Recorded) and isinstance(each.event, kind)]


async def rest(following: Following) -> list[Followed]:
    return [each async for each in following]


async def until_shown(following: Following, shown: str) -> list[Followed]:
    seen: list[Followed] = []
    while text(seen) != shown:
        seen.append(await anext(following))
    return seen


async def test_given_a_session_that_has_ended_then_from_every_version_the_rest_of_it_comes_and_that_is_all() -> None:
    async def scenario(trail: Steptrail) -> None:
        await trail.run(clerk(), QUESTION, session="a")
        stored = list(await trail.session("a").events())
        for after in range(len(stored) + 2):
            async with trail.session("a").follow(after=after) as following:
                assert await rest(following) == stored[after:]
                assert following.after == max(after, len(stored))

    await play(scenario)


async def test_given_a_run_of_this_process_then_text_and_progress_come_between_their_events() -> None:
    async def scenario(trail: Steptrail) -> None:
        await trail.run(clerk(["hello"]), "hi", session="a")
        async with trail.session("a").follow(after=1, forever=True) as following:
            running = asyncio.create_task(trail.session("a").send(clerk(GREETED_FIRST), QUESTION))
            seen = [await anext(following)]
            while len(index_of(seen, ExecutionFinished)) < 2:
                seen.append(await anext(following))
        stored = await trail.session("a").events()
        assert versions(seen) == [record.version for record in stored][1:]
        begins, ends = index_of(seen, InferenceStarted)[-1], index_of(seen, InferenceCompleted)[-1]
        assert [type(each) for each in seen[begins + 1 : ends]] == [ReplyDelta] * (ends - begins - 1)
        assert text(seen[begins:ends]) == text(seen) == ANSWER
        progress = [i for i, each in enumerate(seen) if isinstance(each, ToolProgress)]
        assert [each.done for each in seen if isinstance(each, ToolProgress)] == [1, 2, 3]
        assert index_of(seen, InferenceCompleted)[-2] < progress[0] < progress[-1] < begins
        assert (await running).output == ANSWER

    await play(scenario)


async def test_given_one_who_comes_in_the_middle_of_a_reply_then_its_beginning_is_shown_too() -> None:
    async def scenario(trail: Steptrail) -> None:
        model = Halting("It is ", "very ", "late.")
        running = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        stored = await trail.session("a").events()
        begun = stored[-1].version
        for after in (0, begun - 1, begun):
            async with trail.session("a").follow(after=after) as following:
                seen = await until_shown(following, "It is very ")
                assert versions(seen) == list(range(after + 1, begun + 1))
                assert isinstance(seen[-1], ReplyDelta)
        async with trail.session("a").follow() as following:
            model.go_on.set()
            assert text(await rest(following)) == "It is very late."
        await running
        async with trail.session("a").follow() as following:
            assert text(await rest(following)) == ""

    await play(scenario, live=True)


async def test_given_a_very_long_reply_then_whoever_comes_in_the_middle_is_shown_all_that_is_written() -> None:
    async def scenario(trail: Steptrail) -> None:
        lines = [f"{number:4095}\n" for number in range(100)]
        model = Halting(*lines, "The end.")
        running = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        async with trail.session("a").follow() as following:
            assert text(await until_shown(following, "".join(lines))) == "".join(lines)
            model.go_on.set()
            await running
            assert not any(isinstance(each, UpdatesLost) for each in await rest(following))

    await play(scenario, live=True)


async def test_given_a_message_that_came_in_meanwhile_then_whoever_has_seen_it_still_sees_the_reply_being_written() -> (
    None
):
    async def scenario(trail: Steptrail) -> None:
        model = Halting("It is ", "late.")
        running = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        await trail.session("a").pause()
        after = (await trail.session("a").state()).version
        async with trail.session("a").follow(after=after) as following:
            assert await until_shown(following, "It is ")
            model.go_on.set()
            await running

    await play(scenario, live=True)


async def test_given_a_reply_that_broke_off_then_whoever_comes_later_is_not_shown_what_there_was_of_it() -> None:
    async def scenario(trail: Steptrail) -> None:
        model = Halting("It is ", "late.", breaks_off=True)
        running = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        following = trail.session("a").follow()
        await following.begin()
        model.go_on.set()
        await running
        seen = await rest(following)
        assert text(seen) == "It is "
        shown = next(i for i, each in enumerate(seen) if isinstance(each, ReplyDelta))
        assert index_of(seen, InferenceStarted)[0] < shown < index_of(seen, InferenceFailed)[0]
        async with trail.session("a").follow() as late:
            assert text(await rest(late)) == ""

    await play(scenario, live=True)


async def test_given_nobody_who_follows_then_models_are_not_asked_to_stream_unless_the_trail_says_so() -> None:
    async def scenario(trail: Steptrail) -> None:
        model = Halting("It is ", "late.")
        running = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        async with trail.session("a").follow() as following:
            model.go_on.set()
            assert text(await rest(following)) == ""
        await running

    await play(scenario)


async def test_given_a_consumer_that_does_not_come_then_the_run_ends_all_the_same_and_it_is_said_what_was_dropped() -> (
    None
):
    async def scenario(trail: Steptrail) -> None:
        script: list[Reply] = [
            "hello",
            *(calls(("scan", {"shelves": 1}), text=f"Shelf {i}?") for i in range(90)),
            ANSWER,
        ]
        await trail.run(clerk(["hello"]), "hi", session="a")
        following = trail.session("a").follow(forever=True)
        await following.begin()
        agent = AgentBuilder("clerk").with_model(ScriptedModel(script)).with_tools(scan).with_max_steps(200).build()
        await trail.session("a").send(agent, QUESTION)
        stored = await trail.session("a").events()
        seen: list[Followed] = []
        while len(versions(seen)) < len(stored):
            seen.append(await anext(following))
        await following.aclose()
        assert versions(seen) == [record.version for record in stored]
        lost = [each for each in seen if isinstance(each, UpdatesLost)]
        shown = [each for each in seen if isinstance(each, (ReplyDelta, ToolProgress))]
        assert len(lost) == 1
        assert lost[0].count > 200
        assert 0 < len(shown) <= 64
        assert text(seen).endswith(ANSWER)

    await play(scenario)


async def test_given_another_process_that_stores_then_its_events_come(tmp_path: object) -> None:
    url = f"{tmp_path}/runs.db"

    async def scenario(trail: Steptrail) -> None:
        await trail.run(clerk(["hello"]), "hi", session="a")
        async with trail.session("a").follow(forever=True) as following, Steptrail.open(f"sqlite:///{url}") as other:
            await other.session("a").send(clerk(GREETED_FIRST), QUESTION)
            stored = await other.session("a").events()
            seen = [await anext(following) for _ in stored]
        assert seen == list(stored)

    await play(scenario, url=url)


async def test_given_a_run_that_does_nothing_for_a_while_then_who_follows_it_waits_for_its_end() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def ponder() -> str:
        """Ponder."""
        begun.set()
        await go_on.wait()
        return "done"

    async def scenario(trail: Steptrail) -> None:
        model = Halting("It is ", "late.")
        agent = AgentBuilder("slow").with_model(ScriptedModel([call("ponder"), "done"])).with_tools(ponder).build()
        paused = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        paused.cancel()
        await asyncio.wait({paused})
        following = trail.session("a").follow()
        await following.begin()
        running = asyncio.create_task(trail.session("a").resume(agent))
        reading = asyncio.create_task(rest(following))
        await begun.wait()
        # It has read all that there is by then, or has not looked yet and proves nothing.
        await asyncio.wait({reading}, timeout=0.2)
        go_on.set()
        assert index_of(await reading, ExecutionFinished) != []
        await running

    await play(scenario)


async def test_given_a_paused_session_then_who_follows_it_waits_for_its_end() -> None:
    async def scenario(trail: Steptrail) -> None:
        model = Halting("It is ", "late.")
        running = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
        await model.written.wait()
        running.cancel()
        await asyncio.wait({running})
        following = trail.session("a").follow()
        reading = asyncio.create_task(rest(following))
        model.go_on.set()
        await trail.session("a").resume(model.agent())
        seen = await reading
        assert index_of(seen, ExecutionFinished) == [len(seen) - 1]

    await play(scenario)


@pytest.mark.parametrize("by", ["itself", "the trail"])
async def test_given_one_that_waits_then_closing_ends_it(by: str) -> None:
    async def scenario(trail: Steptrail) -> None:
        await trail.run(clerk(["hello"]), "hi", session="a")
        following = trail.session("a").follow(after=1, forever=True)
        reading = asyncio.create_task(rest(following))
        while following.after < len(await trail.session("a").events()):
            await asyncio.sleep(0)
        await (following.aclose() if by == "itself" else trail.close())
        assert len(await reading) > 0
        assert await rest(following) == []

    await play(scenario)


async def test_given_no_such_session_or_place_then_it_is_said() -> None:
    async def scenario(trail: Steptrail) -> None:
        with pytest.raises(SessionNotFound):
            await anext(trail.session("nobody").follow())
        with pytest.raises(SessionNotFound):
            async with trail.session("nobody").follow():
                pass
        for nowhere in (-1, 10**30):
            with pytest.raises(ConfigurationError):
                trail.session("nobody").follow(after=nowhere)

    await play(scenario)


@pytest.mark.parametrize("after", [10**6, 2**63 - 1])
async def test_given_a_place_that_an_ended_session_never_came_to_then_nothing_comes(after: int) -> None:
    async def scenario(trail: Steptrail) -> None:
        await trail.run(clerk(), QUESTION, session="a")
        async with trail.session("a").follow(after=after) as following:
            assert await rest(following) == []

    await play(scenario)


async def test_given_a_wait_that_is_cut_off_then_nothing_is_lost() -> None:
    async def scenario(trail: Steptrail) -> None:
        await trail.run(clerk(["hello"]), "hi", session="a")
        async with trail.session("a").follow(forever=True) as following:
            seen: list[Followed] = []

            async def read() -> None:
                async for each in following:
                    seen.append(each)

            running = asyncio.create_task(trail.session("a").send(clerk(GREETED_FIRST), QUESTION))
            for turns in range(60):
                reading = asyncio.create_task(read())
                for _ in range(turns):
                    await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait({reading})
            await running
            while len(index_of(seen, ExecutionFinished)) < 2:
                seen.append(await anext(following))
        assert versions(seen) == [record.version for record in await trail.session("a").events()]

    await play(scenario)


def test_updates_from_another_event_loop_reach_the_inbox_in_its_own() -> None:
    async def scenario() -> None:
        fanout, news = LiveFanout(), asyncio.Event()
        inbox = fanout.join("a", news.set)
        update = ReplyDelta(session_id="a", execution_id="a:1", step=1, attempt=1, text="It")

        async def elsewhere() -> None:
            fanout.tell("a", 7, update)

        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        thread.start()
        await news.wait()
        thread.join()
        assert (inbox.version, inbox.take()) == (7, update)

    asyncio.run(scenario())


def test_the_blocking_twin_follows_too() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        trail.run(clerk(), QUESTION, session="a")
        stored = list(trail.session("a").events())
        with trail.session("a").follow(after=3) as following:
            assert list(following) == stored[3:]
            assert following.after == len(stored)
        forever = trail.session("a").follow(forever=True)
        seen = [next(forever) for _ in stored]
        ended = threading.Thread(target=lambda: seen.extend(forever))
        ended.start()
    ended.join()
    assert seen == stored


async def test_given_a_block_that_is_left_then_nobody_is_followed_any_more() -> None:
    async def scenario(trail: Steptrail) -> None:
        await trail.run(clerk(["hello"]), "hi", session="a")
        async with trail.session("a").follow(forever=True) as following:
            await anext(following)
        async with asyncio.timeout(PATIENCE):
            assert await rest(following) == []

    await play(scenario)
