"""Following the log: what comes, in which order, from where, and how it ends."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.errors import ConfigurationError, CorruptRecord, StoreSetBack, StoreUnavailable
from steptrail.domain.kernel.event import EVENT_TYPES, Event
from steptrail.domain.kernel.log_page import LogPage
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.events import ExecutionFinished, LogEntry, SessionStarted
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.subscription import Subscription
from steptrail.testing import ScriptedModel
from steptrail.testing.store_contract import Noted, Written, commit_of
from tests.processes.agents.interposed import Interposed

PATIENCE = 60.0
"""When what should have come is given up, and the test with it."""


def greeter() -> Agent:
    return AgentBuilder("greeter").with_model(ScriptedModel(["hello"])).build()


async def play(scenario: Callable[[Steptrail], Awaitable[None]]) -> None:
    """Play on a store of its own; a scenario that hangs or leaves a task behind fails."""

    async with asyncio.timeout(PATIENCE):
        async with Steptrail.open("sqlite:///:memory:") as trail:
            await scenario(trail)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def rest_of(subscription: Subscription) -> list[LogEntry]:
    return [entry async for entry in subscription]


async def stored(trail: Steptrail, after: int = 0) -> list[LogEntry]:
    return await rest_of(trail.subscribe(after, follow=False))


async def take(subscription: Subscription, count: int) -> list[LogEntry]:
    return [await anext(subscription) for _ in range(count)]


async def note(store: EventStore, stream: str, *events: Event) -> None:
    await store.append(stream, (await store.read(stream)).head, commit_of("c", *events))


class Watched(Interposed):
    """A store that counts the records it has read, and keeps where somebody waited."""

    def __init__(self) -> None:
        super().__init__()
        self.read_records = 0
        self.waited_at: list[int] = []
        self.waits = asyncio.Event()

    async def log_page(
        self,
        after: int,
        limit: int,
        *,
        types: Sequence[str] = (),
        stream: str | None = None,
        heads: bool = True,
        is_lazy: bool = False,
    ) -> LogPage:
        page = await self.inner.log_page(after, limit, types=types, stream=stream, heads=heads, is_lazy=is_lazy)
        self.read_records += page.size
        return page

    async def wait_past(self, position: int, *, timeout: float) -> None:
        self.waited_at.append(position)
        self.waits.set()
        await self.inner.wait_past(position, timeout=timeout)


async def test_given_stored_sessions_then_each_event_comes_once_as_the_sessions_tell_it() -> None:
    async def scenario(trail: Steptrail) -> None:
        for name in ("a", "b", "a"):
            await trail.run(greeter(), "hi", session=name)
        entries = await stored(trail)
        assert [entry.position for entry in entries] == sorted({entry.position for entry in entries})
        for name in ("a", "b"):
            mine = [entry.record for entry in entries if entry.id == name]
            assert mine == list(await trail.session(name).events())
        assert {entry.id for entry in entries} == {"a", "b"}
        for i, entry in enumerate(entries):
            assert await stored(trail, entry.position) == entries[i + 1 :]

    await play(scenario)


async def test_given_a_log_of_many_pages_then_all_of_it_comes() -> None:
    async def scenario(trail: Steptrail) -> None:
        for i in range(3):
            await note(trail.store, f"agent:{i}", *(Noted(number=n) for n in range(700)))
        entries = await stored(trail)
        assert [entry.record.version for entry in entries] == [*range(1, 701)] * 3

    await play(scenario)


async def test_given_a_consumer_that_waits_then_a_run_of_this_process_reaches_it() -> None:
    async def scenario(trail: Steptrail) -> None:
        async with trail.subscribe() as entries:
            first = asyncio.create_task(anext(entries))
            await asyncio.sleep(0)
            await trail.run(greeter(), "hi", session="a")
            seen = [await first]
            while not isinstance(seen[-1].record.event, ExecutionFinished):
                seen.append(await anext(entries))
            assert [entry.record for entry in seen] == list(await trail.session("a").events())

    await play(scenario)


async def test_given_a_consumer_that_waits_then_a_run_on_another_store_reaches_it(store_url: str) -> None:
    async with asyncio.timeout(PATIENCE), Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        entries = trail.subscribe(types=[ExecutionFinished.TYPE])
        for name in ("a", "b"):
            coming = asyncio.create_task(anext(entries))
            await other.run(greeter(), "hi", session=name)
            assert (await coming).id == name


async def test_given_now_then_what_was_stored_before_it_was_entered_is_left_out() -> None:
    async def scenario(trail: Steptrail) -> None:
        await note(trail.store, "agent:a", Noted(number=1))
        subscription = trail.subscribe("now")
        await note(trail.store, "agent:a", Noted(number=2))
        async with subscription as entries:
            await note(trail.store, "agent:a", Noted(number=3))
            assert (await anext(entries)).record.version == 3
        late = trail.subscribe("now", follow=False)
        assert await rest_of(late) == []

    await play(scenario)


async def test_given_types_then_only_they_come() -> None:
    async def scenario(trail: Steptrail) -> None:
        for name in ("a", "b"):
            await trail.run(greeter(), "hi", session=name)
        types = [SessionStarted.TYPE, ExecutionFinished.TYPE]
        found = await rest_of(trail.subscribe(types=types, follow=False))
        assert [(entry.id, entry.record.event.TYPE) for entry in found] == [
            (name, kind) for name in ("a", "b") for kind in types
        ]

    await play(scenario)


async def test_given_a_session_then_only_its_events_come_also_when_it_begins_later() -> None:
    async def scenario(trail: Steptrail) -> None:
        async with trail.subscribe(session="b") as entries:
            first = asyncio.create_task(anext(entries))
            for name in ("a", "b", "bb"):
                await trail.run(greeter(), "hi", session=name)
            events = await trail.session("b").events()
            seen = [await first, *await take(entries, len(events) - 1)]
            assert [entry.record for entry in seen] == list(events)
        everything = [entry for entry in await stored(trail) if entry.id == "b"]
        assert seen == everything
        middle = everything[2].position
        assert await rest_of(trail.subscribe(middle, session="b", follow=False)) == everything[3:]

    await play(scenario)


async def test_given_what_cannot_be_meant_then_it_is_refused_at_once() -> None:
    async def scenario(trail: Steptrail) -> None:
        with pytest.raises(ConfigurationError, match=r"'execution\.finishd\.v1'"):
            trail.subscribe(types=["execution.finishd.v1"])
        with pytest.raises(ConfigurationError, match="-1"):
            trail.subscribe(-1)
        wrong: Any = "no"
        with pytest.raises(ConfigurationError, match="`follow` is True or False, not 'no'"):
            trail.subscribe(follow=wrong)
        with pytest.raises(ConfigurationError, match="`on_corrupt` is a function, not str"):
            trail.follower("mailer", on_corrupt=wrong)
        with pytest.raises(ConfigurationError, match="session id"):
            trail.subscribe(session="no spaces")

    await play(scenario)


async def test_given_streams_of_other_kinds_then_their_events_come_in_the_order_of_the_log() -> None:
    async def scenario(trail: Steptrail) -> None:
        await note(trail.store, "flow:a", *(Noted() for _ in range(700)))
        await note(trail.store, "agent:a", Noted())
        await note(trail.store, "flow:a", Noted())
        seen = [(entry.stream, entry.kind, entry.id) for entry in await stored(trail)]
        assert seen == [("flow:a", "flow", "a")] * 700 + [("agent:a", "agent", "a"), ("flow:a", "flow", "a")]

    await play(scenario)


@pytest.mark.parametrize("stream", ["agent:a", "flow:a"])
async def test_given_nothing_that_is_wanted_then_it_waits_past_what_it_has_seen(stream: str) -> None:
    store = Watched()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await note(store, stream, Noted(), Noted())
        async with trail.subscribe(types=[Written.TYPE]) as entries:
            coming = asyncio.create_task(anext(entries))
            await store.waits.wait()
            assert store.waited_at == [await store.last_position()]
            await note(store, "agent:b", Written())
            assert (await coming).id == "b"


async def test_given_a_slow_consumer_then_one_page_waits_for_it_and_runs_go_on() -> None:
    store = Watched()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await note(store, "agent:a", *(Noted() for _ in range(2000)))
        async with trail.subscribe() as entries:
            await anext(entries)
            await trail.run(greeter(), "hi", session="b")
            assert store.read_records == 500
            await take(entries, 1999)
            assert store.read_records <= 2500
            assert (await anext(entries)).id == "b"


async def test_given_a_wait_that_is_cancelled_then_the_subscription_goes_on_where_it_was() -> None:
    async def scenario(trail: Steptrail) -> None:
        async with trail.subscribe() as entries:
            for i in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await anext(entries)
                await note(trail.store, "agent:a", Noted(number=i), Noted(number=i))
                assert [entry.record.version for entry in await take(entries, 2)] == [2 * i + 1, 2 * i + 2]

    await play(scenario)


async def test_given_cancellations_at_any_moment_then_each_event_still_comes_once_and_in_order() -> None:
    async def scenario(trail: Steptrail) -> None:
        async def write() -> None:
            for i in range(300):
                await note(trail.store, "agent:a", Noted(number=i))

        writing = asyncio.create_task(write())
        seen: list[int] = []
        turns = 0
        async with trail.subscribe() as entries:
            while len(seen) < 300:
                asking = asyncio.create_task(anext(entries))
                for _ in range(turns % 7):
                    await asyncio.sleep(0)
                turns += 1
                asking.cancel()
                try:
                    seen.append((await asking).record.version)
                except asyncio.CancelledError:
                    pass
                if turns % 5 == 0 and len(seen) < 300:
                    seen.append((await anext(entries)).record.version)
        assert seen == list(range(1, 301))
        await writing

    await play(scenario)


async def test_given_several_tasks_on_one_subscription_then_each_event_goes_to_one_of_them() -> None:
    async def scenario(trail: Steptrail) -> None:
        seen: list[int] = []
        entries = trail.subscribe()

        async def consume() -> None:
            async for entry in entries:
                seen.append(entry.record.version)
                if len(seen) == 50:
                    await entries.aclose()

        consumers = [asyncio.create_task(consume()) for _ in range(4)]
        for i in range(50):
            await note(trail.store, "agent:a", Noted(number=i))
        await asyncio.gather(*consumers)
        assert seen == list(range(1, 51))

    await play(scenario)


@pytest.mark.parametrize("moment", ["before it is asked", "while it waits", "with events at hand"])
async def test_given_a_subscription_that_is_closed_then_the_iteration_ends(moment: str) -> None:
    async def scenario(trail: Steptrail) -> None:
        entries = trail.subscribe()
        if moment == "with events at hand":
            await note(trail.store, "agent:a", Noted(), Noted())
            await anext(entries)
        asking = asyncio.create_task(rest_of(entries)) if moment == "while it waits" else None
        await asyncio.sleep(0.01)
        await entries.aclose()
        await entries.aclose()
        assert (await asking if asking else await rest_of(entries)) == []

    await play(scenario)


async def test_given_a_wait_that_would_never_end_then_closing_the_subscription_ends_it() -> None:
    store = Watched()

    async def forever(position: int, *, timeout: float) -> None:
        store.waits.set()
        await asyncio.Event().wait()

    store.wait_past = forever  # type: ignore[method-assign]
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        entries = trail.subscribe()
        asking = asyncio.create_task(rest_of(entries))
        await store.waits.wait()
        await entries.aclose()
        assert await asking == []


async def test_given_a_trail_that_is_closed_then_the_consumers_end_wherever_they_are(store_url: str) -> None:
    trail = Steptrail.open(store_url)
    await note(trail.store, "agent:a", Noted(), Noted())
    waiting = asyncio.create_task(rest_of(trail.subscribe("now")))
    busy, unasked = trail.subscribe(), trail.subscribe()
    await anext(busy)
    await asyncio.sleep(0.01)
    await trail.close()
    for ended in (await waiting, await rest_of(busy), await rest_of(unasked)):
        assert ended == []
    with pytest.raises(StoreUnavailable, match="closed"):
        trail.subscribe()


async def test_given_a_store_that_fails_then_its_error_is_raised_and_the_place_is_kept() -> None:
    store = Watched()
    broken = True

    async def fail(position: int, *, timeout: float) -> None:
        if broken:
            raise StoreUnavailable("the disk is gone")
        await store.inner.wait_past(position, timeout=timeout)

    store.wait_past = fail  # type: ignore[method-assign]
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await note(store, "agent:a", Noted())
        entries = trail.subscribe()
        await anext(entries)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="the disk is gone"):
                await anext(entries)
        broken = False
        await note(store, "agent:a", Noted())
        assert (await anext(entries)).record.version == 2


async def test_given_a_record_that_cannot_be_read_then_what_stands_before_it_comes_and_then_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(trail: Steptrail) -> None:
        await trail.store.append("agent:a", EMPTY_STREAM, commit_of("c", Noted(), Written(), Noted()))
        positions = [entry.position for entry in await stored(trail)]
        monkeypatch.delitem(EVENT_TYPES, Written.TYPE)
        entries = trail.subscribe()
        assert (await anext(entries)).record.version == 1
        for _ in range(2):
            with pytest.raises(CorruptRecord, match="record 2") as caught:
                await anext(entries)
            assert caught.value.position == positions[1]
        assert [entry.position for entry in await stored(trail, positions[1])] == positions[2:]

    await play(scenario)


async def test_given_on_corrupt_then_it_is_told_in_turn_once_and_the_rest_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(trail: Steptrail) -> None:
        pattern = [Noted(), *(Written() for _ in range(600)), Noted(), Written()]
        await trail.store.append("agent:a", EMPTY_STREAM, commit_of("c", *pattern))
        monkeypatch.delitem(EVENT_TYPES, Written.TYPE)
        seen: list[int] = []
        async with trail.subscribe(on_corrupt=lambda error: seen.append(error.version)) as entries:
            seen += [entry.record.version for entry in await take(entries, 1)]
            assert seen == [1]
            seen += [entry.record.version for entry in await take(entries, 1)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(entries)
            await note(trail.store, "agent:b", Noted())
            assert (await anext(entries)).id == "b"
        assert seen == list(range(1, len(pattern) + 1))

    await play(scenario)


async def test_given_a_subscription_that_has_read_nothing_then_it_has_handed_out_what_it_begins_after() -> None:
    async def scenario(trail: Steptrail) -> None:
        await note(trail.store, "agent:a", Noted(number=1), Noted(number=2), Noted(number=3))
        assert trail.subscribe("now").handed_out == 0
        assert trail.subscribe().handed_out == 0
        later = trail.subscribe(after=2)
        assert later.handed_out == 2
        assert (await anext(later)).position == 3
        assert later.handed_out == 3

    await play(scenario)


@pytest.mark.parametrize("follow", [True, False])
async def test_a_place_behind_the_end_of_the_log_is_refused_because_what_comes_up_to_there_would_be_left_out(
    store_url: str, *, follow: bool
) -> None:
    async with asyncio.timeout(PATIENCE), Steptrail.open(store_url) as trail:
        await note(trail.store, "agent:s", Noted())
        end = await trail.store.last_position()
        with pytest.raises(StoreSetBack) as refused:
            await anext(trail.subscribe(end + 3, follow=follow))
        assert refused.value.place == end + 3
        assert await rest_of(trail.subscribe(end, follow=False)) == []
