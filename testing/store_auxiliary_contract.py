"""The contract of an event store for large bodies, snapshots and places, beside `EventStoreContract`."""

import asyncio
from hashlib import sha256

import pytest
from msgspec import structs

from steptrail.domain.errors import ConcurrencyConflict, CorruptRecord
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import EVENT_TYPES
from steptrail.domain.kernel.record import EMPTY_STREAM, Snapshot, StreamHead
from steptrail.infrastructure.store.core.blobs import LIMIT
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.store_samples import Noted, Opener, Written, commit_of, on_a_store

STREAM = "agent:contract"


class StoreAuxiliaryContract:
    """The port `EventStore`, where events are large and sessions long. Gives the fixture `opener`, as there."""

    @pytest.fixture
    def opener(self) -> Opener:
        raise NotImplementedError

    @on_a_store
    async def test_a_large_body_comes_back_as_it_was_from_every_way_of_reading(self, store: EventStore) -> None:
        numbers: list[JsonValue] = [2**70, 1e22, -0.0, None]
        body: JsonValue = {"pages": ["é" * LIMIT, {"deep/~": ["x" * LIMIT]}], "numbers": numbers}
        thrice = Written(data=[body, body, body])
        events = [Noted(text="small"), Written(data=body, tags={"a": "y" * LIMIT}), thrice]
        end = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", *events))
        stream = await store.read(STREAM)
        assert [record.event for record in stream.records] == events
        assert stream.head == end
        assert [record.event async for _, _, record in store.log()] == events
        await store.append(STREAM, end, commit_of("c2", *events))
        assert [record.event for record in (await store.read(STREAM, after=3)).records] == events

    @on_a_store
    async def test_nothing_of_a_large_body_hurts_the_commits_beside_it(self, store: EventStore) -> None:
        await store.append(STREAM, EMPTY_STREAM, commit_of("c0", Noted()))
        commits = [
            store.append(stream, EMPTY_STREAM, commit_of("c1", Written(data=["z" * LIMIT, stream])))
            for stream in ("agent:a", STREAM, "agent:b")
        ]
        outcomes = await asyncio.gather(*commits, return_exceptions=True)
        assert isinstance(outcomes[1], ConcurrencyConflict)
        for stream in ("agent:a", "agent:b"):
            (record,) = (await store.read(stream)).records
            assert record.event == Written(data=["z" * LIMIT, stream])

    @on_a_store
    async def test_a_file_is_stored_with_the_commit_that_brings_it_or_not_at_all(self, store: EventStore) -> None:
        async def stored(expected: StreamHead, data: bytes) -> str:
            digest = sha256(data).hexdigest()
            commit = commit_of(f"c-{digest}", Noted())
            await store.append(STREAM, expected, structs.replace(commit, files={digest: data}))
            return digest

        data = bytes(range(256)) * 8_000
        digest = await stored(EMPTY_STREAM, data)
        assert await store.file(digest) == data
        with pytest.raises(ConcurrencyConflict):
            await stored(EMPTY_STREAM, b"late")
        assert await store.file(sha256(b"late").hexdigest()) is None

    @on_a_store
    async def test_a_snapshot_comes_back_until_another_takes_its_place(self, store: EventStore) -> None:
        assert await store.snapshot(STREAM) is None
        first = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted(), Noted()))
        await store.keep_snapshot(STREAM, Snapshot(first, "test.1", b"\x00first"))
        assert await store.snapshot(STREAM) == Snapshot(first, "test.1", b"\x00first")
        second = await store.append(STREAM, first, commit_of("c2", Noted()))
        assert await store.snapshot(STREAM) == Snapshot(first, "test.1", b"\x00first")
        await store.keep_snapshot(STREAM, Snapshot(second, "test.2", b""))
        assert await store.snapshot(STREAM) == Snapshot(second, "test.2", b"")
        assert await store.snapshot("agent:other") is None

    @on_a_store
    async def test_records_of_some_types_come_with_a_proof_of_all_up_to_a_head(self, store: EventStore) -> None:
        wanted = {Noted.TYPE: b"\n", Written.TYPE: b'"b"'}
        events = [
            Noted(number=1),
            Written(tags={"b": 1}),
            Written(tags={"c": 1}),
            Written(tags={"c": ["b", "z" * LIMIT]}),
            Noted(number=2),
            Written(data="b"),
            Noted(text="large", number=3),
        ]
        first = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", *events[:4]))
        end = await store.append(STREAM, first, commit_of("c2", *events[4:]))
        for head, versions in ((EMPTY_STREAM, []), (first, [1, 2, 4]), (end, [2, 4, 6, 7])):
            for found in (await store.proven(STREAM, head, wanted), await store.newest_of(STREAM, head, wanted)):
                assert found is not None
                assert [(record.version, record.event) for record in found] == [(v, events[v - 1]) for v in versions]
        for other in (end._replace(version=8), end._replace(version=6), end._replace(digest=first.digest)):
            assert await store.proven(STREAM, other, wanted) is None

    @on_a_store
    async def test_there_is_no_proof_for_an_event_whose_type_is_not_in_use(
        self, store: EventStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        end = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted(), Written()))
        assert await store.proven(STREAM, end, {}) == []
        monkeypatch.delitem(EVENT_TYPES, Written.TYPE)
        assert await store.proven(STREAM, end, {}) is None
        assert [record.event for record in await store.newest_of(STREAM, end, {Noted.TYPE: b""})] == [Noted()]
        with pytest.raises(CorruptRecord):
            await store.newest_of(STREAM, end, {Written.TYPE: b""})

    @on_a_store
    async def test_a_place_is_kept_for_each_follower_and_never_goes_back(self, store: EventStore) -> None:
        assert await store.place("billing") == 0
        await store.keep_place("billing", 7)
        await store.keep_place("search", 2**40)
        assert (await store.place("billing"), await store.place("search")) == (7, 2**40)
        await store.keep_place("billing", 5)
        assert await store.place("billing") == 7
        await store.keep_place("billing", 8)
        assert (await store.place("billing"), await store.place("other")) == (8, 0)

    @pytest.mark.parametrize(
        ("version", "is_its_digest"), [(3, True), (3, False), (2, False), (1, True), (0, True)], ids=str
    )
    @on_a_store
    async def test_a_snapshot_that_stands_on_no_commit_is_not_given(
        self, store: EventStore, version: int, is_its_digest: bool
    ) -> None:
        end = await store.append(STREAM, EMPTY_STREAM, commit_of("c1", Noted(), Noted()))
        head = StreamHead(version, end.digest if is_its_digest else b"x" * 32)
        await store.keep_snapshot(STREAM, Snapshot(head, "test.1", b"state"))
        assert await store.snapshot(STREAM) is None
