"""Many who follow one session: it is read once for all of them, and each gets all of it at his own pace."""

import asyncio

import pytest

from steptrail import Steptrail
from steptrail.broadcasting import BroadcastConfig, BroadcastEnvelope, envelopes_of
from steptrail.domain.errors import StoreUnavailable
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.http.session_messages import SessionMessages
from steptrail.runtime.kernel.channel import take_seat
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.following import Following
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.testing import Reply, calls
from steptrail.testing.store_contract import Noted
from tests.integration.trail.test_following import QUESTION, clerk
from tests.integration.trail.test_subscriptions import PATIENCE, note
from tests.trail.test_log_reader import Counting, caught_up, run_at_once, told

MANY = 50


async def took(following: Following, count: int) -> list[int]:
    seen: list[int] = []
    while len(seen) < count:
        if isinstance(each := await anext(following), Recorded):
            seen.append(each.version)
    return seen


async def test_given_many_who_follow_one_session_when_it_grows_then_it_is_read_once() -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        followed = [await caught_up(trail, "a") for _ in range(MANY)]
        await told(store, "agent:elsewhere")  # the reader of the log has told that it has begun
        store.asked.clear()
        await note(store, "agent:a", Noted())
        events = await asyncio.gather(*(coming for _, coming in followed))
        assert store.asked[store.asked.index("grown") :].count("agent:a") == 1
        assert all(event is events[0] for event in events)
        for following, _ in followed:
            await following.aclose()


async def test_given_many_who_come_at_once_then_the_session_is_folded_once_for_those_who_wait() -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        stored = len(await trail.session("a").events())
        store.asked.clear()
        followed = [trail.session("a").follow(after=stored, forever=True) for _ in range(MANY)]
        await asyncio.gather(*(following.begin() for following in followed))
        assert store.asked.count("agent:a") <= 4
        for following in followed:
            await following.aclose()


@pytest.mark.parametrize("begins", ["at the beginning", "at the end"])
async def test_given_one_who_is_slow_then_the_others_get_all_and_so_does_he_in_the_end(begins: str) -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        stored = len(await trail.session("a").events())
        after = 0 if begins == "at the beginning" else stored
        slow, quick, cancelled = (trail.session("a").follow(after=after, forever=True) for _ in range(3))
        for following in (slow, quick, cancelled):
            await following.begin()
        newest = stored
        for _ in range(5):
            reading = asyncio.create_task(anext(cancelled))
            await note(store, "agent:a", *[Noted()] * 400)
            reading.cancel()
            begin, newest = quick.after, newest + 400
            assert await took(quick, newest - begin) == list(range(begin + 1, newest + 1))
            await asyncio.wait([reading])
        for following in (slow, cancelled):
            begin = following.after
            assert await took(following, newest - begin) == list(range(begin + 1, newest + 1))
        for following in (slow, quick, cancelled):
            await following.aclose()


async def test_given_one_who_is_slow_then_no_more_than_a_thousand_records_are_kept_for_him() -> None:
    store = Counting()
    kind = KINDS.of("agent:a")
    assert kind is not None
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        slow, quick = (
            take_seat(store, "agent:a", kind, after=0, wake=lambda: None, fail=lambda _: None) for _ in range(2)
        )
        slow.channel.watch()
        for _ in range(6):
            await note(store, "agent:a", *[Noted()] * 400)
        while quick.after < 2400:
            await quick.read()
        store.asked.clear()
        await slow.read()
        assert store.asked.count("agent:a") == 1  # what he asks for is kept no more
        while slow.after < 1500:
            await slow.read()
        store.asked.clear()
        while slow.after < 2400:
            await slow.read()
        assert store.asked.count("agent:a") == 0
        for seat in (slow, quick):
            seat.leave()


@pytest.mark.parametrize(("count", "asks"), [(2, 0), (3, 1)])
async def test_given_one_who_is_slow_then_a_megabyte_is_kept_for_him_beside_the_newest_page(
    count: int, asks: int
) -> None:
    store, kind = Counting(), KINDS.of("agent:a")
    assert kind is not None
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        stored = len(await trail.session("a").events())
        slow, quick = (
            take_seat(store, "agent:a", kind, after=stored, wake=lambda: None, fail=lambda _: None) for _ in range(2)
        )
        slow.channel.watch()
        for _ in range(count):
            await note(store, "agent:a", Noted(text="x" * 600_000))
            while not await quick.read():
                await asyncio.sleep(0.01)
        store.asked.clear()
        assert [record.version for record in await slow.read()] == list(range(stored + 1, stored + 1 + count))
        assert store.asked.count("agent:a") == asks
        for seat in (slow, quick):
            seat.leave()


async def test_given_all_who_keep_pace_then_nothing_that_they_read_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptrail.runtime.kernel.channel.msgspec", None)
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        followed = [trail.session("a").follow(forever=True) for _ in range(3)]
        for following in followed:
            await following.begin()
        for _ in range(3):
            await note(store, "agent:a", *[Noted()] * 3)
            for following in followed:
                await took(following, 3)
        for following in followed:
            await following.aclose()


async def test_given_many_sessions_that_are_followed_when_one_more_is_then_nobody_looks_at_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, loop = list[bool](), asyncio.get_running_loop()

    def is_closed() -> bool:
        looks.append(False)
        return False

    monkeypatch.setattr(loop, "is_closed", is_closed)
    kind, store = KINDS.of("agent:a"), Counting()
    assert kind is not None
    seats = [
        take_seat(store, f"agent:{number}", kind, after=0, wake=lambda: None, fail=lambda _: None)
        for number in range(MANY)
    ]
    for seat in seats:
        seat.leave()
    assert len(looks) <= 1


async def test_given_one_who_claims_to_have_more_than_there_is_then_the_others_are_told_of_all() -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        stored = len(await trail.session("a").events())
        ahead = trail.session("a").follow(after=stored + 2, forever=True)
        coming = asyncio.create_task(anext(ahead))
        await asyncio.sleep(0.05)
        other = trail.session("a").follow(forever=True)
        assert await took(other, stored) == list(range(1, stored + 1))
        next_ones = asyncio.create_task(took(other, 3))
        while "agent:a" in store.asked:  # he comes to wait, and does not ask again and again
            store.asked.clear()
            await asyncio.sleep(0.05)
        await note(store, "agent:a", *[Noted()] * 3)
        assert await next_ones == [stored + 1, stored + 2, stored + 3]
        first = await coming
        assert isinstance(first, Recorded)
        assert first.version == stored + 3
        for following in (ahead, other):
            await following.aclose()


async def test_given_a_store_that_fails_then_all_hear_of_it_and_go_on_where_they_were() -> None:
    store = Counting()
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        await run_at_once(trail, "a")
        stored = len(await trail.session("a").events())
        store.fault = StoreUnavailable("the disk is gone")
        followed = [await caught_up(trail, "a") for _ in range(5)]
        for _, coming in followed:
            with pytest.raises(StoreUnavailable, match="the disk is gone"):
                await coming
        store.fault = None
        await note(store, "agent:a", Noted())
        for following, _ in followed:
            assert await took(following, 1) == [stored + 1]
            await following.aclose()


@pytest.mark.parametrize("config", [BroadcastConfig(), BroadcastConfig.minimal(), BroadcastConfig(form="reverb")])
async def test_given_readers_at_every_place_then_each_gets_the_messages_from_there(config: BroadcastConfig) -> None:
    async with asyncio.timeout(PATIENCE), Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(clerk(["hello"]), "hi", session="a")
        asking = [calls(("scan", {"shelves": 1}), text=f"Shelf {i}?") for i in range(8)]
        script: list[Reply] = ["hello", *asking, "done"]

        seen: dict[tuple[int, int], list[BroadcastEnvelope]] = {}

        async def read(who: int, after: int) -> None:
            own = seen[who, after] = []
            async with SessionMessages(trail, "a", config, after=(after, 10**9)) as messages:
                async for each in messages:
                    own += [each] if not each.is_ephemeral else []
                    await asyncio.sleep(0.002 * who)

        stored = len(await trail.session("a").events())
        places = [(who, after) for who in range(3) for after in range(stored + 1)]
        readers = [asyncio.create_task(read(*place)) for place in places]
        await trail.session("a").send(clerk(script), QUESTION)
        told = list(envelopes_of("a", await trail.session("a").history(), config))
        while any(not own or own[-1].id != told[-1].id for own in seen.values()):
            await asyncio.sleep(0.01)
        for (_, after), own in seen.items():
            assert own == [each for each in told if each.version > after]
        assert len({id(own[-1]) for own in seen.values()}) < len(places)  # who keeps pace is given the same ones
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
