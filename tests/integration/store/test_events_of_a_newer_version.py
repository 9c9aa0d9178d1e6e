"""What a process does with events that a newer version of Steptrail wrote under a type's next name: it says so."""

from typing import Any

import pytest

from steptrail.domain.errors import RecordTooNew
from steptrail.domain.kernel.event import EVENT_TYPES, Event, EventKind
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.face import Face, view_of
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Column, ColumnKind, Table
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.store_samples import commit_of
from tests.views.kit import viewed


class Tallied(Event, frozen=True, kw_only=True):
    TYPE = "test.tallied.v1"
    KIND = EventKind.FACT


class TalliedLater(Event, frozen=True, kw_only=True):
    TYPE = "test.tallied.v10"
    KIND = EventKind.FACT


TALLIES = Table(
    name="v1_tallies",
    says="one row for each stream",
    columns=(Column("stream", ColumnKind.TEXT, "the stream"), Column("tallies", ColumnKind.INTEGER, "how many")),
    key=("stream",),
    is_sums=True,
)


class Tallies(Projection[int]):
    """Counts one type by the names that it has in a version of the library."""

    name, version, prefixes, tables = "tallies", 1, ("agent:",), (TALLIES,)

    def __init__(self, *types: str) -> None:
        self.types = types

    def begin(self, stream: str) -> int:
        return 0

    def apply(self, fold: int, entry: LogEntry, changes: Changes) -> int:
        changes.add(TALLIES, (entry.stream,), {"tallies": 1})
        return fold + 1


async def stored(url: str) -> None:
    store = open_store(url)
    await store.append("agent:old", EMPTY_STREAM, commit_of("c", Tallied()))
    await store.append("agent:new", EMPTY_STREAM, commit_of("d", TalliedLater()))
    await store.close()


async def counted(url: str, *types: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the tallies, and the streams that could not be read, as a version sees them that has these types."""
    async with viewed(url, Tallies(*types), face=Face(1, (view_of(TALLIES, "0.1"),))) as (_, views):
        await views.catch_up()
        tallies = await views.fetch("SELECT stream, tallies FROM v1_tallies ORDER BY stream")
        return tallies.rows, (await views.fetch("SELECT stream FROM damaged")).rows


async def test_who_asks_for_a_type_is_told_of_those_that_a_newer_version_wrote(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(store_url)
    monkeypatch.delitem(EVENT_TYPES, TalliedLater.TYPE)
    store: EventStore = open_store(store_url)
    unreadable: list[Any] = []
    try:
        read = [entry.stream async for entry in store.log(types=[Tallied.TYPE], on_corrupt=unreadable.append)]
        assert read == ["agent:old"]
        assert [(type(each), each.stream) for each in unreadable] == [(RecordTooNew, "agent:new")]
        of_one = [entry.stream async for entry in store.log(types=[Tallied.TYPE], stream="agent:old")]
        assert of_one == ["agent:old"]
    finally:
        await store.close()


async def test_what_an_older_version_could_not_count_a_newer_one_counts_with_its_first_question(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(store_url)
    with monkeypatch.context() as older:
        older.delitem(EVENT_TYPES, TalliedLater.TYPE)
        assert await counted(store_url, Tallied.TYPE) == ([("agent:old", 1)], [("agent:new",)])
    assert await counted(store_url, Tallied.TYPE, TalliedLater.TYPE) == ([("agent:new", 1), ("agent:old", 1)], [])
