"""The contract of an event store towards those who follow its log. Part of the contract of event stores."""

import asyncio
import multiprocessing
import threading
from contextlib import suppress
from itertools import product

import pytest

from steptrail.domain.errors import ConcurrencyConflict, CorruptRecord, StoreUnavailable
from steptrail.domain.kernel.event import EVENT_TYPES
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.log_page import LogEntry, LogPage
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, StreamHead
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.store_samples import Noted, Opener, Written, closing, commit_of, on_a_store, run_on

_STREAM = "agent:followed"
_OTHER = "agent:other"
_COMMITS = 200
_STREAMS = tuple(f"agent:s{number}" for number in range(4))
_THREES = 25
_FOREVER = 3600.0
"""The timeout of a wait that has to end for another reason."""
_PATIENCE = 60.0
"""When a wait that should have ended is given up, and the test with it."""


class LogContract:
    """The log as one process sees it: its end, parts of it, and waiting for more."""

    @on_a_store
    async def test_the_log_ends_at_its_newest_event(self, store: EventStore) -> None:
        assert await store.last_position() == 0
        for stream in (_STREAM, _OTHER):
            await store.append(stream, EMPTY_STREAM, commit_of("c1", Noted(), Noted()))
            assert await store.last_position() == [position async for position, _, _ in store.log()][-1]

    @on_a_store
    async def test_the_log_can_be_cut_down_to_a_stream(self, store: EventStore) -> None:
        first = await store.append(_STREAM, EMPTY_STREAM, commit_of("c1", Noted(), Written()))
        await store.append(_OTHER, EMPTY_STREAM, commit_of("c2", Noted(), Written()))
        await store.append(_STREAM, first, commit_of("c3", Noted(), Written()))
        everything = [entry async for entry in store.log()]
        mine = [entry for entry in everything if entry[1] == _STREAM]
        assert [record.version for _, _, record in mine] == [1, 2, 3, 4]
        assert [entry async for entry in store.log(stream=_STREAM)] == mine
        assert [entry async for entry in store.log(stream=_STREAM, after=mine[1][0])] == mine[2:]
        assert [entry async for entry in store.log(stream=_STREAM, types=[Written.TYPE])] == mine[1::2]
        assert [entry async for entry in store.log(stream="agent:follow")] == []

    @on_a_store
    async def test_what_has_grown_is_told_with_the_newest_versions(self, store: EventStore) -> None:
        assert await store.grown(0) == (0, {})
        first = await store.append(_STREAM, EMPTY_STREAM, commit_of("c1", Noted(), Written()))
        middle = await store.last_position()
        await store.append(_OTHER, EMPTY_STREAM, commit_of("c2", Noted()))
        await store.append(_STREAM, first, commit_of("c3", Noted()))
        end = await store.last_position()
        assert await store.grown(0) == await store.grown(middle) == (end, {_STREAM: 3, _OTHER: 1})
        assert await store.grown(end - 1) == (end, {_STREAM: 3})
        assert await store.grown(end) == (end, {})
        assert await store.grown(end + 1) == (end, {}), "it does not say that the log ends before that position"

    @on_a_store
    async def test_the_log_can_be_read_a_part_at_a_time(self, store: EventStore) -> None:
        for stream in (_STREAM, _OTHER):
            await store.append(stream, EMPTY_STREAM, commit_of("c", *(Noted(number=i) for i in range(600))))
        everything = [entry async for entry in store.log()]
        for limit in (0, 1, 499, 500, 501, 1000, 1200, 5000):
            assert [entry async for entry in store.log(limit=limit)] == everything[:limit]

    @on_a_store
    async def test_a_page_of_the_log_is_what_the_log_yields_there(self, store: EventStore) -> None:
        for stream in (_STREAM, _OTHER):
            await store.append(stream, EMPTY_STREAM, commit_of("c", Noted(), Written(), Noted()))
        everything = [entry async for entry in store.log()]
        middle = everything[1][0]
        last = everything[-1].position
        assert await store.log_page(0, 6) == LogPage(everything, 6, last, is_end=False)
        assert await store.log_page(0, 100) == LogPage(everything, 6, last, is_end=True)
        assert await store.log_page(middle, 3) == LogPage(everything[2:5], 3, everything[4].position, is_end=False)
        assert (await store.log_page(middle, 3, types=[Written.TYPE])).items == everything[4:5]
        assert (await store.log_page(middle, 3, stream=_STREAM)).items == everything[2:3]
        assert await store.log_page(last, 3) == LogPage([], 0, last, is_end=True)
        lazy = await store.log_page(middle, 3, is_lazy=True)
        assert lazy[1:] == (3, everything[4].position, False)
        assert await asyncio.to_thread(lambda: [*lazy.items]) == everything[2:5]

    @on_a_store
    async def test_a_page_without_heads_says_the_same_of_all_else(self, store: EventStore) -> None:
        for each in (_STREAM, _OTHER):
            await store.append(each, EMPTY_STREAM, commit_of("c", Noted(), Written(data=[7]), Noted()))

        def said(page: LogPage) -> list[tuple[int, str, int, int, object]]:
            entries = [item for item in page.items if isinstance(item, LogEntry)]
            return [(at, of, record.version, record.at, record.event) for at, of, record in entries]

        for types, stream in product(((), (Noted.TYPE, Written.TYPE)), (None, _STREAM)):
            whole = await store.log_page(1, 10, types=types, stream=stream)
            assert said(await store.log_page(1, 10, types=types, stream=stream, heads=False)) == said(whole)
            assert whole.size == (5 if stream is None else 2)

    @on_a_store
    async def test_a_record_that_cannot_be_read_is_told_in_its_turn_with_its_position(
        self, store: EventStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await store.append(_STREAM, EMPTY_STREAM, commit_of("c1", Noted(), Written(), Noted(), Written()))
        positions = [position async for position, _, _ in store.log()]
        monkeypatch.delitem(EVENT_TYPES, Written.TYPE)
        seen: list[int | None] = []
        async for position, _, _ in store.log(limit=3, on_corrupt=lambda error: seen.append(error.position)):
            seen.append(position)
        assert seen == positions[:3]
        for heads in (True, False):
            page = await store.log_page(0, 3, heads=heads)
            assert [isinstance(item, CorruptRecord) for item in page.items] == [False, True, False]
            assert [item.position for item in page.items] == positions[:3]
        with pytest.raises(CorruptRecord) as caught:
            _ = [entry async for entry in store.log()]
        assert (caught.value.position, caught.value.version) == (positions[1], 2)

    @on_a_store
    async def test_who_reads_while_others_write_sees_whole_commits_and_none_of_them_late(
        self, store: EventStore
    ) -> None:
        async with asyncio.TaskGroup() as group:
            for stream in _STREAMS:
                group.create_task(_append_threes(store, stream))
            group.create_task(_follow_all(store))
            group.create_task(_look_at_all(store))

    @on_a_store
    async def test_a_wait_for_what_stands_there_already_is_none(self, store: EventStore) -> None:
        looked = await store.last_position()
        await store.append(_STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
        await _ends(store, looked)

    @on_a_store
    async def test_a_wait_ends_with_the_next_commit(self, store: EventStore) -> None:
        head = EMPTY_STREAM
        for i in range(20):
            waits = [asyncio.create_task(_ends(store, await store.last_position())) for _ in range(3)]
            await asyncio.sleep(0.002 * (i % 3))
            head = await store.append(_STREAM, head, commit_of(f"c{i}", Noted()))
            await asyncio.gather(*waits)

    @on_a_store
    async def test_a_wait_ends_at_its_timeout(self, store: EventStore) -> None:
        await store.append(_STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
        async with asyncio.timeout(_PATIENCE):
            for timeout in (0.0, 0.01, 0.1):
                await store.wait_past(await store.last_position(), timeout=timeout)

    def test_nothing_is_missed_between_a_look_and_the_wait_after_it(self, opener: Opener) -> None:
        store = opener()
        writer = threading.Thread(target=lambda: asyncio.run(_append_many(store)))

        async def scenario(store: EventStore) -> None:
            writer.start()
            await _all_come(store)

        asyncio.run(closing(store, scenario))
        writer.join()

    @on_a_store
    async def test_a_wait_that_was_cancelled_leaves_the_others_waiting(self, store: EventStore) -> None:
        given_up, kept = (asyncio.create_task(_ends(store, 0)) for _ in range(2))
        await asyncio.sleep(0.01)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        await store.append(_STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
        await kept

    def test_closing_ends_a_wait_and_leaves_no_thread(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            await store.append(_STREAM, EMPTY_STREAM, commit_of("c1", Noted()))
            end = await store.last_position()
            waits = [asyncio.create_task(_ends(store, end)) for _ in range(2)]
            await asyncio.sleep(0.01)
            await store.close()
            for wait in waits:
                with pytest.raises(StoreUnavailable, match="closed"):
                    await wait
            with pytest.raises(StoreUnavailable, match="closed"):
                await store.wait_past(end, timeout=_FOREVER)

        before = {thread.ident for thread in threading.enumerate()}
        run_on(opener, scenario)
        assert {thread.ident for thread in threading.enumerate()} <= before


class SharedLogContract:
    """Further tests for a log that other stores and processes write to."""

    def test_a_wait_ends_with_a_commit_of_another_store(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            head = EMPTY_STREAM
            other = opener()
            for i in range(5):
                wait = asyncio.create_task(_ends(store, await store.last_position()))
                await asyncio.sleep(0.01)
                head = await other.append(_STREAM, head, commit_of(f"c{i}", Noted()))
                await wait
            await other.close()

        run_on(opener, scenario)

    def test_who_reads_while_two_stores_write_sees_whole_commits_and_none_of_them_late(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            writers = (opener(), opener())
            async with asyncio.TaskGroup() as group:
                for number, stream in enumerate(_STREAMS):
                    group.create_task(_append_threes(writers[number % 2], stream))
                group.create_task(_follow_all(store))
                group.create_task(_look_at_all(store))
            for writer in writers:
                await writer.close()

        run_on(opener, scenario)

    def test_a_wait_ends_with_a_commit_of_another_process(self, opener: Opener) -> None:
        async def scenario(store: EventStore) -> None:
            process = multiprocessing.get_context("spawn").Process(target=run_on, args=(opener, _append_many))
            process.start()
            await _all_come(store)
            await asyncio.to_thread(process.join)
            assert process.exitcode == 0

        run_on(opener, scenario)


async def _ends(store: EventStore, position: int) -> None:
    async with asyncio.timeout(_PATIENCE):
        await store.wait_past(position, timeout=_FOREVER)


async def _all_come(store: EventStore) -> None:
    versions: list[int] = []
    position = 0
    while len(versions) < _COMMITS:
        await _ends(store, position)
        async for at, _, record in store.log(after=position):
            versions.append(record.version)
            position = at
    assert versions == list(range(1, _COMMITS + 1))


async def _append_many(store: EventStore) -> None:
    head = EMPTY_STREAM
    for i in range(_COMMITS):
        head = await store.append(_STREAM, head, commit_of(f"c{i}", Noted(number=i)))


async def _append_threes(store: EventStore, stream: str) -> None:
    """Append commits of three events, each with a row of the index. One in three is lost to a conflict before."""
    head, session = EMPTY_STREAM, stream.partition(":")[2]
    for i in range(_THREES):
        commit = commit_of(f"c{i}", *(Noted(number=i) for _ in range(3)))
        if i % 3 == 2:
            with suppress(ConcurrencyConflict):
                await store.append(stream, StreamHead(head.version, b"x" * 32), commit_of(f"lost{i}", *[Noted()] * 3))
                raise AssertionError("the stream was not there")
        row = RunSummary(kind="agent", session_id=session, version=head.version + 3)
        head = await store.append(stream, head, Commit(commit.head, commit.events, row))
        await asyncio.sleep(0)


async def _follow_all(store: EventStore) -> None:
    """Follow the log to the end of all streams, and compare all that is told of its end with what comes."""
    seen = dict.fromkeys(_STREAMS, 0)
    place = floor = 0
    while any(version < 3 * _THREES for version in seen.values()):
        await _ends(store, place)
        floor = max(floor, await store.last_position())
        end, grown = await store.grown(place)
        newest = dict[str, int]()
        async for position, stream, record in store.log(after=place):
            assert position > place, "a position comes once"
            assert record.version == seen[stream] + 1, "no event of a stream is left out"
            seen[stream], place = record.version, position
            if position <= end:
                newest[stream] = record.version
        assert newest == grown, "what has grown is what the log has up to there"
        assert {stream: version % 3 for stream, version in seen.items() if version % 3} == {}, "a commit comes whole"
        assert place >= max(floor, end), "all that was told of has come"
        await asyncio.sleep(0)


async def _look_at_all(store: EventStore) -> None:
    """Read all streams and their rows again and again, until all have been written."""
    least = 0
    while least < 3 * _THREES:
        least = 3 * _THREES
        for stream in _STREAMS:
            before = await store.version(stream)
            rows = await store.index(IndexQuery(streams=[stream]))
            found = await store.read(stream)
            assert [record.version for record in found.records] == list(range(1, found.head.version + 1))
            assert (before % 3, found.head.version % 3) == (0, 0), "a commit is there or not"
            assert before <= (rows[0].version if rows else 0) <= found.head.version, "a row comes with its commit"
            least = min(least, before)
        await asyncio.sleep(0)
