"""Where something was erased its rows go at once, also in a log that is too long to be counted anew each time."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings, strategies as st

from steptrail import Steptrail
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.infrastructure.store.sqlite.connections import connect
from steptrail.infrastructure.views.generation import PlaceMoved, ViewProgress
from steptrail.infrastructure.views.projector import Projector
from steptrail.inspector import Access, inspector
from steptrail.interfaces.cli.main import main
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import OnError
from steptrail.projections.kernel.table import Table
from steptrail.projections.runs_view.tables import EXECUTIONS, ROWS, SIGNATURES
from steptrail.projections.runs_view.view import RunsView
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.clock import ManualClock
from steptrail.testing.store_samples import AT
from tests.harness.hands import change_by_hand
from tests.views.ageing import PARTS, THINGS, Ageing
from tests.views.counting import NOTES, STREAMS, TOTALS, Counting, Seen, note
from tests.views.kit import desk, digest, elsewhere, rows, viewed


@pytest.fixture(autouse=True)
def a_long_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.counting_anew._AT_ONCE", 0)


async def erase(store: EventStore, *streams: str, at: int = AT) -> None:
    await store.erase({each: await store.version(each) for each in streams}, at=at, by="ana", reason="asked")


async def some_notes(store: EventStore) -> None:
    await note(store, "agent:a", 1, 2)
    await note(store, "agent:b", 3, 4)
    await note(store, "agent:c", 5)
    await note(store, "agent:b", 6)


@pytest.mark.parametrize("gone", ["a", "b", "c"])
async def test_rows_of_what_was_erased_go_and_sums_count_it_until_all_is_counted_anew(
    store_url: str, gone: str
) -> None:
    async with viewed(store_url) as (store, views):
        await some_notes(store)
        await views.catch_up()
        before = await rows(views, TOTALS)
        await erase(store, f"agent:{gone}", at=7)
        await views.catch_up()
        assert f"agent:{gone}" not in {row[1] for row in await rows(views, STREAMS)}
        assert f"agent:{gone}" not in {row[0] for row in await rows(views, NOTES)}
        assert len(await rows(views, STREAMS)) == 2
        assert await rows(views, TOTALS) == before
        (progress,) = await views.progress()
        assert (progress.erased, progress.reached.position) == ((1, 7), await store.last_position())
        # What comes after is counted in the generation that is there.
        await note(store, "agent:d", 8)
        await views.catch_up()
        assert (await views.present()).number == 1
        assert len(await rows(views, STREAMS)) == 3
        await views.rebuild()
        assert [each.erased for each in await views.progress()] == [(0, None)]
        assert await views.verify() == []


async def test_rows_of_many_streams_that_were_erased_go_with_one_batch(store_url: str) -> None:
    names = [f"agent:{number}" for number in range(205)]
    async with viewed(store_url, Ageing()) as (store, views):
        await asyncio.gather(*(note(store, name, 1, 2) for name in names))
        await views.catch_up()
        await erase(store, *names[1:])
        await views.catch_up()
        for table, place in ((STREAMS, 1), (NOTES, 0), (THINGS, 0), (PARTS, 1)):
            assert {row[place] for row in await rows(views, table)} == {names[0]}
        assert [each.erased for each in await views.progress()] == [(204, AT)]


@pytest.mark.parametrize("most", [1, 100])
async def test_what_was_erased_before_anything_was_counted_is_in_no_sum(store_url: str, most: int) -> None:
    async with viewed(store_url, most=most) as (store, views):
        await some_notes(store)
        await erase(store, "agent:a", "agent:c")
        await views.catch_up()
        assert await rows(views, TOTALS) == [("even", 2, 10), ("odd", 1, 3)]
        assert [each.erased for each in await views.progress()] == [(0, None)]
        assert await views.verify() == []


async def test_what_another_process_counted_before_it_was_erased_goes_though_this_one_began_at_the_beginning_after_that(
    store_url: str,
) -> None:
    first: Projector[Seen] | None = None

    def reach(point: str) -> None:
        if point == "page-read" and first is not None and not first.reached.position:
            elsewhere(lambda: _erased(store_url, "agent:a"))
            elsewhere(begin_second)

    async with viewed(store_url) as (store, views), viewed(store_url) as (other, _):
        await some_notes(store)
        generation = await views.present()
        first = Projector(store, generation, Counting(), asyncio.to_thread, reach=reach)
        second = Projector(other, generation, Counting(), asyncio.to_thread)

        async def begin_second() -> None:
            assert await second.begin()

        assert await first.begin()
        await first.apply()
        assert "agent:a" in {row[0] for row in await rows(views, NOTES)}
        with pytest.raises(PlaceMoved):
            await second.apply()
        assert await second.begin()
        await second.apply()
        assert {row[0] for row in await rows(views, NOTES)} == {"agent:b", "agent:c"}
        assert [each.erased for each in await views.progress()] == [(1, AT)]


async def test_the_first_of_many_says_since_when_and_each_is_counted_once(store_url: str) -> None:
    async with viewed(store_url) as (store, views), viewed(store_url) as (_, others):
        await some_notes(store)
        await views.catch_up()
        for stream, at in (("agent:b", 5), ("agent:a", 9), ("agent:c", 3)):
            await erase(store, stream, at=at)
            await others.catch_up()
            await views.catch_up()
        assert [each.erased for each in await views.progress()] == [(3, 5)]
        assert await rows(views, STREAMS) == await rows(views, NOTES) == []


async def test_a_stream_of_which_entries_and_the_erasure_are_in_one_batch_leaves_no_row(store_url: str) -> None:
    is_read = False

    def reach(point: str) -> None:
        nonlocal is_read
        if point == "page-read" and not is_read:
            is_read = True
            elsewhere(lambda: _erased(store_url, "agent:0"))

    async with viewed(store_url, Ageing(), most=1_200, reach=reach) as (store, views):
        await note(store, "agent:0", 1, 2)
        await note(store, "agent:1", *[3] * 600)  # a batch reads on after a page of 500
        await views.catch_up()
        assert is_read
        assert [row[1] for row in await rows(views, STREAMS)] == ["agent:1"]
        assert (
            {row[0] for row in await rows(views, THINGS)} == {row[1] for row in await rows(views, PARTS)} == {"agent:1"}
        )
        assert [each.erased for each in await views.progress()] == [(1, AT)]


async def _erased(url: str, stream: str) -> None:
    async with viewed(url) as (store, _):
        await erase(store, stream)


@pytest.mark.parametrize("on_error", ["stop", "skip"])
async def test_what_belongs_to_a_row_goes_with_it_and_so_does_what_was_noted_of_the_stream(
    store_url: str, on_error: OnError
) -> None:
    projection = Ageing(fails_at="bad")
    projection.on_error = on_error
    async with viewed(store_url, projection) as (store, views):
        await some_notes(store)
        await note(store, "agent:a", 7, text="bad")
        await note(store, "agent:c", 8)
        await views.catch_up()
        await erase(store, "agent:a")
        await note(store, "agent:b", 9)
        await views.catch_up()
        assert {row[0] for row in await rows(views, THINGS)} == {row[1] for row in await rows(views, PARTS)}
        assert {row[0] for row in await rows(views, THINGS)} == {"agent:b", "agent:c"}
        (progress,) = await views.progress()
        assert (progress.skipped, progress.error, progress.erased) == (0, None, (1, AT))
        assert progress.reached.position == await store.last_position()
        await views.rebuild()
        assert await views.verify() == []


async def test_what_fails_in_the_batch_of_an_erasure_keeps_no_row_of_it(store_url: str) -> None:
    projection = Counting(fails_at="bad")
    projection.on_error = "skip"
    async with viewed(store_url, projection) as (store, views):
        await some_notes(store)
        await views.catch_up()
        await note(store, "agent:d", 1)
        await erase(store, "agent:a", at=3)
        await note(store, "agent:d", 2, text="bad")
        await erase(store, "agent:c", at=2)
        await views.catch_up()
        assert {row[1] for row in await rows(views, STREAMS)} == {"agent:b", "agent:d"}
        (progress,) = await views.progress()
        assert (progress.skipped, progress.erased) == (1, (2, 3))


KEPT = Table(name="v1_kept", says="what does not say of which stream it is", columns=NOTES.columns, key=NOTES.key)


class Keeping(Counting):
    """Counts, and keeps the version of each note in a table without `of_stream`."""

    name = "keeping"
    tables: Sequence[Table] = (*Counting.tables, KEPT)

    def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
        version = entry.record.version
        changes.put(KEPT, {"stream": entry.stream, "number": version, "version": version})
        return super().apply(fold, entry, changes)


async def test_rows_that_do_not_say_of_which_stream_they_are_stay_until_all_is_counted_anew(store_url: str) -> None:
    async with viewed(store_url, Keeping()) as (store, views):
        await some_notes(store)
        await views.catch_up()
        await erase(store, "agent:a")
        await views.catch_up()
        assert {row[0] for row in await rows(views, NOTES)} == {"agent:b", "agent:c"}
        assert {row[0] for row in await rows(views, KEPT)} == {"agent:a", "agent:b", "agent:c"}
        await views.rebuild()
        assert {row[0] for row in await rows(views, KEPT)} == {"agent:b", "agent:c"}
        assert await views.verify() == []


async def test_a_damaged_stream_that_was_erased_is_not_damaged_any_more(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with viewed(f"sqlite:///{path}") as (store, views):
        await some_notes(store)
        change_by_hand(path, "UPDATE stored_events SET state = X'00' WHERE position IN (2, 5)")
        await views.catch_up()
        assert [(each.damaged, len(await rows(views, NOTES))) for each in await views.progress()] == [(2, 4)]
        await erase(store, "agent:a", "agent:c")
        await views.catch_up()
        assert {row[1] for row in await rows(views, STREAMS)} == {"agent:b"}
        assert [(each.damaged, each.erased) for each in await views.progress()] == [(0, (2, AT))]
        await views.rebuild()
        assert await views.verify() == []


async def test_a_log_is_known_again_though_the_stream_at_the_place_went_on_and_was_erased(store_url: str) -> None:
    async with viewed(store_url) as (store, views):
        await some_notes(store)
        await views.catch_up()
        await note(store, "agent:b", 7)
        await erase(store, "agent:b")
    async with viewed(store_url) as (_, views):
        await views.catch_up()
        assert (await views.present()).number == 1
        assert {row[1] for row in await rows(views, STREAMS)} == {"agent:a", "agent:c"}


async def test_a_log_in_which_another_stream_of_that_name_was_erased_is_another_one(
    store_url: str, tmp_path: Path
) -> None:
    async with viewed(store_url) as (store, views), viewed(f"sqlite:///{tmp_path / 'other.db'}") as (other, _):
        await some_notes(store)
        await views.catch_up()
        await erase(store, "agent:b")
        await note(other, "agent:b", 3, 4, 7)
        await note(other, "agent:c", 5, 5, 5, 5)
        await erase(other, "agent:b")
        generation = await views.present()
        assert await Projector(store, generation, Counting(), asyncio.to_thread).begin()
        assert not await Projector(other, generation, Counting(), asyncio.to_thread).begin()


async def test_a_file_keeps_no_byte_of_the_tags_of_what_was_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_it_is_without_us(uri: str) -> sqlite3.Connection:
        connection = connect(uri)
        connection.execute("PRAGMA secure_delete = OFF")  # some systems have it on from the beginning
        return connection

    monkeypatch.setattr("steptrail.infrastructure.views.sqlite.connect", as_it_is_without_us)
    path = tmp_path / "runs.db"
    for is_gone in (False, True):
        async with Steptrail.open(f"sqlite:///{path}") as trail:
            if is_gone:
                await trail.erase("gone", by="ana", reason="asked")
            else:
                await trail.run(desk("Yes."), "hi", session="gone", metadata={"tags": {"user": "Mrs Peel"}})
            await trail.views.wait()
        assert (b"Mrs Peel" in (tmp_path / "runs.db-views" / "1.db").read_bytes()) is not is_gone


async def test_runs_that_were_erased_or_pruned_leave_no_row(store_url: str) -> None:
    clock = ManualClock()
    async with Steptrail.open(store_url, clock=clock) as trail:
        for name in ("old", "gone", "stays"):
            await trail.run(
                desk(*(["Yes."] if name == "stays" else [])), "hi", session=name, metadata={"tags": {"user": name}}
            )
            clock.advance(3600)
        views = trail.views
        await views.prune(older_than=timedelta(hours=2, minutes=30), dry_run=False)
        await trail.erase("old", by="ana", reason="asked")
        await trail.erase("gone", by="ana", reason="asked")
        await views.wait()
        ((execution,),) = (await views.all.fetch(f"SELECT execution FROM {EXECUTIONS.name}")).rows  # noqa: S608
        for table in {*ROWS} - {SIGNATURES}:
            found = (await views.all.fetch(f"SELECT DISTINCT execution FROM {table.name}")).rows  # noqa: S608
            assert found in ([], [(execution,)]), table.name
        page = await views.runs()
        assert ([row.stream for row in page.rows], page.lag) == (["agent:stays"], 0)
        kept = await digest(views.all, RunsView())
        await views.rebuild()
        again = await digest(views.all, RunsView())
        assert {each.name for each in ROWS if kept[each.name] != again[each.name]} == {SIGNATURES.name}
        assert await views.verify() == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["note", "erase", "count", "lose"]), st.integers(0, 4)), max_size=30))
def test_rows_are_those_of_a_fresh_fold_however_often_something_is_erased(steps: list[tuple[str, int]]) -> None:
    async def lived() -> None:
        async with AsyncExitStack() as stack:
            store, views = await stack.enter_async_context(viewed("sqlite:///:memory:", Ageing(), most=2))
            names, kept = [f"agent:{number}" for number in range(5)], list[list[tuple[object, ...]]]()
            for what, number in [*steps, ("count", 0)]:
                if what == "note":
                    await note(store, names[number], number, 1, 0)
                elif what == "erase" and await store.version(names[number]):
                    await erase(store, names[number])
                    names[number] += "+"
                elif what == "lose":
                    views._projectors.clear()  # pyright: ignore[reportPrivateUsage]
                elif what == "count":
                    await views.catch_up()
                    kept = [await rows(views, table) for table in (STREAMS, NOTES, THINGS, PARTS)]
                    assert {row[1] for row in kept[0]} <= {*names}
            assert (await views.present()).number == 1
            await views.rebuild()
            assert kept == [await rows(views, table) for table in (STREAMS, NOTES, THINGS, PARTS)]
            assert await views.verify() == []

    asyncio.run(lived())


async def test_who_keeps_read_models_going_counts_anew_beside_once_it_is_time(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.counting_anew._LOOK_SECONDS", 0.01)
    clock = ManualClock()
    async with AsyncExitStack() as stack:
        store, views = await stack.enter_async_context(viewed(store_url, clock=clock))
        _, others = await stack.enter_async_context(viewed(store_url, clock=clock))
        await stack.enter_async_context(views.kept_going())
        await stack.enter_async_context(others.kept_going())
        await stack.enter_async_context(asyncio.timeout(60))
        await some_notes(store)
        await views.wait(await store.last_position(), timeout=60)
        await erase(store, "agent:a", at=clock.utc())
        await views.wait(await store.last_position(), timeout=60)
        assert [each.erased.streams for each in await views.progress()] == [1]
        clock.advance(1)
        while any(each.erased.streams for each in await views.progress()):
            await asyncio.sleep(0.01)
        assert await rows(views, TOTALS) == [("even", 2, 10), ("odd", 2, 8)]
        # Both go on in what one of them has made.
        await note(store, "agent:d", 2)
        await views.wait(await store.last_position(), timeout=60)
        assert await rows(views, TOTALS) == [("even", 3, 12), ("odd", 2, 8)]
        assert (await views.present()).number == 2
    assert [record.message for record in caplog.records] == []


async def test_who_has_looked_before_another_one_counted_anew_does_not_count_anew_once_more(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.counting_anew._LOOK_SECONDS", 0.01)
    clock, has_looked, goes_on, has_tried = ManualClock(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with AsyncExitStack() as stack:
        store, views = await stack.enter_async_context(viewed(store_url, clock=clock))
        _, late = await stack.enter_async_context(viewed(store_url, clock=clock))
        await stack.enter_async_context(asyncio.timeout(60))
        await some_notes(store)
        await views.catch_up()
        await erase(store, "agent:a", at=clock.utc())
        await views.catch_up()
        clock.advance(1)
        look = late.status

        async def slow_look() -> tuple[Sequence[ViewProgress], int, int]:
            found = await look()
            (has_tried if goes_on.is_set() else has_looked).set()
            await goes_on.wait()
            return found

        monkeypatch.setattr(late, "status", slow_look)
        await stack.enter_async_context(late.kept_going())
        await has_looked.wait()
        await views.rebuild()
        goes_on.set()
        await has_tried.wait()
        assert (await views.present()).number == 2


class Beside(Counting):
    """Counts what another projection counts too, in a table of its own."""

    name = "beside"
    tables: Sequence[Table] = (KEPT,)

    def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
        if self.fails_at is not None:
            raise ValueError(self.fails_at)
        changes.put(KEPT, {"stream": entry.stream, "number": entry.record.version, "version": entry.record.version})
        return fold

    def end_batch(self, fold: Seen, changes: Changes) -> None:
        pass


async def test_what_is_counted_anew_beside_takes_no_rows_from_a_projection_that_fails_at_them_by_now(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.counting_anew._LOOK_SECONDS", 0.01)
    clock, beside = ManualClock(), Beside()
    async with viewed(store_url, own=(beside,), clock=clock) as (store, views), asyncio.timeout(60):
        await some_notes(store)
        await erase(store, "agent:a", at=clock.utc())
        await note(store, "agent:d", 1)
        await views.catch_up()
        await erase(store, "agent:b", at=clock.utc())
        await views.catch_up()
        kept, beside.fails_at = await rows(views, KEPT), "bad"
        clock.advance(1)
        async with views.kept_going():
            while (await views.present()).number == 1 and "cannot be counted anew" not in caplog.text:
                await asyncio.sleep(0.01)
        assert "the projection 'beside' stopped at position 5" in caplog.text
        assert (await views.present()).number == 1
        assert await rows(views, KEPT) == kept != []


def test_the_commands_and_the_pages_of_health_and_of_sums_say_how_many_erased_sessions_sums_still_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with Steptrail.open_sync(url) as trail:
        for name in ("a", "b"):
            trail.run(desk("Yes."), "hi", session=name)
        trail.views.wait()
        trail.erase("a", by="ana", reason="asked")
        trail.views.wait()

    async def shown(path: str, access: Access) -> str:
        async with Steptrail.open(url) as trail:
            transport = httpx.ASGITransport(inspector(trail, authorize=lambda _: access))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
                return (await client.get(path)).text

    assert main(["views", "--store", url]) == 0
    assert "1 erased still in sums since 20" in capsys.readouterr().out
    assert ", 1 erased session still in sums since 20" in asyncio.run(shown("/health", Access()))
    assert "1 erased session still in these sums" in asyncio.run(shown("/stats", Access()))
    assert "erased" not in asyncio.run(shown("/stats", Access(tenant="acme")))
    assert main(["stats", "--store", url]) == 0
    assert "1 erased session still in these: `steptrail rebuild` makes them anew" in capsys.readouterr().err
    assert main(["rebuild", "--store", url]) == 0
    for command in ("views", "stats"):
        assert main([command, "--store", url]) == 0
        assert "erased" not in "".join(capsys.readouterr())
