"""The contract of an event store that erases: one event is left of a stream. Part of `EventStoreContract`."""

import asyncio

import pytest
from msgspec import structs

from steptrail.domain.errors import ConcurrencyConflict, SessionErased
from steptrail.domain.kernel.erasure import Erased, Erasure
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, Snapshot, StreamHead
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.store_samples import AT, Noted, Written, commit_of, on_a_store

_GONE, _KEPT, _THIRD = "agent:gone", "agent:kept", "agent:third"
_PARENT = ParentRef(kind="agent", session="gone", execution="gone:1", effect="gone:1:1:0", call="c")


async def _open(store: EventStore, stream: str, row: RunSummary) -> StreamHead:
    """Store the first commit of a stream, with its row of the index."""
    first = commit_of("c1", Noted(text="a"))
    return await store.append(stream, EMPTY_STREAM, Commit(first.head, first.events, row))


async def _begin(store: EventStore, stream: str, row: RunSummary | None = None) -> StreamHead:
    """Store two commits, three events, a snapshot and a row of the index."""
    kind, _, session = stream.partition(":")
    row = row or RunSummary(kind=kind, session_id=session, name="desk", status=ExecutionStatus.COMPLETED, version=1)
    head = await _open(store, stream, row)
    end = await store.append(stream, head, commit_of("c2", Noted(text="b"), Written(data="secret" * 50_000)))
    await store.keep_snapshot(stream, Snapshot(end, "test.1", b"state"))
    return end


async def _erase(store: EventStore, *streams: str, version: int = 3) -> list[Erasure]:
    return list(await store.erase(dict.fromkeys(streams, version), at=AT + 7, by="ana", reason="asked for"))


async def _fork(store: EventStore, past: str, into: str) -> StreamHead:
    """Open a stream that goes on from the past of another one."""
    kind, _, session = into.partition(":")
    return await _open(store, into, RunSummary(kind=kind, session_id=session, fork_of=past, version=1))


async def _everything(store: EventStore) -> object:
    """Return what is seen of the streams."""
    streams = [(await store.head(name), await store.snapshot(name)) for name in await store.streams("agent:")]
    return [entry async for entry in store.log()], streams, list(await store.index(IndexQuery()))


class ErasureContract:
    """The erasure of streams."""

    @on_a_store
    async def test_nothing_is_left_of_an_erased_stream_but_its_erasure(self, store: EventStore) -> None:
        end, kept = await _begin(store, _GONE), await _begin(store, _KEPT)
        before = await store.last_position()
        others = [entry async for entry in store.log(stream=_KEPT)]
        (erasure,) = await _erase(store, _GONE)
        assert structs.replace(erasure, position=0) == Erasure(
            stream=_GONE, at=AT + 7, by="ana", reason="asked for", events=3, digest=end.digest.hex()
        )
        assert await store.erasure(_GONE) == erasure
        assert await store.erasure(_KEPT) is None
        *rest, (position, stream, record) = [entry async for entry in store.log()]
        assert rest == others
        assert (stream, record.event, record.at) == (_GONE, Erased(), AT + 7)
        assert record.head is not None
        assert record.head.actor == "ana"
        assert before < position == erasure.position == await store.last_position()
        assert [stream async for _, stream, _ in store.log(stream=_GONE)] == [_GONE]
        assert await store.snapshot(_GONE) is None
        assert [row.session_id for row in await store.index(IndexQuery())] == ["kept"]
        (left,) = await store.index(IndexQuery(erased=True))
        assert left == RunSummary(kind="agent", session_id="gone", updated_at=AT + 7, is_erased=True)
        assert await store.head(_KEPT) == kept
        assert await store.snapshot(_KEPT) is not None
        await store.scrub()

    @on_a_store
    async def test_an_erased_stream_is_neither_read_nor_begun_anew(self, store: EventStore) -> None:
        end = await _begin(store, _GONE)
        await _erase(store, _GONE)
        for read in (store.read(_GONE), store.read(_GONE, after=EMPTY_STREAM), store.head(_GONE)):
            with pytest.raises(SessionErased, match="ana"):
                await read
        for head in (EMPTY_STREAM, end, StreamHead(end.version + 1, end.digest), StreamHead(1, end.digest)):
            for commit_id in ("c1", "c9"):
                with pytest.raises((SessionErased, ConcurrencyConflict)):
                    await store.append(_GONE, head, commit_of(commit_id, Noted(text="a")))
        await store.keep_snapshot(_GONE, Snapshot(end, "test.1", b"late"))
        assert await store.snapshot(_GONE) is None
        with pytest.raises(ConcurrencyConflict):
            await _erase(store, _GONE)
        assert len([entry async for entry in store.log()]) == 1

    @on_a_store
    async def test_streams_are_erased_together_or_not_at_all(self, store: EventStore) -> None:
        for stream in (_GONE, _KEPT):
            await _begin(store, stream)
        before = await _everything(store)
        for streams in ({_GONE: 3, _KEPT: 2}, {_GONE: 4}, {_GONE: 3, "agent:nobody": 1}):
            with pytest.raises(ConcurrencyConflict):
                await store.erase(streams, at=AT, by="ana", reason="asked for")
            assert await _everything(store) == before
            assert await store.erasure(_GONE) is None
        assert [each.stream for each in await _erase(store, _GONE, _KEPT)] == [_GONE, _KEPT]

    @pytest.mark.parametrize("bond", [{"fork_of": _GONE}, {"parent": _PARENT}], ids=["a fork", "a stream below"])
    @on_a_store
    async def test_a_stream_that_another_one_stands_on_is_erased_with_it_only(
        self, store: EventStore, bond: dict[str, object]
    ) -> None:
        await _begin(store, _GONE)
        row = structs.replace(RunSummary(kind="agent", session_id="third", version=1), **bond)
        await _begin(store, _THIRD, row)
        before = await _everything(store)
        with pytest.raises(ConcurrencyConflict):
            await _erase(store, _GONE)
        assert await _everything(store) == before
        await _erase(store, _GONE, _THIRD)
        assert list(await store.index(IndexQuery())) == []

    @on_a_store
    async def test_an_erased_stream_is_still_found_below_the_one_that_began_it(self, store: EventStore) -> None:
        await _begin(store, _GONE)
        await _begin(store, _THIRD, RunSummary(kind="agent", session_id="third", parent=_PARENT, version=1))
        await _erase(store, _THIRD)
        assert list(await store.index(IndexQuery(parents=[_GONE]))) == []
        (left,) = await store.index(IndexQuery(parents=[_GONE], erased=True))
        assert left == RunSummary(kind="agent", session_id="third", parent=_PARENT, updated_at=AT + 7, is_erased=True)
        await _erase(store, _GONE)  # nothing stands on it any more

    @pytest.mark.parametrize("bond", [{"fork_of": _GONE}, {"parent": _PARENT}], ids=["a fork", "a stream below"])
    @on_a_store
    async def test_nothing_is_begun_on_a_stream_that_is_erased(
        self, store: EventStore, bond: dict[str, object]
    ) -> None:
        await _begin(store, _GONE)
        await _erase(store, _GONE)
        end = await store.last_position()
        row = structs.replace(RunSummary(kind="agent", session_id="third", version=1), **bond)
        with pytest.raises(ConcurrencyConflict):
            await _begin(store, _THIRD, row)
        assert await store.version(_THIRD) == 0
        assert await store.last_position() == end
        assert list(await store.index(IndexQuery())) == []

    @on_a_store
    async def test_of_an_erasure_and_a_fork_at_one_moment_one_takes_place(self, store: EventStore) -> None:
        for number in range(10):
            past = f"{_GONE}{number}"
            await _begin(store, past)
            both = (_erase(store, past), _fork(store, past, f"{_THIRD}{number}"))
            outcomes = await asyncio.gather(*both, return_exceptions=True)
            assert sum(isinstance(outcome, (SessionErased, ConcurrencyConflict)) for outcome in outcomes) == 1

    @on_a_store
    async def test_a_follower_meets_the_erasure_and_no_position_comes_twice(self, store: EventStore) -> None:
        for stream in (_KEPT, _GONE):
            await _begin(store, stream)
        place = await store.last_position()
        await store.keep_place("billing", place)
        await _erase(store, _GONE)
        await store.wait_past(place, timeout=60.0)
        end, grown = await store.grown(place)
        assert (end > place, list(grown)) == (True, [_GONE])
        await store.append(_THIRD, EMPTY_STREAM, commit_of("c1", Noted()))
        assert await store.place("billing") == place
        assert [(at > place, stream) async for at, stream, _ in store.log(after=place)] == [
            (True, _GONE),
            (True, _THIRD),
        ]
