"""One reader of the log for all who wait: who is woken, who asks, and what is left afterwards."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from functools import partial
from traceback import extract_tb

import pytest

from steptrail import Agent, AgentBuilder, Limits, Steptrail
from steptrail.domain.errors import StoreUnavailable
from steptrail.domain.inference import ModelInfo, ModelReply, ModelRequest
from steptrail.domain.kernel.record import StreamHead
from steptrail.errors import Backoff, ErrorPolicy
from steptrail.runtime.kernel import running_effects
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.following import Following
from steptrail.runtime.kernel.log_reader import watch_stream
from steptrail.runtime.kernel.ports import EventStore, StoredStream
from steptrail.testing import ScriptedModel, say
from steptrail.testing.store_contract import Noted
from tests.integration.trail.test_subscriptions import PATIENCE, note
from tests.processes.agents.interposed import Interposed

SESSIONS = 20

pytestmark = pytest.mark.usefixtures("soon")


class Counting(Interposed):
    """A store that counts the questions for one stream, and those for what has grown. It can be made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.looked_for: set[str] = set()
        self.fault: Exception | None = None
        self.last_position_is_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        self.asked.append(stream)
        return await super().read(stream, after=after, limit=limit)

    async def version(self, stream: str) -> int:
        self.looked_for.add(stream)
        self.asked.append(stream)
        return await super().version(stream)

    async def last_position(self) -> int:
        self.asked.append("last_position")
        self.last_position_is_asked.set()
        await self.may_answer.wait()
        return await super().last_position()

    async def wait_past(self, position: int, *, timeout: float) -> None:
        if self.fault is not None:
            raise self.fault
        await super().wait_past(position, timeout=timeout)

    async def grown(self, after: int) -> tuple[int, Mapping[str, int]]:
        found = await super().grown(after)
        self.asked.append("grown")
        return found


class Thinking:
    """A model whose replies come when it is let go on."""

    def __init__(self, on_call: Callable[[], None] = lambda: None, *, fails: Exception | None = None) -> None:
        self.go_on, self.is_asked = asyncio.Event(), asyncio.Event()
        self._on_call, self._fails = on_call, fails

    def agent(self) -> Agent:
        return AgentBuilder("thinking").with_model(self).with_limits(Limits(stop_grace=0)).build()

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="thinking", model="thinking")

    async def infer(self, request: ModelRequest) -> ModelReply:
        self._on_call()
        self.is_asked.set()
        if self._fails is not None:
            raise self._fails
        await self.go_on.wait()
        return say("thought")

    async def close(self) -> None:
        pass


async def run_at_once(trail: Steptrail, name: str) -> None:
    await trail.run(AgentBuilder("quick").with_model(ScriptedModel(["hello"])).build(), "hi", session=name)


async def caught_up(trail: Steptrail, name: str) -> tuple[Following, "asyncio.Task[object]"]:
    """Follow a session that has ended up to its end, and wait for more."""
    following = trail.session(name).follow(forever=True)
    for _ in await trail.session(name).events():
        await anext(following)
    return following, asyncio.create_task(anext(following))


async def told(store: EventStore, stream: str) -> None:
    """Return when the reader of this loop has told what is stored now."""
    heard = asyncio.Event()
    watch = watch_stream(store, stream, lambda _: heard.set(), lambda _: None)
    for _ in range(2):  # the first may be the reader's beginning
        heard.clear()
        await note(store, stream, Noted())
        await heard.wait()
    watch.leave()


async def test_given_followers_of_other_sessions_when_one_grows_then_only_its_own_ask_the_store() -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        names = [f"s{i}" for i in range(SESSIONS)]
        for name in names:
            await run_at_once(trail, name)
        followed = [await caught_up(trail, name) for name in names]
        await told(store, "agent:elsewhere")
        store.asked.clear()
        await note(store, "agent:s3", Noted())
        await followed[3][1]
        await told(store, "agent:elsewhere")
        others = [stream for stream in store.asked if stream not in {"grown", "agent:s3", "agent:elsewhere"}]
        assert others == []
        assert not any(coming.done() for i, (_, coming) in enumerate(followed) if i != 3)
        for following, _ in followed:
            await following.aclose()
        await asyncio.wait([coming for _, coming in followed])


async def test_given_runs_in_flight_when_others_store_then_they_ask_nothing_and_their_own_stop_reaches_them() -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        names = [f"s{i}" for i in range(SESSIONS)]
        models = [Thinking(partial(store.looked_for.discard, f"agent:{name}")) for name in names]
        runs = [
            asyncio.create_task(trail.run(model.agent(), "hi", session=name))
            for model, name in zip(models, names, strict=True)
        ]
        for model in models:
            await model.is_asked.wait()
        while not store.looked_for >= {f"agent:{name}" for name in names}:
            await asyncio.sleep(0.01)  # until each run in flight has looked once
        await told(store, "agent:elsewhere")
        store.asked.clear()
        for _ in range(5):
            await told(store, "agent:elsewhere")
        assert {*store.asked} == {"grown", "agent:elsewhere"}
        await trail.session("s3").stop(by="ops")
        result = await runs[3]
        assert result.stop_reason == "user_requested"
        assert not any(run.done() for i, run in enumerate(runs) if i != 3)
        for model in models:
            model.go_on.set()
        await asyncio.gather(*runs)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_given_a_run_in_flight_when_the_store_is_away_then_that_is_told_more_and_more_seldom(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Away(Counting):
        refused = 0

        async def version(self, stream: str) -> int:
            if self.fault is not None:
                self.refused += 1
                raise self.fault
            return await super().version(stream)

    monkeypatch.setattr(running_effects, "_LOOK_AGAIN_SECONDS", 0.01)
    store, model = Away(), Thinking()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        running = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
        await model.is_asked.wait()
        for failures in (20, 40):
            store.fault = StoreUnavailable("the server is away")
            while store.refused < failures:
                await asyncio.sleep(0.01)
            store.fault = None
            store.looked_for.clear()
            while "agent:a" not in store.looked_for:
                await asyncio.sleep(0.01)
        model.go_on.set()
        await running
    # Each time the first and the second failure, and of the others the 4th, 8th, 16th and so on, which say so.
    assert sum("(said" not in record.getMessage() for record in caplog.records) == 4
    assert store.refused >= 40 > 2 * len(caplog.records)


async def test_given_a_run_that_sits_a_wait_out_when_others_store_then_it_asks_nothing_and_a_stop_ends_the_wait() -> (
    None
):
    store, model = Counting(), Thinking(fails=ConnectionError("not now"))
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(50))
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        agent = AgentBuilder("patient").with_model(model).with_error_policy(policy).build()
        running = asyncio.create_task(trail.run(agent, "hi", session="a"))
        await model.is_asked.wait()
        store.looked_for.clear()
        while "agent:a" not in store.looked_for:
            await asyncio.sleep(0.01)
        await told(store, "agent:elsewhere")
        store.asked.clear()
        for _ in range(30):
            await told(store, "agent:elsewhere")
        assert {*store.asked} == {"grown", "agent:elsewhere"}
        await trail.session("a").stop(by="ops")
        assert (await running).stop_reason == "user_requested"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_given_a_commit_before_the_reader_knows_where_the_log_ends_then_it_is_not_missed() -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        stored = len(await trail.session("a").events())
        store.may_answer.clear()
        following, coming = await caught_up(trail, "a")
        await store.last_position_is_asked.wait()
        await asyncio.sleep(0.05)
        await note(store, "agent:a", Noted())
        store.may_answer.set()
        await coming
        assert following.after == stored + 1
        await following.aclose()


async def test_given_an_older_log_in_the_place_of_the_one_before_then_who_follows_hears_what_grows_in_it() -> None:
    class Ahead(Counting):
        waits = asyncio.Event()

        async def last_position(self) -> int:
            return await super().last_position() + 1_000

        async def wait_past(self, position: int, *, timeout: float) -> None:
            self.waits.set()
            await super().wait_past(position, timeout=timeout)

    store = Ahead()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        following, coming = await caught_up(trail, "a")
        await store.waits.wait()
        await note(store, "agent:a", Noted())
        await coming
        await following.aclose()


async def test_given_a_reader_that_fails_then_who_follows_gets_the_error_and_keeps_the_place() -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        stored = len(await trail.session("a").events())
        store.fault = StoreUnavailable("the disk is gone")
        following, coming = await caught_up(trail, "a")
        with pytest.raises(StoreUnavailable, match="the disk is gone"):
            await coming
        with pytest.raises(StoreUnavailable, match="the disk is gone"):
            await anext(following)
        store.fault = None
        # The next reader has told what comes now before this follower watches again.
        other = watch_stream(store, "agent:b", lambda _: None, lambda _: None)
        await told(store, "agent:elsewhere")
        await note(store, "agent:a", Noted())
        await told(store, "agent:elsewhere")
        await anext(following)
        assert following.after == stored + 1
        await following.aclose()
        other.leave()


async def test_given_a_reader_that_fails_then_each_who_follows_is_told_where_and_not_who_was_told_before() -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        waiting = [await caught_up(trail, "a") for _ in range(SESSIONS)]
        store.fault = StoreUnavailable("the disk is gone")
        raised = await asyncio.gather(*(coming for _, coming in waiting), return_exceptions=True)
        # All are told by one error, whose traceback is as the last of them raised it.
        (error,) = {id(each): each for each in raised}.values()
        assert isinstance(error, StoreUnavailable)
        places = [frame.name for frame in extract_tb(error.__traceback__)]
        assert places.count("wait_past") == 1
        assert places.count("__anext__") == 1
        for following, _ in waiting:
            await following.aclose()


async def test_given_a_reader_that_fails_then_runs_in_flight_go_on_and_hear_of_a_stop_later() -> None:
    store, model = Counting(), Thinking()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        store.fault = StoreUnavailable("the disk is gone")
        running = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
        await store.last_position_is_asked.wait()
        await asyncio.sleep(0.05)
        assert store.asked.count("last_position") == 1  # it is not tried again and again
        store.fault = None
        await trail.session("a").stop(by="ops")
        assert (await running).stop_reason == "user_requested"


async def test_given_somebody_who_cancels_the_reader_then_who_follows_goes_on() -> None:
    async with asyncio.timeout(PATIENCE), Steptrail.open("sqlite:///:memory:") as trail:
        await run_at_once(trail, "a")
        following, coming = await caught_up(trail, "a")
        await told(trail.store, "agent:elsewhere")
        (reader,) = [task for task in asyncio.all_tasks() if task.get_name() == "steptrail-log-reader"]
        reader.cancel()
        await asyncio.wait([reader])
        await note(trail.store, "agent:a", Noted())
        await coming
        await following.aclose()


async def test_given_nobody_who_waits_any_more_then_no_reader_is_left() -> None:
    async with asyncio.timeout(PATIENCE), Steptrail.open("sqlite:///:memory:") as trail:
        for _ in range(3):
            watches = [watch_stream(trail.store, "agent:a", lambda _: None, lambda _: None) for _ in range(3)]
            await told(trail.store, "agent:b")
            for watch in watches:
                assert not watch.is_over
                watch.leave()
                watch.leave()
                assert watch.is_over
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)


async def test_given_a_trail_that_is_closed_while_many_wait_then_all_end_and_nothing_is_left() -> None:
    before, trail = set(threading.enumerate()), Steptrail.open("sqlite:///:memory:")
    async with asyncio.timeout(PATIENCE):
        await run_at_once(trail, "a")
        followed = [await caught_up(trail, "a") for _ in range(3)]
        await trail.close()
        for _, coming in followed:
            with pytest.raises(StopAsyncIteration):
                await coming
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert set(threading.enumerate()) <= before


def test_followers_in_several_event_loops_have_a_reader_each() -> None:
    trail = Steptrail.open("sqlite:///:memory:")
    asyncio.run(run_at_once(trail, "a"))
    idle, seen = threading.Barrier(4), list[int]()

    async def follow() -> None:
        async with asyncio.timeout(PATIENCE):
            following, coming = await caught_up(trail, "a")
            await asyncio.to_thread(idle.wait)
            await coming
            seen.append(following.after)
            await following.aclose()

    threads = [threading.Thread(target=lambda: asyncio.run(follow())) for _ in range(3)]
    for thread in threads:
        thread.start()
    idle.wait()
    asyncio.run(note(trail.store, "agent:a", Noted()))
    for thread in threads:
        thread.join()
    asyncio.run(trail.close())
    assert seen == [seen[0]] * 3


@pytest.mark.parametrize("who", ["a follower", "a run in flight"])
async def test_a_commit_of_another_store_reaches_who_waits_here(who: str, store_url: str) -> None:
    async with asyncio.timeout(PATIENCE), Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        if who == "a follower":
            await run_at_once(other, "a")
            following, coming = await caught_up(trail, "a")
            await note(other.store, "agent:a", Noted())
            await coming
            await following.aclose()
        else:
            model = Thinking()
            running = asyncio.create_task(trail.run(model.agent(), "hi", session="a"))
            await model.is_asked.wait()
            await asyncio.sleep(0.1)  # it has looked once, and waits to be told
            await other.session("a").stop(by="ops")
            assert (await running).stop_reason == "user_requested"
