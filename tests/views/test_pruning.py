"""Rows of runs that ended long ago are deleted, their sums stay, and so it is after whatever comes later."""

import asyncio
import json
import os
import signal
from datetime import timedelta
from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.errors import ConfigurationError, ViewsBusy
from steptrail.infrastructure.views import views as views_module
from steptrail.infrastructure.views.views import Views
from steptrail.interfaces.cli.main import main
from steptrail.projections.runs_view.sums import SUMS
from steptrail.projections.runs_view.tables import EXECUTIONS, ROWS, SIGNATURES
from steptrail.projections.runs_view.view import RunsView
from steptrail.testing import ManualClock
from steptrail.testing.store_samples import AT
from tests.harness.store_urls import with_short_leases
from tests.harness.worker_pool import WorkerPool
from tests.views.ageing import PARTS, THINGS, Ageing
from tests.views.counting import TOTALS, note
from tests.views.kit import desk, digest, rows, viewed
from tests.views.test_own_projections import Refunds, desk as refund_desk, refunds

STREAMS = "SELECT stream, ordinal FROM executions ORDER BY execution"


async def a_year(trail: Steptrail, clock: ManualClock) -> None:
    """Run four sessions, a hundred days apart: one fails and one waits to be begun with."""
    for name in ("a", "b", "c"):
        replies = () if name == "b" else ("Found.",)
        await trail.run(desk(*replies), "hi", session=name, metadata={"tags": {"user": name}, "tenant": "acme"})
        clock.advance(timedelta(days=100))
    await trail.start(desk("Found."), "hi", session="open")
    clock.advance(timedelta(days=100))


async def sums(trail: Steptrail) -> Any:
    stats = (await trail.views.stats(by=("agent", "day"))).to_dict()
    return {name: each for name, each in stats.items() if name not in ("asOf", "lag", "failures")}


@pytest.mark.acceptance("8.1-6")
async def test_rows_of_old_runs_go_and_stay_away_and_sums_stay(store_url: str) -> None:
    clock = ManualClock()
    async with Steptrail.open(store_url, clock=clock) as trail:
        await a_year(trail, clock)
        before = await sums(trail)
        told = await trail.views.prune(older_than=timedelta(days=250))
        assert (told.runs, told.is_dry_run) == (2, True)
        assert len((await trail.views.sql(STREAMS)).rows) == 4
        done = await trail.views.prune(older_than=timedelta(days=250), dry_run=False)
        assert (done.runs, done.is_dry_run, done.before) == (2, False, told.before)
        assert (await trail.views.sql(STREAMS)).rows == [("agent:c", 1), ("agent:open", 1)]
        left = {table.name: await rows(trail.views.all, table) for table in (*ROWS, *SUMS)}
        (c, _) = (row[0] for row in left[EXECUTIONS.name])
        for table in ROWS:
            if table not in (EXECUTIONS, SIGNATURES):
                place = [column.name for column in table.columns].index("execution")
                assert all(row[place] >= c for row in left[table.name]), table.name
        assert await sums(trail) == before
        assert await trail.views.verify() == []
        (status,) = await trail.views.status()
        assert status.pruned_before == done.before
        assert [row.stream for row in await trail.runs()] == ["agent:open", "agent:c", "agent:b", "agent:a"]
        # What is begun in an old session is counted, and it alone.
        await trail.session("b").retry(desk("Found."))
        found = [tuple(row) for row in (await trail.views.sql(STREAMS)).rows]
        assert sorted(found) == [("agent:b", 2), ("agent:c", 1), ("agent:open", 1)]
        assert await trail.views.verify() == []
        pruned = await digest(trail.views.all, RunsView())
        await trail.views.rebuild()
        assert await digest(trail.views.all, RunsView()) == pruned
        # A later prune that reaches less far takes nothing back.
        assert (await trail.views.prune(older_than=timedelta(days=5_000), dry_run=False)).runs == 0
        assert (await trail.views.status())[0].pruned_before == done.before
        # So it is when all is counted anew because somebody was erased.
        await trail.erase("c", by="ana", reason="test")
        assert sorted(tuple(row) for row in (await trail.views.sql(STREAMS)).rows) == [
            ("agent:b", 2),
            ("agent:open", 1),
        ]
        assert await trail.views.verify() == []
        await trail.views.rebuild(whole=True)
        assert len((await trail.views.sql(STREAMS)).rows) == 4
        assert (await trail.views.status())[0].pruned_before is None
        assert await trail.views.verify() == []


@pytest.mark.parametrize("is_counted_by_another_version", [False, True])
async def test_rows_of_a_service_stay_away_where_a_process_without_its_class_rebuilds(
    store_url: str, is_counted_by_another_version: bool
) -> None:
    clock = ManualClock()
    async with (
        Steptrail.open(store_url, clock=clock, projections=[Refunds()]) as trail,
        Steptrail.open(store_url, clock=clock) as other,
    ):
        for name in ("a", "b"):
            await trail.run(refund_desk(450), "hi", session=name)
            clock.advance(timedelta(days=100))
        if is_counted_by_another_version:
            async with Steptrail.open(store_url, clock=clock, projections=[Refunds(version=2)]) as newer:
                await newer.views.wait(timeout=60)
        for is_dry in (True, False):  # the row of a refund is no run
            assert (await trail.views.prune(older_than=timedelta(days=150), dry_run=is_dry)).runs == 1
        for _ in range(2):  # the second finds a generation in which they were not begun
            await other.views.rebuild()
            assert {each.name for each in await other.views.status()} == {"runs"}
        assert await refunds(trail) == [("agent:b", 450)]
        assert await trail.views.verify() == []
        assert (await trail.views.sql("SELECT version FROM projections ORDER BY version")).rows == [
            (1,),
            (RunsView.version,),
        ]
        await other.views.rebuild(whole=True)
        assert await refunds(trail) == [("agent:a", 450), ("agent:b", 450)]


async def test_an_age_that_cannot_be_is_refused_and_a_huge_one_finds_nothing() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(desk("Found."), "hi")
        for age in (timedelta(0), timedelta(days=-1)):
            with pytest.raises(ConfigurationError):
                await trail.views.prune(older_than=age)
        assert (await trail.views.prune(older_than=timedelta.max, dry_run=False)).runs == 0
        assert len((await trail.views.sql(STREAMS)).rows) == 1


async def test_what_is_said_of_an_old_row_later_is_not_kept_and_a_rebuild_agrees(store_url: str) -> None:
    async with viewed(store_url, Ageing(), most=2) as (store, views):
        await note(store, "agent:a", 1, 2, 3)
        await note(store, "agent:b", 4)
        await views.catch_up()
        assert await views.prune(AT + 1) == 2  # the first of each commit
        assert [row[:2] for row in await rows(views, THINGS)] == [("agent:a", 2), ("agent:a", 3)]
        await note(store, "agent:a", 0, 0, 5)  # of version 1, which is gone; version 4 has its instant too
        await views.catch_up()
        assert [row[:2] for row in await rows(views, THINGS)] == [("agent:a", 2), ("agent:a", 3), ("agent:a", 6)]
        assert {row[2] for row in await rows(views, PARTS)} == {2, 3, 6}
        assert await rows(views, TOTALS) == [("even", 4, 6), ("odd", 3, 9)]
        assert await views.verify() == []
        kept = await rows(views, PARTS)
        await views.rebuild()
        assert await rows(views, PARTS) == kept
        assert await views.verify() == []


async def test_readers_see_runs_whole_or_not_at_all_while_others_apply_rebuild_and_prune(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_module, "_PRUNED_AT_ONCE", 3)
    async with viewed(store_url, Ageing(), most=5) as (store, views), viewed(store_url, Ageing()) as (_, others):
        for number in range(1, 40):
            await note(store, f"agent:{number % 5}", number, number)
        await views.catch_up()
        is_over, asked = asyncio.Event(), 0

        async def ask() -> None:
            nonlocal asked
            whole = "SELECT (SELECT count(*) FROM v1_parts) - 2 * (SELECT count(*) FROM v1_things)"
            while not is_over.is_set() or not asked:
                assert (await others.fetch(whole)).rows == [(0,)]
                asked += 1

        async def change(of: Views, number: int) -> None:
            done = 0
            while done < 2:
                try:
                    await (of.prune(AT + number) if number else of.rebuild())
                    done += 1
                except ViewsBusy:
                    await asyncio.sleep(0.01)
                await of.catch_up()

        asking = asyncio.create_task(ask())
        await asyncio.gather(change(views, 0), change(others, 1), change(views, 1), change(others, 0))
        await store.erase({"agent:1": await store.version("agent:1")}, at=1, by="ana", reason="test")
        await views.catch_up()
        is_over.set()
        await asking
        assert await others.prune(AT + 1) == 0
        assert await views.verify() == []


def die(url: str, ordinal: int) -> None:
    """Prune a little at a time, in a process that is killed after so many times."""
    views_module._PRUNED_AT_ONCE = 7  # pyright: ignore[reportPrivateUsage]
    left = ordinal

    def reach(point: str) -> None:
        nonlocal left
        left -= point == "pruned"
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    async def pruned() -> None:
        async with viewed(url, Ageing(), reach=reach) as (_, views):
            await views.prune(AT + 1)

    asyncio.run(pruned())


@pytest.mark.slow("a process that is killed")
async def test_a_prune_that_is_killed_on_the_way_is_no_damage_and_is_ended_by_whoever_comes(
    store_url: str, pool: WorkerPool
) -> None:
    url = with_short_leases(store_url)
    async with viewed(url, Ageing()) as (store, views):
        for number in range(40):
            await note(store, f"agent:{number}", 1)
        await views.catch_up()
        assert (await asyncio.to_thread(pool.start(die, url, 2).end)).code == -signal.SIGKILL
        left = len(await rows(views, THINGS))
        assert left == 26
        assert await views.verify() == []
        await note(store, "agent:new", 1, 2)
        await views.catch_up()
        assert 1 < len(await rows(views, THINGS)) < left  # whoever applies the log goes on with it
        assert await views.verify() == []
        while await store.leased():
            await asyncio.sleep(0.02)
        await views.prune(AT + 1)
        assert [row[:2] for row in await rows(views, THINGS)] == [("agent:new", 2)]
        assert await views.verify() == []


def test_the_command_says_what_would_go_and_deletes_with_yes(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*words: str) -> tuple[int, str]:
        code = main([*words, "--store", store_url])
        return code, capsys.readouterr().out

    async def run() -> None:
        clock = ManualClock()
        async with Steptrail.open(store_url, clock=clock) as trail:
            for name in ("a", "b"):
                await trail.run(desk("Found."), "hi", session=name)
                clock.advance(timedelta(days=1))

    asyncio.run(run())
    code, said = command("views", "--prune", "1m")
    assert (code, said.startswith("the rows of 0 runs that ended before ")) == (0, True)  # the clock was ahead
    code, said = command("views", "--prune", "999999d", "--json")
    assert json.loads(said)["runs"] == 0
    code, said = command("views", "--prune", "1m", "--yes")
    assert (code, said.startswith("deleted the rows of 0 runs that ended before ")) == (0, True)
    assert "pruned before 20" in command("views")[1]
    assert command("rebuild", "--whole")[0] == 0
    assert "pruned" not in command("views")[1]
    assert main(["views", "--yes", "--store", store_url]) == 2
    assert main(["views", "--prune", "soon", "--store", store_url]) == 2
    assert "no age" in capsys.readouterr().err
