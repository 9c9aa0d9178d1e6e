"""Read models in both databases: what is in them is what the log says, whoever applies it and however it is cut."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from steptrail.domain.errors import ProjectionStopped, StoreUnavailable, ViewsBusy
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.views.generation import Generation, PlaceMoved
from steptrail.infrastructure.views.projector import Projector
from steptrail.infrastructure.views.views import Views
from steptrail.projections.kernel.projection import OnError
from steptrail.runtime.kernel.ports import EventStore, Lease
from tests.views.counting import STREAMS, TOTALS, Counting, note
from tests.views.kit import contents, digest, folded_again, rows, viewed


async def some_notes(store: EventStore) -> None:
    await note(store, "agent:a", 1, 2, 3)
    await note(store, "flow:other", 7)
    await note(store, "agent:b", 4, text="x")
    await note(store, "agent:a", 0, 5, text="it's \N{BELL}")


async def test_the_tables_hold_what_the_log_says(store_url: str) -> None:
    async with viewed(store_url) as (store, views):
        await some_notes(store)
        await views.catch_up()
        assert await contents(views) == {
            "v1_streams": [(1, "agent:a", 5, 11, "it's \N{BELL}", False), (5, "agent:b", 1, 4, "x", True)],
            "v1_notes": [("agent:a", 2, 2), ("agent:a", 3, 3), ("agent:a", 5, 5), ("agent:b", 4, 1)],
            "v1_totals": [("even", 3, 6), ("odd", 3, 9)],
        }
        assert (await views.as_of()).position == await store.last_position() == 7
        assert await views.lag() == 0


@pytest.mark.parametrize(
    ("store_url", "most"), [*(("sqlite", most) for most in (1, 2, 3, 1000)), ("postgres", 2)], indirect=["store_url"]
)
async def test_the_cuts_of_batches_and_another_process_change_nothing(store_url: str, most: int) -> None:
    async with viewed(store_url, most=most) as (store, views):
        await note(store, "agent:a", 1, 2)
        await views.catch_up()
        async with viewed(store_url, most=most) as (_, others):
            await some_notes_again(store)
            await others.catch_up()
        await note(store, "agent:a", 9, 0)
        await views.catch_up()
        once = await contents(views)
        assert once["v1_totals"] == [("even", 3, 6), ("odd", 5, 19)]
        await views.catch_up()
        assert await contents(views) == once


async def some_notes_again(store: EventStore) -> None:
    await note(store, "agent:b", 1, 1, 4)
    await note(store, "agent:a", 7)


async def test_a_rebuild_makes_the_same_bytes_in_a_generation_of_its_own(store_url: str) -> None:
    async with viewed(store_url, most=2) as (store, views):
        await some_notes(store)
        await views.catch_up()
        before = await digest(views)
        assert await views.rebuild() == 2
        assert await digest(views) == before
        await note(store, "agent:a", 8)
        await views.catch_up()
        changed = await digest(views)
        assert changed != before
        assert await views.rebuild() == 3
        assert await digest(views) == changed
        assert set(await asyncio.to_thread(views.series.sizes)) == {2, 3}


async def test_a_projection_that_raises_stops_there_and_others_go_on(store_url: str) -> None:
    class Other(Counting):
        name = "other"
        tables = ()

        def apply(self, fold: Any, entry: Any, changes: Any) -> Any:
            return fold

    async with viewed(store_url, Counting(fails_at="bad"), Other()) as (store, views):
        await note(store, "agent:a", 1, 2)
        await note(store, "agent:b", 3)
        await note(store, "agent:a", 4, text="bad")
        await note(store, "agent:b", 5)
        await views.catch_up()
        stopped, other = await views.progress()
        assert (stopped.reached.position, stopped.error_position, stopped.name) == (3, 4, "counting")
        assert "ValueError: I hate bad" in (stopped.error or "")
        assert (other.reached.position, other.error) == (5, None)
        assert [row[:4] for row in await rows(views, STREAMS)] == [(1, "agent:a", 2, 3), (3, "agent:b", 1, 3)]
        assert await rows(views, TOTALS) == [("even", 1, 2), ("odd", 2, 4)]
        with pytest.raises(ProjectionStopped, match="'counting' stopped at position 4: ValueError: I hate bad"):
            await views.wait(5, timeout=30)
        with pytest.raises(ProjectionStopped):
            await views.rebuild()
    async with viewed(store_url, Counting(), Other()) as (_, mended):
        await mended.wait(5, timeout=30)
        assert [each.error for each in await mended.progress()] == [None, None]
        assert await rows(mended, TOTALS) == [("even", 2, 6), ("odd", 3, 9)]


class Telling(Counting):
    """Fails and tells what it has read."""

    def apply(self, fold: Any, entry: Any, changes: Any) -> Any:
        try:
            raise KeyError("ana@example.com")
        except KeyError as error:
            raise ValueError("no account 4711 of 'Ana B.'") from error


@pytest.mark.parametrize("on_error", ["stop", "skip"])
async def test_how_it_failed_is_kept_without_the_values_that_readers_of_rows_may_not_see(
    store_url: str, on_error: OnError, caplog: pytest.LogCaptureFixture
) -> None:
    projection = Telling()
    projection.on_error = on_error
    async with viewed(store_url, projection) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        await views.catch_up()
        table = "skipped" if on_error == "skip" else "projections"
        ((kept,),) = (await views.fetch(f"SELECT error FROM {table}")).rows  # noqa: S608
    assert kept.endswith("ValueError: no account # of #\n")
    assert "KeyError: #\n" in kept
    assert "in apply" in kept
    assert not [value for value in ("ana@", "4711", "Ana B.") if value in kept]
    (told,) = [each for each in caplog.records if each.name == "steptrail.views"]
    assert told.getMessage() == "the projection counting fails at position 1"
    assert told.exc_info is not None
    assert str(told.exc_info[1]) == "no account 4711 of 'Ana B.'"


@pytest.mark.parametrize("error", [asyncio.CancelledError, StoreUnavailable])
async def test_a_projection_that_cancels_itself_or_raises_what_a_store_does_stops_like_any_other(
    store_url: str, error: type[BaseException]
) -> None:
    async with viewed(store_url, Counting(fails_at="bad", fails_with=error)) as (store, views):
        await note(store, "agent:a", 1)
        await note(store, "agent:a", 2, text="bad")
        await views.catch_up()
        (stopped,) = await views.progress()
        assert (stopped.reached.position, stopped.error_position) == (1, 2)
        assert f"{error.__name__}: I hate bad" in (stopped.error or "")


async def test_a_store_that_goes_away_in_the_middle_of_a_page_stops_no_projection(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(digest: bytes) -> bytes:
        raise StoreUnavailable("the store has gone away")

    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1, 2)
        await note(store, "agent:b", 3, text="so long that it lies apart from its event " * 1000)
        assert isinstance(store, RecorderEventStore)
        with monkeypatch.context() as then:
            then.setattr(store.recorder, "body", away)
            with pytest.raises(StoreUnavailable, match="has gone away"):
                await views.catch_up()
        (progress,) = await views.progress()
        assert (progress.reached.position, progress.error_position) == (0, None)
        await views.catch_up()
        assert await rows(views, TOTALS) == [("even", 1, 2), ("odd", 2, 4)]


async def test_an_event_that_fails_costs_the_folds_of_no_other_stream(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    projection = Counting(fails_at="bad")
    projection.on_error = "skip"
    async with viewed(store_url, projection) as (store, views):
        for _ in range(3):
            for name in "abcde":
                await note(store, f"agent:{name}", 1)
            await note(store, "agent:bad", 2, text="bad")
        again = folded_again(monkeypatch)
        await views.catch_up()
        assert [stream for stream, _ in again] == ["agent:bad", "agent:bad"]
        assert [row[1:4] for row in await rows(views, STREAMS)] == [(f"agent:{name}", 3, 3) for name in "abcde"]
        assert [each.skipped for each in await views.progress()] == [3]


@pytest.mark.parametrize("ordinal", [1, 2, 3])
async def test_read_models_that_go_away_while_entries_are_tried_one_by_one_have_each_counted_once(
    store_url: str, ordinal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writes = Generation.write, 0

    def away_once(generation: Generation, *given: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == ordinal:
            raise StoreUnavailable("the read models have gone away")
        write(generation, *given)

    projection = Counting(fails_at="bad")
    projection.on_error = "skip"
    async with viewed(store_url, projection) as (store, views):
        await note(store, "agent:a", 1)
        await note(store, "agent:b", 3, text="bad")
        await note(store, "agent:a", 2)
        monkeypatch.setattr(Generation, "write", away_once)
        with pytest.raises(StoreUnavailable, match="have gone away"):
            await views.catch_up()
        await views.catch_up()
        assert [row[1:4] for row in await rows(views, STREAMS)] == [("agent:a", 2, 3)]
        assert await rows(views, TOTALS) == [("even", 1, 2), ("odd", 1, 1)]


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize(
    ("store_url", "bad"), [*(("sqlite", bad) for bad in (1, 2, 7, 9, 12)), ("postgres", 7)], indirect=["store_url"]
)
async def test_a_rebuild_finds_the_entry_that_fails_on_any_page_of_a_batch(
    store_url: str, on_error: OnError, bad: int
) -> None:
    projection = Counting(fails_at="bad")
    projection.on_error = on_error
    # A page has two entries, and a batch of a rebuild five pages.
    async with viewed(store_url, projection, most=2) as (store, views):
        for number in range(1, 14):
            await note(store, f"agent:{number % 3}", number, text="bad" if number == bad else "good")
        await views.catch_up()
        left = [number for number in range(1, 14) if (number < bad if on_error == "stop" else number != bad)]
        odd, even = [n for n in left if n % 2], [n for n in left if not n % 2]
        sums = [(name, len(those), sum(those)) for name, those in (("even", even), ("odd", odd)) if those]
        assert await rows(views, TOTALS) == sums
        once = await digest(views)
        if on_error == "skip":
            await views.rebuild()
            assert await digest(views) == once
            assert [each.skipped for each in await views.progress()] == [1]
            return
        with pytest.raises(ProjectionStopped, match=f"stopped at position {bad}: "):
            await views.rebuild()
        assert await rows(views, TOTALS) == sums


@pytest.mark.parametrize("on_error", ["stop", "skip"])
async def test_a_projection_that_fails_at_the_end_of_a_batch_fails_at_the_entry_after_which_it_does(
    store_url: str, on_error: OnError
) -> None:
    projection = Counting(hated_sum=3)
    projection.on_error = on_error
    async with viewed(store_url, projection) as (store, views):
        await note(store, "agent:a", 1)
        await note(store, "agent:b", 5)
        await note(store, "agent:a", 2)
        await views.catch_up()
        (found,) = await views.progress()
        noted = [row[1:4] for row in await rows(views, STREAMS)]
        if on_error == "stop":
            assert (found.reached.position, found.error_position) == (2, 3)
            assert "ValueError: I hate" in (found.error or "")
        else:
            assert (found.reached.position, found.error_position, found.skipped) == (3, None, 1)
        assert noted == [("agent:a", 1, 1), ("agent:b", 1, 5)]


async def test_a_row_that_a_table_does_not_take_stops_the_projection_at_its_event(store_url: str) -> None:
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1)
        await note(store, "agent:a", 2**62)
        await note(store, "agent:a", 2**62)
        await views.catch_up()
        (stopped,) = await views.progress()
        assert (stopped.reached.position, stopped.error_position) == (2, 3)


async def test_texts_that_no_database_takes_are_made_fit(store_url: str) -> None:
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1, text="a\0b")
        await views.catch_up()
        assert (await rows(views, STREAMS))[0][4] == "a\ufffdb"


async def test_two_who_apply_the_log_at_once_count_each_event_once(store_url: str) -> None:
    async def apply_all(store: EventStore, views: Views) -> int:
        projector, moved = Projector(store, await views.present(), Counting(), asyncio.to_thread, most=1), 0
        while True:
            await projector.begin()
            try:
                while await projector.apply():
                    pass
            except PlaceMoved:
                moved += 1
            else:
                return moved

    async with viewed(store_url) as (store, views), viewed(store_url) as (_, others):
        for number in range(20):
            await note(store, f"agent:{number % 3}", number)
        # Without leases, as on a store that only reads, and over one generation.
        await views.present()
        moved = await asyncio.gather(*(apply_all(store, views) for _ in range(3)), apply_all(store, others))
        assert sum(moved) > 0
        assert await rows(views, TOTALS) == [("even", 10, 90), ("odd", 10, 100)]


async def test_several_who_ask_at_once_beside_a_file_that_is_only_read_count_each_event_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with viewed(url) as (store, _):
        for number in range(100):
            await note(store, f"agent:{number % 3}", number)
    async with viewed(url, read_only=True, most=5) as (_, views):
        await asyncio.gather(*(views.catch_up() for _ in range(4)))
        await views.wait(100, timeout=60)
        assert await rows(views, TOTALS) == [("even", 50, 2450), ("odd", 50, 2500)]
        assert await views.verify() == []
        rebuilt = await asyncio.gather(*(views.rebuild() for _ in range(3)), return_exceptions=True)
        assert {type(each) for each in rebuilt} == {int, ViewsBusy}
        assert await rows(views, TOTALS) == [("even", 50, 2450), ("odd", 50, 2500)]


async def test_what_another_one_has_counted_of_a_stream_is_its_past(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with viewed(url) as (store, views), viewed(url) as (_, others):
        # The first one has counted from the beginning of the log, but not all.
        for each, stream, number in ((views, "agent:a", 1), (others, "agent:b", 2), (views, "agent:b", 4)):
            await note(store, stream, number)
            await each.catch_up()
        assert [row[1:4] for row in await rows(views, STREAMS)] == [("agent:a", 1, 1), ("agent:b", 2, 6)]


async def test_a_waiter_is_told_when_another_one_has_applied_the_log(store_url: str) -> None:
    async with viewed(store_url) as (store, views), viewed(store_url) as (_, others), others.kept_going():
        await note(store, "agent:a", 1)
        await views.wait(1, timeout=60)
        await note(store, "agent:a", 2)
        await views.wait(2, timeout=60)
        assert await rows(views, TOTALS) == [("even", 1, 2), ("odd", 1, 1)]


async def test_a_waiter_is_not_told_that_it_stopped_while_another_process_tries_it_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with viewed(store_url, Counting(fails_at="bad")) as (store, views):
        await note(store, "agent:a", 1, text="bad")
        await views.catch_up()
    async with viewed(store_url) as (store, mended), viewed(store_url) as (another, _):
        lease = await another.acquire("projector:counting:1", owner="another process")
        acquire, tries = store.acquire, 0

        async def acquired(name: str, **given: Any) -> Lease:
            nonlocal tries
            tries += 1
            if tries == 2:
                await lease.release()
            return await acquire(name, **given)

        monkeypatch.setattr(store, "acquire", acquired)
        await mended.wait(1, timeout=60)
        assert await rows(mended, TOTALS) == [("odd", 1, 1)]


async def test_a_wait_for_what_never_comes_times_out(store_url: str) -> None:
    async with viewed(store_url) as (_, views):
        with pytest.raises(TimeoutError, match=r"up to position 1 of the log within 0\.05 s"):
            await views.wait(1, timeout=0.05)


async def test_what_was_erased_is_not_counted_any_more_wherever_the_projector_stood(store_url: str) -> None:
    async with viewed(store_url) as (store, views):
        await some_notes(store)
        await views.catch_up()
        before = (await views.present()).number
        await store.erase({"agent:a": 5}, at=1, by="ana", reason="test")
        await views.catch_up()
        assert await contents(views) == {
            "v1_streams": [(5, "agent:b", 1, 4, "x", True)],
            "v1_notes": [("agent:b", 4, 1)],
            "v1_totals": [("even", 1, 4)],
        }
        built = (await views.present()).number
        assert built > before
        # The place is that of the last event of agent:c now, which goes as well.
        await note(store, "agent:c", 9)
        await views.catch_up()
        await store.erase({"agent:c": 1}, at=1, by="ana", reason="test")
        await note(store, "agent:b", 6)
        await views.catch_up()
        assert (await contents(views))["v1_totals"] == [("even", 2, 10)]
        assert (await views.as_of()).position == await store.last_position()
        once = (await views.present()).number
        await note(store, "agent:b", 8)
        await views.catch_up()
        assert (await views.present()).number == once


@pytest.mark.parametrize("on_error", ["stop", "skip"])
async def test_an_event_for_which_there_was_no_memory_is_counted_when_there_is(
    store_url: str, on_error: OnError
) -> None:
    projection = Counting(fails_at="bad", fails_with=MemoryError)
    projection.on_error = on_error
    async with viewed(store_url, projection) as (store, views):
        await note(store, "agent:a", 1)
        await note(store, "agent:a", 2, text="bad")
        with pytest.raises(MemoryError):
            await views.catch_up()
        projection.fails_at = None
        await views.catch_up()
        assert await rows(views, TOTALS) == [("even", 1, 2), ("odd", 1, 1)]
        assert [(each.skipped, each.error) for each in await views.progress()] == [(0, None)]


async def test_read_models_are_kept_although_there_was_no_memory_for_a_while(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.views._AGAIN_SECONDS", 0.01)
    projection = Counting(fails_at="bad", fails_with=MemoryError)
    async with viewed(store_url, projection) as (store, views), views.kept_going(), asyncio.timeout(60):
        await note(store, "agent:a", 2, text="bad")
        while "goes on in a moment: MemoryError: I hate bad" not in caplog.text:
            await asyncio.sleep(0.01)
        projection.fails_at = None
        while [each.reached.position for each in await views.progress()] != [1]:
            await asyncio.sleep(0.01)
        assert await rows(views, TOTALS) == [("even", 1, 2)]


async def test_what_is_behind_an_entry_that_fails_is_not_read_before_it_is_its_turn(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(digest: bytes) -> bytes:
        raise StoreUnavailable("the store has gone away")

    async with viewed(store_url, Counting(fails_at="bad")) as (store, views):
        await note(store, "agent:a", 1)
        await note(store, "agent:a", 2, text="bad")
        await note(store, "agent:b", 3, text="so long that it lies apart from its event " * 1000)
        assert isinstance(store, RecorderEventStore)
        monkeypatch.setattr(store.recorder, "body", away)
        await views.catch_up()
        (stopped,) = await views.progress()
        assert (stopped.reached.position, stopped.error_position) == (1, 2)


async def test_the_past_of_a_stream_is_folded_again_a_page_at_a_time(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", *range(1, 1_101))
        await note(store, "agent:b", 1)
        await views.catch_up()
        await note(store, "agent:a", *range(1, 11))
        again = folded_again(monkeypatch)
        async with viewed(store_url) as (_, others):
            await others.catch_up()
        assert [length for _, length in again] == [500, 500, 100]
        assert [row[1:4] for row in await rows(views, STREAMS)] == [("agent:a", 1_110, 605_605), ("agent:b", 1, 1)]


async def test_what_was_passed_is_not_read_again_with_each_question(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped, read = Generation.skipped, list[int]()

    def noted(generation: Generation, *given: Any) -> Any:
        found = skipped(generation, *given)
        read.append(len(found))
        return found

    projection = Counting(fails_at="bad")
    projection.on_error = "skip"
    async with viewed(store_url, projection) as (store, views), viewed(store_url, projection) as (_, others):
        await note(store, "agent:a", 1, text="bad")
        await views.catch_up()
        monkeypatch.setattr(Generation, "skipped", noted)
        for number in (3, 5):
            await note(store, "agent:a", number)
            await views.catch_up()
        assert read == []
        await note(store, "agent:a", 7, text="bad")
        await others.catch_up()
        await note(store, "agent:a", 9)
        await views.catch_up()
        assert read == [1, 2]
        assert await rows(views, TOTALS) == [("odd", 3, 17)]
