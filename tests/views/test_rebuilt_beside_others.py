"""Somebody rebuilds read models while others make the first ones, apply the log, or erase what was counted."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.domain.errors import StoreLocked
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.views.generation import Generation
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.runs_view.tables import TAGS
from steptrail.testing import ManualClock
from steptrail.testing.store_samples import AT
from tests.harness.postgres_server import PostgresServer
from tests.views.ageing import Ageing
from tests.views.counting import STREAMS, TOTALS, note
from tests.views.kit import desk, elsewhere, rows, viewed
from tests.views.test_erased import KEPT, Beside

_TAGGED = f"SELECT value FROM {TAGS.name}"  # noqa: S608


async def rebuilt(url: str, times: int, *projections: Projection[Any]) -> None:
    async with viewed(url, *projections) as (_, views):
        for _ in range(times):
            await views.rebuild()


class Eraser:
    """Erases streams, the last of them first, each when one more page of the log has been read."""

    def __init__(self, url: str, streams: list[str]) -> None:
        self._url, self.left = url, streams

    def __call__(self, point: str) -> None:
        if point == "page-read" and self.left:
            elsewhere(self._erase)

    async def _erase(self) -> None:
        store = open_store(self._url)
        await store.erase({self.left.pop(): 1}, at=1, by="ana", reason="test")
        await store.close()


async def test_a_rebuild_goes_on_where_something_was_erased_on_the_way(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = list[int]()
    eraser = Eraser(store_url, ["agent:0", "agent:79"])
    async with viewed(store_url, most=2, reach=eraser) as (store, views):
        for number in range(80):
            await note(store, f"agent:{number}", number)
        begin = views.series.begin

        def noted() -> Generation:
            made = begin()
            begun.append(made.number)
            return made

        monkeypatch.setattr(views.series, "begin", noted)
        assert await views.rebuild() == 1
        assert begun == [1]
        assert not eraser.left
        assert [row[1] for row in await rows(views, STREAMS)] == [f"agent:{number}" for number in range(1, 79)]
        # That of which nothing had been counted is in no sum. The next question counts all anew without the other one.
        assert await rows(views, TOTALS) == [("even", 40, 1560), ("odd", 39, 1521)]
        assert [each.erased for each in await views.progress()] == [(1, 1)]
        await views.catch_up()
        assert await rows(views, TOTALS) == [("even", 39, 1560), ("odd", 39, 1521)]
        assert [each.erased for each in await views.progress()] == [(0, None)]


@pytest.mark.parametrize("point", ["begun", "page-read", "after-views", "before-switch"])
async def test_a_rebuild_that_stood_still_past_its_lease_begins_again_where_another_one_has_removed_its_own(
    postgres_server: PostgresServer, postgres_store_url: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = list[str]()

    def stand_still(reached: str) -> None:
        if reached == point and not passed:
            passed.append(point)
            postgres_server.execute("DELETE FROM steptrail.leases", database=postgres_store_url.rpartition("/")[2])
            elsewhere(lambda: rebuilt(postgres_store_url, 1))

    async with viewed(postgres_store_url, reach=stand_still) as (store, views):
        begin = views.series.begin

        def begun() -> Generation:
            made = begin()
            stand_still("begun")
            return made

        monkeypatch.setattr(views.series, "begin", begun)
        await note(store, "agent:a", 1)
        number = await views.rebuild()
        assert passed
        assert (await views.present()).number == number
        assert await rows(views, TOTALS) == [("odd", 1, 1)]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_prune_that_stood_still_past_its_lease_goes_on_in_what_others_have_rebuilt(
    postgres_server: PostgresServer, postgres_store_url: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.views._PRUNED_AT_ONCE", 1)
    passed = list[str]()

    def stand_still(reached: str) -> None:
        if reached == "pruned" and not passed:
            passed.append(reached)
            postgres_server.execute("DELETE FROM steptrail.leases", database=postgres_store_url.rpartition("/")[2])
            elsewhere(lambda: rebuilt(postgres_store_url, times, Ageing()))

    async with viewed(postgres_store_url, Ageing(), reach=stand_still) as (store, views):
        for number in range(3):
            await note(store, f"agent:{number}", number, 1, 0)
        await views.catch_up()
        assert await views.prune(AT + 10) == 1  # the others are left out by the rebuild
        assert passed
        assert await views.old(AT + 10) == 0
        assert await views.verify() == []


async def test_what_is_counted_anew_beside_takes_no_rows_of_a_projection_that_another_process_has_begun_meanwhile(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.counting_anew._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("steptrail.infrastructure.views.counting_anew._AT_ONCE", 0)
    clock, was_reached = ManualClock(), asyncio.Event()

    async def count_with_a_new_one() -> None:
        async with viewed(store_url, own=(Beside(),)) as (_, deployed):
            await deployed.catch_up()

    def deploy(reached: str) -> None:
        if reached == "before-switch" and not was_reached.is_set():
            elsewhere(count_with_a_new_one)
            was_reached.set()

    async with viewed(store_url, clock=clock, reach=deploy) as (store, views), asyncio.timeout(60):
        await note(store, "agent:a", 1)
        await note(store, "agent:b", 2)
        await views.catch_up()
        await store.erase({"agent:a": 1}, at=clock.utc(), by="ana", reason="test")
        await views.catch_up()
        clock.advance(1)
        async with views.kept_going():
            await was_reached.wait()
            while len(views.series.sizes()) > 1 and (await views.present()).number == 1:
                await asyncio.sleep(0.01)
        async with viewed(store_url, own=(Beside(),)) as (_, deployed):
            assert (await deployed.present()).number == 1
            assert await rows(deployed, KEPT) != []


async def test_whoever_makes_the_first_read_models_goes_on_where_a_rebuild_has_removed_them(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1)
        begin, numbers = views.series.begin, list[int]()

        def begun() -> Generation:
            made = begin()
            numbers.append(made.number)
            if len(numbers) == 1:
                elsewhere(lambda: rebuilt(store_url, 1))
            return made

        monkeypatch.setattr(views.series, "begin", begun)
        await views.catch_up()
        assert await rows(views, TOTALS) == [("odd", 1, 1)]
        assert numbers == [1]
        assert (await views.present()).number == 2


@pytest.mark.parametrize("is_dangling", [False, True])
async def test_of_two_who_make_the_first_read_models_the_later_one_reads_those_of_the_other(
    store_url: str, is_dangling: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def counted_and_pruned() -> None:
        async with viewed(store_url) as (_, others):
            await others.catch_up()
            await others.prune(1)

    async with viewed(store_url) as (store, views), viewed(store_url) as (_, later):
        await note(store, "agent:a", 1)
        if is_dangling:
            views.series.remove([(await views.present()).number])
        prepare, prepared = Generation.prepare, 0

        def prepared_late(generation: Generation, *given: Any) -> None:
            nonlocal prepared
            prepare(generation, *given)
            prepared += 1
            if prepared == 1:
                elsewhere(counted_and_pruned)

        monkeypatch.setattr(Generation, "prepare", prepared_late)
        assert await rows(later, TOTALS) == [("odd", 1, 1)]
        assert list(views.series.sizes()) == [(await views.present()).number]
        assert [each.pruned_before for each in await views.progress()] == [1]


@pytest.mark.parametrize("ordinal", range(1, 5))
async def test_whoever_looks_at_read_models_goes_on_where_two_rebuilds_have_removed_them(
    store_url: str, ordinal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        await note(store, "agent:a", 2)
        current, looks = views.series.current, 0

        def looked() -> int | None:
            nonlocal looks
            found, looks = current(), looks + 1
            if looks == ordinal:
                elsewhere(lambda: rebuilt(store_url, 2))
            return found

        monkeypatch.setattr(views.series, "current", looked)
        await views.catch_up()
        assert await rows(views, TOTALS) == [("even", 1, 2), ("odd", 1, 1)]
        assert [each.error for each in await views.progress()] == [None]
        assert looks >= ordinal


@pytest.mark.parametrize("point", ["page-read", "before-views", "after-views"])
async def test_whoever_applies_the_log_goes_on_where_two_rebuilds_have_removed_the_read_models(
    store_url: str, point: str
) -> None:
    is_removed = False

    def reach(reached: str) -> None:
        nonlocal is_removed
        if reached == point and not is_removed:
            is_removed = True
            elsewhere(lambda: rebuilt(store_url, 2))

    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
    async with viewed(store_url, most=1, reach=reach) as (store, views):
        for number in range(2, 5):
            await note(store, "agent:b", number)
        await views.catch_up()
        assert is_removed
        assert await rows(views, TOTALS) == [("even", 2, 6), ("odd", 2, 4)]
        assert [each.error for each in await views.progress()] == [None]


async def test_two_rebuilds_leave_no_row_of_what_was_erased(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        for name in ("gone", "stays"):
            await trail.run(desk("Yes."), "Hi", session=name, metadata={"tags": {"user": name}})
        views = trail.views
        await views.wait()
        await trail.erase("gone", by="ana", reason="test")
        users: list[set[str]] = []
        for _ in range(2):
            await views.rebuild()
            generations = [views.all.series.open(number) for number in sorted(views.all.series.sizes())]
            read = [each.database.read(lambda s: s.ask(_TAGGED)) for each in generations]
            users.append({value for rows in read for (value,) in rows})
        assert users == [{"gone", "stays"}, {"stays"}]


async def test_a_question_is_answered_while_somebody_keeps_a_transaction_open_that_has_read_the_views(
    postgres_server: PostgresServer, postgres_database: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.views.postgres._TRIES", 2)
    count = "SELECT count(*) FROM executions"
    async with Steptrail.open(postgres_url) as trail:
        for name in ("a", "b"):
            await trail.run(desk(), "hi", session=name)
        assert (await trail.views.sql(count)).rows == [(2,)]
        with postgres_server.session(postgres_database, "SELECT FROM steptrail_views.executions") as reader:
            await trail.erase("a", by="ana", reason="test")
            found = await trail.views.sql(count)
            assert (found.rows, found.lag) == ([(1,)], 0)
            with pytest.raises(StoreLocked, match="a transaction that has asked one of them is still open"):
                await trail.views.rebuild()
            reader.rollback()
        found = await trail.views.sql(count)
        assert (found.rows, found.lag) == ([(1,)], 0)


@pytest.mark.parametrize("step", ["begin", "point_at"])
async def test_questions_do_not_wait_for_a_rebuild_of_the_same_process_that_waits_for_others(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with viewed(f"sqlite:///{tmp_path / 'runs.db'}") as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        waits, may_go_on, done = threading.Event(), threading.Event(), getattr(views.series, step)

        def late(*given: Any) -> Any:
            waits.set()
            may_go_on.wait()
            return done(*given)

        monkeypatch.setattr(views.series, step, late)
        rebuilding = asyncio.create_task(views.rebuild())
        try:
            await asyncio.to_thread(waits.wait)
            await note(store, "agent:a", 3)
            async with asyncio.timeout(60):
                await views.catch_up()
            assert await rows(views, TOTALS) == [("odd", 2, 4)]
        finally:
            may_go_on.set()
        assert await rebuilding == 2
        await views.catch_up()
        assert await rows(views, TOTALS) == [("odd", 2, 4)]


@pytest.mark.parametrize("point", ["page-read", "before-switch"])
async def test_a_rebuild_that_stood_still_past_its_lease_leaves_out_what_others_have_pruned_meanwhile(
    postgres_server: PostgresServer, postgres_store_url: str, point: str
) -> None:
    passed = list[str]()

    async def pruned() -> None:
        async with viewed(postgres_store_url, Ageing()) as (_, others):
            assert await others.prune(AT + 10) == 6

    def stand_still(reached: str) -> None:
        if reached == point and not passed:
            passed.append(reached)
            postgres_server.execute("DELETE FROM steptrail.leases", database=postgres_store_url.rpartition("/")[2])
            elsewhere(pruned)

    async with viewed(postgres_store_url, Ageing()) as (store, views):
        for number in range(3):
            await note(store, f"agent:{number}", number, 1, 0)
        await views.catch_up()
    async with viewed(postgres_store_url, Ageing(), reach=stand_still) as (_, views):
        await views.rebuild()
        assert passed
        assert await views.old(AT + 10) == 0
        assert await views.verify() == []


async def test_a_rebuild_that_stood_still_past_its_lease_removes_nothing_that_readers_look_at_by_then(
    postgres_server: PostgresServer, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed, seen = list[str](), list[int | None]()

    async def pruned_and_rebuilt() -> None:
        async with viewed(postgres_store_url, Ageing()) as (_, others):
            assert await others.prune(AT + 10) == 6
            await others.rebuild()

    def look(reached: str) -> None:
        if reached == "page-read":
            seen.append(views.series.current())

    async with viewed(postgres_store_url, Ageing(), reach=look) as (store, views):
        for number in range(3):
            await note(store, f"agent:{number}", number, 1, 0)
        await views.catch_up()
        begin = views.series.begin

        def stood_still() -> Generation:
            made = begin()
            if not passed:
                passed.append("begun")
                postgres_server.execute("DELETE FROM steptrail.leases", database=postgres_store_url.rpartition("/")[2])
                elsewhere(pruned_and_rebuilt)
            return made

        monkeypatch.setattr(views.series, "begin", stood_still)
        await views.rebuild()
        assert passed
        assert None not in seen
        assert await views.old(AT + 10) == 0
        assert await views.verify() == []
