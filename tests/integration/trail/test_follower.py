"""A follower with a name: one at a time, on from where it was, in whatever process."""

import asyncio
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.broadcasting import Broadcaster
from steptrail.errors import ConfigurationError, FollowerBusy, StoreReadOnly, StoreUnavailable
from steptrail.events import ExecutionFinished, LogEntry
from steptrail.runtime.kernel.follower import Follower
from steptrail.testing import ScriptedModel
from tests.harness.store_urls import with_short_leases
from tests.integration.broadcast.transports import KeepingTransport

PATIENCE = 60.0


async def greet(trail: Steptrail, *sessions: str) -> None:
    agent = AgentBuilder("greeter").with_model(ScriptedModel(["hello"])).build()
    for session in sessions:
        await trail.run(agent, "hi", session=session)


async def take(follower: Follower, count: int) -> list[LogEntry]:
    async with asyncio.timeout(PATIENCE):
        return [await anext(follower) for _ in range(count)]


async def keep_on(follower: Follower, entry: LogEntry) -> None:
    while True:
        await follower.keep(entry.position)


async def test_it_goes_on_after_what_was_kept_and_hands_the_rest_out_again(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await greet(trail, "a")
        async with trail.follower("billing") as follower:
            assert follower.kept == 0
            first = await take(follower, 5)
            await follower.keep(first[2].position)
            assert follower.kept == first[2].position
    async with Steptrail.open(store_url) as trail:
        async with trail.follower("billing") as follower:
            assert follower.kept == first[2].position
            assert await take(follower, 2) == first[3:]
            await follower.keep(first[4].position)
            await follower.keep(first[0].position)  # to go back is to do nothing
            assert follower.kept == first[4].position
        async with trail.follower("search") as other:
            assert await take(other, 5) == first


async def test_it_follows_what_is_stored_later_and_only_what_was_asked_for(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await greet(trail, "a")
        async with trail.follower("ends", types=[ExecutionFinished.TYPE]) as follower:
            assert [entry.id for entry in await take(follower, 1)] == ["a"]
            coming = asyncio.create_task(take(follower, 2))
            await greet(trail, "b", "c")
            assert [entry.id for entry in await coming] == ["b", "c"]


async def test_one_is_at_work_at_a_time_and_whoever_waits_takes_over(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as elsewhere:
        await greet(trail, "a")
        async with trail.follower("billing") as first:
            (entry,) = await take(first, 1)
            with pytest.raises(FollowerBusy, match=r"follower 'billing' is at work already.*`wait=True`"):
                await elsewhere.follower("billing").__aenter__()
            async with elsewhere.follower("search"):
                pass
            waiting = elsewhere.follower("billing", wait=True)
            turn = asyncio.create_task(waiting.__aenter__())
            await asyncio.sleep(0)
            await first.keep(entry.position)
            assert not turn.done()
        async with asyncio.timeout(PATIENCE):
            await turn
        assert waiting.kept == entry.position
        await waiting.aclose()
        await waiting.aclose()
        assert [entry async for entry in waiting] == []


@pytest.mark.slow("waits for the renewal of a lease on a server")
async def test_one_that_stood_still_past_its_lease_leaves_the_rest_to_the_next_one(postgres_url: str) -> None:
    url, told = with_short_leases(postgres_url), KeepingTransport()
    async with Steptrail.open(url) as trail, Steptrail.open(postgres_url) as elsewhere:
        await greet(trail, "a")
        async with trail.follower("billing") as follower, Broadcaster(trail, told) as broadcaster:
            (entry,) = await take(follower, 1)
            await follower.keep(entry.position)
            await broadcaster.caught_up()
            # What the next one does when the lease has run out, without the wait for that.
            names = ("follower:billing", "follower:broadcast")
            held = [await elsewhere.store.acquire(each, owner="the next", take_over=True) for each in names]
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(FollowerBusy, match=r"'billing' is at work already by another process, which began"):
                    await keep_on(follower, entry)
                while (await broadcaster.stats()).is_at_work:
                    await greet(trail, f"b-{len(told.durable)}")
            with pytest.raises(FollowerBusy, match="the lease of this one had run out"):
                await take(follower, 1)
            before = len(told.durable)
            await greet(trail, "c")
            assert len(told.durable) == before
            for lease in held:
                await lease.release()
            async with asyncio.timeout(PATIENCE):
                await broadcaster.caught_up()
        assert told.durable[-1].session_id == "c"
        async with trail.follower("billing") as follower:
            assert follower.kept == entry.position


async def had_by_another(url: str, name: str) -> None:
    async with Steptrail.open(url) as elsewhere:
        await elsewhere.store.acquire(f"follower:{name}", owner="the next", take_over=True)


@pytest.mark.slow("waits for the renewal of a lease on a server")
def test_a_blocking_one_that_stood_still_past_its_lease_goes_on_with_nothing(postgres_url: str) -> None:
    agent = AgentBuilder("greeter").with_model(ScriptedModel(["hello"])).build()
    with Steptrail.open_sync(with_short_leases(postgres_url)) as trail, trail.follower("billing") as follower:
        asyncio.run(had_by_another(postgres_url, "billing"))

        def follow() -> None:
            for number in range(1_000):
                trail.run(agent, "hi", session=f"s{number}")
                next(iter(follower))

        with pytest.raises(FollowerBusy, match="the lease of this one had run out"):
            follow()


async def test_one_whose_trail_is_closed_ends_and_is_told_of_no_other_process(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await greet(trail, "a")
        async with trail.follower("billing") as follower:
            (entry,) = await take(follower, 1)
            await trail.close()
            assert [each async for each in follower] == []
            with pytest.raises(StoreUnavailable, match="is closed"):
                await follower.keep(entry.position)


async def test_what_cannot_be_meant_is_refused() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        for name in ("", "a b", "x" * 129):
            with pytest.raises(ConfigurationError, match="cannot be the name of a follower"):
                trail.follower(name)
        with pytest.raises(ConfigurationError, match="no event has this type"):
            trail.follower("billing", types=["nothing.v1"])
        with pytest.raises(ConfigurationError, match="works inside its block"):
            await anext(trail.follower("billing"))
        with pytest.raises(ConfigurationError, match="works inside its block"):
            await trail.follower("billing").keep(1)
    with pytest.raises(StoreUnavailable, match="the trail is closed"):
        trail.follower("billing")


async def test_a_store_that_is_only_read_keeps_no_place(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await greet(trail, "a")
    async with Steptrail.open(store_url, read_only=True) as trail:
        with pytest.raises((StoreReadOnly, StoreUnavailable)):
            async with trail.follower("billing") as follower:
                await follower.keep(1)


async def test_closing_the_trail_ends_it() -> None:
    trail = Steptrail.open("sqlite:///:memory:")
    follower = trail.follower("billing")
    await follower.__aenter__()
    asyncio.get_running_loop().call_soon(lambda: closing.append(asyncio.ensure_future(trail.close())))
    closing: list[asyncio.Future[None]] = []
    async with asyncio.timeout(PATIENCE):
        assert [entry async for entry in follower] == []
        await closing[0]


async def test_a_follower_that_cannot_be_opened_leaves_the_work_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await greet(trail, "a")

        async def away(follower: str) -> int:
            raise StoreUnavailable(f"nobody knows where {follower} was")

        with monkeypatch.context() as patched:
            patched.setattr(trail.store, "place", away)
            with pytest.raises(StoreUnavailable, match="where billing was"):
                async with trail.follower("billing"):
                    pass
        async with asyncio.timeout(PATIENCE), trail.follower("billing", wait=False) as follower:
            assert len(await take(follower, 3)) == 3


@pytest.mark.parametrize(
    ("position", "why"),
    [
        ("3", "the position that follower 'billing' keeps is a whole number, not str"),
        (None, "the position that follower 'billing' keeps is a whole number, not NoneType"),
        (1.0, "the position that follower 'billing' keeps is a whole number, not float"),
        (-1, "the position that follower 'billing' keeps is a number from 0 to"),
        (2**70, "the position that follower 'billing' keeps is a number from 0 to"),
    ],
)
async def test_what_is_no_position_is_not_kept(position: Any, why: str) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await greet(trail, "a")
        async with trail.follower("billing") as follower:
            with pytest.raises(ConfigurationError, match=why):
                await follower.keep(position)
            assert follower.kept == 0
            assert len(await take(follower, 5)) == 5


async def test_a_position_that_no_event_has_yet_is_not_kept_because_what_comes_would_be_lost(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await greet(trail, "a")
        last = [entry.position async for entry in trail.subscribe(follow=False)][-1]
        async with trail.follower("billing") as follower:
            with pytest.raises(ConfigurationError, match=rf"cannot keep position {last + 1}: the log ends at {last};"):
                await follower.keep(last + 1)
            await follower.keep(last)
            assert follower.kept == last


@pytest.mark.parametrize("types", [ExecutionFinished.TYPE, None])
async def test_types_that_are_no_list_are_refused(types: Any) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        with pytest.raises(ConfigurationError, match="`types` of a subscription: Expected a list, got"):
            trail.follower("billing", types=types)
