"""The contract of an event store, as a pytest class.

A store subclasses `EventStoreContract` and gives the fixture `opener`, a callable that opens a store over the same data
each time. Where several processes can share the data it takes `SharedStoreContract`, and an opener that can be pickled,
such as `functools.partial(MyStore, path)`.
"""

import asyncio
import multiprocessing
import os
import threading
from contextlib import suppress

import pytest
from msgspec import structs

from steptrail.domain.errors import ConcurrencyConflict, CorruptRecord, SessionBusy, StoreSetBack, StoreUnavailable
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Recorded, Snapshot, StreamHead
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.erasure_contract import ErasureContract
from steptrail.testing.index_contract import IndexContract
from steptrail.testing.lease_contract import LeaseContract
from steptrail.testing.log_contract import LogContract, SharedLogContract
from steptrail.testing.store_samples import AT, Noted, Opener, Written, closing, commit_of, on_a_store, run_on

__all__ = ["EventStoreContract", "Noted", "Opener", "SharedStoreContract", "Written", "commit_of"]

STREAM = "agent:contract"
APPENDS = 100
DEAD = 9
"""The exit code of a process that ends without putting anything in order."""


class EventStoreContract(LogContract, IndexContract, LeaseContract, ErasureContract):
    """The port `EventStore`, as one process sees it."""

    @pytest.fixture
    def opener(self) -> Opener:
        raise NotImplementedError

    @on_a_store
    async def test_an_unknown_stream_is_empty(self, store: EventStore) -> None:
        stream = await store.read("agent:nobody")
        assert list(stream.records) == []
        assert stream.head == EMPTY_STREAM
        assert await store.version("agent:nobody") == 0

    @on_a_store
    async def test_what_was_appended_is_read_with_version_instant_and_head(self, store: EventStore) -> None:
        head = CommitHead(commit_id="c1", actor="operator:ana", causation="cmd-1", segment=3, key_id="k1")
        end = await store.append(STREAM, EMPTY_STREAM, Commit(head, ((AT, Noted(text="a")), (AT + 5, Noted()))))
        stream = await store.read(STREAM)
        assert list(stream.records) == [
            Recorded(1, AT, Noted(text="a"), head),
            Recorded(2, AT + 5, Noted(), head),
        ]
        assert stream.head == end
        assert end.version == 2
        assert await store.version(STREAM) == 2

    @on_a_store
    async def test_a_commit_follows_the_head_that_the_append_before_it_returned(self, store: EventStore) -> None:
        first = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
        second = await store.append(STREAM, first, commit_of("c2", Noted(), Noted()))
        assert second.version == 3
        assert second.digest != first.digest
        assert (await store.read(STREAM)).head == second

    @on_a_store
    async def test_the_head_that_was_read_takes_the_next_commit(self, store: EventStore) -> None:
        await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted(), Noted()))
        end = await store.append(STREAM, (await store.read(STREAM, after=1)).head, commit_of("c2", Noted()))
        assert end.version == 3

    @on_a_store
    async def test_a_commit_without_events_is_refused(self, store: EventStore) -> None:
        with pytest.raises(ValueError, match="at least one event"):
            await store.append(STREAM, EMPTY_STREAM, commit_of("c1"))

    @on_a_store
    async def test_an_append_behind_the_stream_is_a_conflict(self, store: EventStore) -> None:
        first = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
        await store.append(STREAM, first, commit_of("c2", Noted(), Noted()))
        with pytest.raises(ConcurrencyConflict) as caught:
            await store.append(STREAM, first, commit_of("c3", Noted()))
        assert (caught.value.stream, caught.value.expected, caught.value.actual) == (STREAM, 1, 3)
        assert await store.version(STREAM) == 3

    @on_a_store
    async def test_an_append_ahead_of_the_stream_is_a_conflict(self, store: EventStore) -> None:
        for expected in (1, 2, 9):
            with pytest.raises(ConcurrencyConflict) as caught:
                await store.append(STREAM, StreamHead(expected, b"x" * 32), commit_of("c1", Noted()))
            assert (caught.value.expected, caught.value.actual) == (expected, 0)
        assert list((await store.read(STREAM)).records) == []

    @on_a_store
    async def test_an_append_in_the_middle_of_a_commit_is_a_conflict(self, store: EventStore) -> None:
        end = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted(), Noted(), Noted()))
        with pytest.raises(ConcurrencyConflict):
            await store.append(STREAM, StreamHead(2, end.digest), commit_of("c2", Noted()))

    @on_a_store
    async def test_a_commit_on_another_history_is_a_conflict(self, store: EventStore) -> None:
        end = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
        with pytest.raises(ConcurrencyConflict):
            await store.append(STREAM, StreamHead(end.version, b"x" * 32), commit_of("c2", Noted()))
        assert await store.version(STREAM) == 1

    @on_a_store
    async def test_nothing_of_a_commit_that_conflicts_is_stored(self, store: EventStore) -> None:
        await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
        with pytest.raises(ConcurrencyConflict):
            await store.append(STREAM, EMPTY_STREAM, commit_of("c2", *(Noted(number=i) for i in range(600))))
        assert [record.event for record in (await store.read(STREAM)).records] == [Noted()]

    @on_a_store
    async def test_a_commit_may_hold_more_events_than_one_statement(self, store: EventStore) -> None:
        events = [Noted(number=i) for i in range(10_000)]
        end = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", *events))
        records = (await store.read(STREAM)).records
        assert [record.event for record in records] == events
        assert {record.head for record in records} == {commit_of("c1").head}
        assert end.version == 10_000

    @on_a_store
    async def test_the_same_commit_again_has_succeeded(self, store: EventStore) -> None:
        commit = commit_of("c1", Noted(), Noted())
        first = await store.append(STREAM, EMPTY_STREAM, commit)
        assert await store.append(STREAM, EMPTY_STREAM, commit) == first
        await store.append(STREAM, first, commit_of("c2", Noted()))
        assert await store.append(STREAM, EMPTY_STREAM, commit) == first
        assert await store.version(STREAM) == 3

    @on_a_store
    async def test_the_same_commit_twice_at_once_is_stored_once(self, store: EventStore) -> None:
        commit = commit_of("c1", Noted(), Noted())
        ends = await asyncio.gather(*(store.append(STREAM, EMPTY_STREAM, commit) for _ in range(4)))
        assert len(set(ends)) == 1
        assert await store.version(STREAM) == 2

    @on_a_store
    async def test_of_two_commits_at_once_one_wins(self, store: EventStore) -> None:
        outcomes = await asyncio.gather(
            *(store.append(STREAM, EMPTY_STREAM, commit_of(f"c{i}", Noted(number=i))) for i in range(8)),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, ConcurrencyConflict) for outcome in outcomes) == 7
        assert await store.version(STREAM) == 1

    @on_a_store
    async def test_a_conflict_does_not_keep_other_streams_out(self, store: EventStore) -> None:
        await store.append(STREAM, EMPTY_STREAM, commit_of("c0", Noted()))
        streams = [f"agent:{i}" for i in range(20)]
        appends = [store.append(stream, EMPTY_STREAM, commit_of("c1", Noted())) for stream in [*streams, STREAM]]
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        assert isinstance(outcomes[-1], ConcurrencyConflict)
        assert [await store.version(stream) for stream in streams] == [1] * 20

    @on_a_store
    async def test_reading_begins_after_a_version_and_knows_the_commit_of_each_record(self, store: EventStore) -> None:
        first = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", *(Noted(number=i) for i in (1, 2, 3))))
        end = await store.append(STREAM, first, commit_of("c2", Noted(number=4), Noted(number=5)))
        for after in range(7):
            stream = await store.read(STREAM, after=after)
            assert [record.version for record in stream.records] == list(range(after + 1, 6))
            for record in stream.records:
                assert record.event == Noted(number=record.version)
                assert record.head == commit_of("c1" if record.version < 4 else "c2").head
            assert stream.head == end

    @on_a_store
    async def test_the_digest_of_a_commit_is_found_by_each_of_its_events(self, store: EventStore) -> None:
        first = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted(number=1), Noted(number=2)))
        second = await store.append(STREAM, first, commit_of("c2", Noted(number=3)))
        found = [await store.digest(STREAM, version) for version in (1, 2, 3)]
        assert found == [first.digest, first.digest, second.digest]
        assert await store.digest("note:nobody", 1) == b""

    @on_a_store
    async def test_the_head_is_that_of_the_last_record_that_was_read(self, store: EventStore) -> None:
        end = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", *(Noted(number=i) for i in range(5))))
        for limit in (0, 1, 2, 5, 6):
            stream = await store.read(STREAM, limit=limit)
            assert [record.version for record in stream.records] == list(range(1, min(limit, 5) + 1))
            assert stream.head == (StreamHead(min(limit, 5), end.digest) if limit else EMPTY_STREAM)
        assert await store.head(STREAM) == end

    @on_a_store
    async def test_nobody_appends_after_what_he_has_read_only_in_part(self, store: EventStore) -> None:
        first = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted(number=1), Noted(number=2)))
        await store.append(STREAM, first, commit_of("c2", Noted(number=3)))
        for after, limit in ((0, 1), (0, 2), (1, 1), (1, 0), (2, 0)):
            head = (await store.read(STREAM, after=after, limit=limit)).head
            assert head.version == after + limit
            with pytest.raises(ConcurrencyConflict):
                await store.append(STREAM, head, commit_of("c3", Noted(number=4)))

    @on_a_store
    async def test_behind_a_head_whole_commits_are_read_and_the_head_has_to_be_that_of_the_stream(
        self, store: EventStore
    ) -> None:
        heads = [EMPTY_STREAM]
        for size in (1, 2, 3):
            commit = commit_of(f"c{size}", *(Noted(number=size) for _ in range(size)))
            heads.append(await store.append(STREAM, heads[-1], commit))
        for start, limit, end in ((0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 5, 2), (1, 1, 2), (2, 1, 3), (0, None, 3)):
            stream = await store.read(STREAM, after=heads[start], limit=limit)
            found = [record.version for record in stream.records]
            assert found == list(range(heads[start].version + 1, heads[end].version + 1))
            assert (stream.head, stream.is_end) == (heads[end], end == 3)
        for version, digest in ((1, heads[2].digest), (2, heads[2].digest), (3, heads[1].digest), (0, b"x" * 32)):
            with pytest.raises((CorruptRecord, StoreSetBack)):
                await store.read(STREAM, after=StreamHead(version, digest))

    @on_a_store
    async def test_to_read_nothing_behind_a_head_is_to_stay_there(self, store: EventStore) -> None:
        first = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted(), Noted()))
        last = await store.append(STREAM, first, commit_of("c2", Noted()))
        for head, is_end in ((EMPTY_STREAM, False), (first, False), (last, True)):
            stream = await store.read(STREAM, after=head, limit=0)
            assert (list(stream.records), stream.head, stream.is_end) == ([], head, is_end)

    @pytest.mark.parametrize("text", ["", "naïve ☕ 日本語 🦜", "\x00\x1f\\\"'\n", "x" * 1_000_000], ids=len)
    @on_a_store
    async def test_text_comes_back_as_it_was(self, store: EventStore, text: str) -> None:
        event = Written(data=[text, {"a": text}], tags={"null": None, "text": text})
        await store.append("agent:ünï/☕ 1", EMPTY_STREAM, commit_of("c1", event))
        assert [record.event for record in (await store.read("agent:ünï/☕ 1")).records] == [event]

    @on_a_store
    async def test_streams_are_listed_by_prefix_oldest_first(self, store: EventStore) -> None:
        for stream in ("agent:b", "flow:a", "agent:c", "agent:a", "Agent:x", "agent:a%"):
            await store.append(stream, EMPTY_STREAM, commit_of("c1", Noted(), Noted()))
        assert list(await store.streams("agent:")) == ["agent:b", "agent:c", "agent:a", "agent:a%"]
        assert list(await store.streams("agent:a")) == ["agent:a", "agent:a%"]
        assert list(await store.streams("agent:z")) == []

    @on_a_store
    async def test_the_log_has_every_event_in_the_order_it_was_stored(self, store: EventStore) -> None:
        a = await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(number=1), Written(data=2)))
        await store.append("agent:b", EMPTY_STREAM, commit_of("c2", Noted(number=3), Noted(number=4)))
        await store.append("agent:a", a, commit_of("c3", Written(data=5)))
        everything = [entry async for entry in store.log()]
        assert [(stream, record.version) for _, stream, record in everything] == [
            ("agent:a", 1),
            ("agent:a", 2),
            ("agent:b", 1),
            ("agent:b", 2),
            ("agent:a", 3),
        ]
        assert [_commit_id(record) for _, _, record in everything] == ["c1", "c1", "c2", "c2", "c3"]
        positions = [position for position, _, _ in everything]
        assert positions == sorted(set(positions))
        for i, position in enumerate(positions):
            assert [entry async for entry in store.log(after=position)] == everything[i + 1 :]

    @on_a_store
    async def test_the_log_can_be_cut_down_to_types(self, store: EventStore) -> None:
        await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(), Written(), Noted(), Written()))
        written = [(record.version, _commit_id(record)) async for _, _, record in store.log(types=[Written.TYPE])]
        assert written == [(2, "c1"), (4, "c1")]

    @on_a_store
    async def test_the_log_is_read_to_its_end_however_long(self, store: EventStore) -> None:
        for i in range(3):
            await store.append(f"agent:{i}", EMPTY_STREAM, commit_of("c1", *(Noted(number=n) for n in range(700))))
        assert len([entry async for entry in store.log()]) == 2100

    def test_threads_with_loops_of_their_own_race_without_a_gap(self, opener: Opener) -> None:
        store = opener()
        names = ("t0", "t1")
        threads = [threading.Thread(target=_append_in_a_loop, args=(store, name)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asyncio.run(closing(store, _check_race))

    @on_a_store
    async def test_a_cancelled_append_has_ended_when_the_caller_learns_of_it(self, store: EventStore) -> None:
        head = EMPTY_STREAM
        for i in range(20):
            task = asyncio.create_task(store.append(STREAM, head, commit_of(f"c{i}", Noted(text="x" * 5000))))
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            head = (await store.read(STREAM)).head
            assert head.version == i + 1

    @on_a_store
    async def test_closing_ends_everything_and_may_be_repeated(self, store: EventStore) -> None:
        lease = await store.acquire("agent:s1", owner="worker-7")
        before = {thread.ident for thread in threading.enumerate()}
        await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
        await store.close()
        await store.close()
        assert {thread.ident for thread in threading.enumerate()} <= before
        await lease.release()
        late = store.append(STREAM, EMPTY_STREAM, commit_of("c2", Noted()))
        for asked in (late, store.version(STREAM), store.read(STREAM), anext(aiter(store.log())), store.leased()):
            with pytest.raises(StoreUnavailable, match="closed"):
                await asked

    @on_a_store
    async def test_a_commit_that_was_asked_for_before_closing_is_stored(self, store: EventStore) -> None:
        appends = [
            asyncio.create_task(store.append(f"agent:{i}", EMPTY_STREAM, commit_of("c", Noted()))) for i in range(50)
        ]
        await asyncio.sleep(0)
        await store.close()
        assert [end.version for end in await asyncio.gather(*appends)] == [1] * 50


class SharedStoreContract(SharedLogContract, EventStoreContract):
    """Further tests for a store that lies outside of the process."""

    def test_another_store_sees_what_was_stored(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            end = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted(text="a")))
            await closing(opener(), lambda other: _expect(other, end))

        run_on(opener, scenario)

    def test_stores_do_not_overwrite_each_other(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            first = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
            await closing(opener(), lambda other: other.append(STREAM, first, commit_of("c2", Noted())))
            with pytest.raises(ConcurrencyConflict) as caught:
                await store.append(STREAM, first, commit_of("c3", Noted()))
            assert caught.value.actual == 2

        run_on(opener, scenario)

    def test_a_store_tells_all_that_another_one_has_stored_and_erased(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            other = opener()
            row = RunSummary(kind="agent", session_id="contract", name="desk", version=1)
            first = commit_of("c1", Noted(text="a"))
            head = await store.append(STREAM, EMPTY_STREAM, Commit(first.head, first.events, row))
            await store.keep_snapshot(STREAM, Snapshot(head, "test.1", b"state"))
            await store.keep_place("billing", 7)
            assert await _told(other) == await _told(store)
            second = commit_of("c2", Noted(text="b"), Noted(text="c"))
            row = structs.replace(row, name="till", version=3)
            await other.append(STREAM, head, Commit(second.head, second.events, row))
            await other.keep_place("billing", 9)
            assert await _told(store) == await _told(other)
            (erasure,) = await other.erase({STREAM: 3}, at=AT, by="ana", reason="asked for")
            assert await store.erasure(STREAM) == erasure
            assert await _told(store) == await _told(other)
            await closing(opener(), lambda third: _tells(third, other))
            await other.close()

        run_on(opener, scenario)

    def test_a_lease_holds_between_stores_and_ends_with_its_store(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            other = opener()
            await other.acquire("agent:s1", owner="worker-7")
            assert (await store.is_leased("agent:s1"), await store.leased()) == (True, frozenset({"agent:s1"}))
            with pytest.raises(SessionBusy, match="worker-7"):
                await store.acquire("agent:s1", owner="worker-8")
            await other.close()
            assert (await store.is_leased("agent:s1"), await store.leased()) == (False, frozenset())
            await (await store.acquire("agent:s1", owner="worker-8")).release()

        run_on(opener, scenario)

    def test_a_lease_that_another_store_has_taken_over_is_not_given_up_by_its_old_owner(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            other = opener()
            old = await other.acquire("agent:s1", owner="worker-7")
            new = await store.acquire("agent:s1", owner="worker-8", take_over=True)
            await old.release()
            await other.close()
            third = opener()
            with pytest.raises(SessionBusy, match="worker-8"):
                await third.acquire("agent:s1", owner="worker-9")
            await new.release()
            await (await third.acquire("agent:s1", owner="worker-9")).release()
            await third.close()

        run_on(opener, scenario)

    def test_a_lease_ends_with_its_process_however_that_ends(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            process = multiprocessing.get_context("spawn").Process(target=run_on, args=(opener, _take_and_die))
            process.start()
            await asyncio.to_thread(process.join)
            assert process.exitcode == DEAD
            async with asyncio.timeout(60):
                while await store.is_leased("agent:s1"):
                    await asyncio.sleep(0.05)
            await (await store.acquire("agent:s1", owner="worker-8")).release()

        run_on(opener, scenario)

    def test_processes_race_without_a_gap(self, opener: Opener) -> None:
        asyncio.run(opener().close())
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=_race, args=(opener, f"p{i}")) for i in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0, 0]
        run_on(opener, _check_race)


async def _told(store: EventStore) -> object:
    """Return what a store says of the contract's stream and its follower."""
    return (
        [entry async for entry in store.log()],
        (await store.version(STREAM), await store.digest(STREAM, 1), await store.streams("agent:")),
        (await store.last_position(), await store.grown(0), await store.place("billing")),
        (await store.snapshot(STREAM), await store.erasure(STREAM)),
        [list(await store.index(IndexQuery(erased=erased))) for erased in (False, True)],
    )


async def _tells(store: EventStore, other: EventStore) -> None:
    assert await _told(store) == await _told(other)


async def _take_and_die(store: EventStore) -> None:
    await store.acquire("agent:s1", owner="worker-7")
    os._exit(DEAD)


async def _expect(store: EventStore, head: StreamHead) -> None:
    assert (await store.read(STREAM)).head == head


def _race(opener: Opener, name: str) -> None:
    run_on(opener, lambda store: _append_many(store, name))


def _append_in_a_loop(store: EventStore, name: str) -> None:
    asyncio.run(_append_many(store, name))


async def _append_many(store: EventStore, name: str) -> None:
    for i in range(APPENDS):
        while True:
            head = await store.head(STREAM)
            try:
                await store.append(STREAM, head, commit_of(f"{name}-{i}", Noted(text=name, number=i), Noted()))
                break
            except ConcurrencyConflict:
                continue


async def _check_race(store: EventStore) -> None:
    stream = await store.read(STREAM)
    assert [record.version for record in stream.records] == list(range(1, 4 * APPENDS + 1))
    ids = [_commit_id(record) for record in stream.records]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 2 * APPENDS
    for name in {commit_id.split("-")[0] for commit_id in ids}:
        mine = [commit_id for commit_id in ids[::2] if commit_id.startswith(f"{name}-")]
        assert mine == [f"{name}-{i}" for i in range(APPENDS)]


def _commit_id(record: Recorded[Event]) -> str:
    assert record.head is not None
    return record.head.commit_id
