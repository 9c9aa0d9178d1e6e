"""Versions of the projections of a service, beside each other: which of them is shown, and what answers are as of."""

from contextlib import AbstractAsyncContextManager

import pytest

from steptrail import Steptrail
from steptrail.errors import StoreLocked
from steptrail.infrastructure.views.views import Views
from steptrail.projections.kernel.face import face_of
from steptrail.runtime.kernel.ports import EventStore
from tests.harness.postgres_server import PostgresServer
from tests.views.counting import note
from tests.views.kit import elsewhere, viewed
from tests.views.test_own_projections import Forgetful, Refunds, desk, refunds, tables


async def test_another_version_is_counted_beside_and_shown_when_it_is(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as old:
        await old.run(desk(450), "hi", session="a")
        assert await refunds(old) == [("agent:a", 450)]
        async with Steptrail.open(store_url, projections=[Refunds(version=2)]) as new:
            assert await refunds(new, fresh=None) == [("agent:a", 450)]
            assert await refunds(new) == [("agent:a", 900)]
            await old.run(desk(5), "hi", session="b")
            # The older one goes on with its own tables, and does not take the views back.
            await old.views.wait(timeout=60)
            assert await refunds(new) == [("agent:a", 900), ("agent:b", 10)]
            assert await refunds(old) == [("agent:a", 900), ("agent:b", 10)]
            assert await old.views.verify() == await new.views.verify() == []


async def test_another_version_is_counted_while_a_process_keeps_the_older_one_going(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as old, old.views.kept_going():
        await old.run(desk(450), "hi", session="a")
        await old.views.wait(timeout=60)
        async with Steptrail.open(store_url, projections=[Refunds(version=2)]) as new:
            await new.views.wait(timeout=60)
            assert await refunds(new) == [("agent:a", 900)]


async def test_a_new_one_is_shown_though_somebody_writes_all_the_time(store_url: str) -> None:
    async def written() -> None:
        async with viewed(store_url) as (store, _):
            await note(store, "agent:a", 1)

    def writes(point: str) -> None:
        if point == "after-views":
            elsewhere(written)

    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
    async with viewed(store_url, own=(Refunds(),), reach=writes) as (_, views):
        await views.catch_up()
        found, _ = await views.sql("SELECT cents FROM refunds", [], seconds=60, most=10)
        assert found.rows == []


async def test_a_version_whose_columns_are_others_waits_for_who_has_made_a_view_of_the_older_one(
    postgres_server: PostgresServer, postgres_store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = postgres_store_url.rpartition("/")[2]
    async with Steptrail.open(postgres_store_url, projections=[Refunds()]) as first:
        await first.run(desk(450), "hi", session="a")
        assert await refunds(first) == [("agent:a", 450)]
        shown = await first.store.last_position()
        postgres_server.execute(
            "CREATE VIEW mine AS SELECT cents FROM steptrail_views.refunds_total", database=database
        )
        await first.run(desk(5), "hi", session="b")
    newer = Forgetful()
    newer.version, newer.tables = 2, tables(2)[:1]
    said = "mine depends on view steptrail_views.refunds_total: drop what others have made of them"
    async with Steptrail.open(postgres_store_url, projections=[newer]) as trail:
        answer = await trail.views.sql("SELECT cents FROM refunds")
        assert (answer.rows, answer.as_of) == ([(450,)], shown)
        assert said in caplog.text
        with pytest.raises(StoreLocked, match=said):
            await trail.views.rebuild()
        postgres_server.execute("DROP VIEW mine", database=database)
        await trail.run(desk(7), "hi", session="c")
        assert (await trail.views.sql("SELECT cents FROM refunds ORDER BY cents")).rows == [(5,), (7,), (450,)]


async def test_an_answer_of_the_version_that_is_shown_is_as_of_that_one(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as first:
        await first.run(desk(450), "hi", session="a")
        await first.views.wait(timeout=60)
    async with Steptrail.open(store_url, projections=[Refunds(version=2)]) as newer:
        assert await refunds(newer) == [("agent:a", 900)]
        shown = await newer.store.last_position()
    async with Steptrail.open(store_url, projections=[Refunds()]) as back:
        await back.run(desk(5), "hi", session="b")
        answer = await back.views.sql("SELECT stream, cents FROM refunds ORDER BY stream")
        assert answer.rows == [("agent:a", 900)]
        assert (answer.as_of, answer.lag) == (shown, await back.store.last_position() - shown)
        await back.views.rebuild()
        answer = await back.views.sql("SELECT stream, cents FROM refunds ORDER BY stream")
        assert (answer.rows, answer.lag) == ([("agent:a", 450), ("agent:b", 5)], 0)


async def test_an_answer_is_not_as_of_a_version_that_was_never_shown(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as first:
        await first.run(desk(450), "hi", session="a")
        await first.views.wait(timeout=60)
        shown = await first.store.last_position()
        for session, cents in (("b", 5), ("c", 13)):
            await first.run(desk(cents), "hi", session=session)
    for version in (2, 3):  # each counts the second refund, fails at the third, and is not shown
        async with Steptrail.open(store_url, projections=[Refunds(version=version)]) as trail:
            answer = await trail.views.sql("SELECT stream, cents FROM refunds")
            assert (answer.rows, answer.as_of) == ([("agent:a", 450)], shown)
    async with Steptrail.open(store_url, projections=[Refunds(version=4, on_error="skip")]) as trail:
        answer = await trail.views.sql("SELECT stream, cents FROM refunds ORDER BY stream")
        assert (answer.rows, answer.lag) == ([("agent:a", 1800), ("agent:b", 20)], 0)


async def test_an_answer_to_who_has_not_the_class_is_as_of_what_is_counted_with_it(store_url: str) -> None:
    async with Steptrail.open(store_url, projections=[Refunds()]) as trail:
        await trail.run(desk(450), "hi", session="a")
        await trail.views.wait(timeout=60)
        counted = await trail.store.last_position()
    async with Steptrail.open(store_url) as other:
        await other.run(desk(5), "hi", session="b")
        answer = await other.views.sql('SELECT e.name, cents FROM executions e JOIN "refunds" USING (stream)')
        assert (answer.rows, answer.as_of) == ([("desk", 450)], counted)
        assert answer.lag == await other.store.last_position() - counted
        assert (await other.views.sql("SELECT name FROM executions")).lag == 0


async def test_an_answer_of_an_older_generation_is_not_as_of_what_is_counted_in_the_present_one(
    postgres_store_url: str,
) -> None:
    async with (
        Steptrail.open(postgres_store_url, projections=[Refunds()]) as trail,
        Steptrail.open(postgres_store_url) as other,
    ):
        await trail.run(desk(450), "hi", session="a")
        await trail.views.wait(timeout=60)
        shown = await trail.store.last_position()
        await other.views.rebuild()
        for session, cents in (("b", 5), ("c", 13)):
            await trail.run(desk(cents), "hi", session=session)
        answer = await trail.views.sql("SELECT stream, cents FROM refunds")
        assert answer.rows == [("agent:a", 450)]
        assert answer.as_of <= shown


@pytest.mark.parametrize("is_own", [True, False])
async def test_an_answer_is_as_of_the_version_that_is_shown_as_long_as_another_is_not(
    store_url: str, is_own: bool
) -> None:
    def opened(each: Refunds) -> AbstractAsyncContextManager[tuple[EventStore, Views]]:
        return viewed(store_url, own=(each,)) if is_own else viewed(store_url, each, face=face_of(each))

    async def refund_of(cents: int, session: str) -> None:
        async with Steptrail.open(store_url) as trail:
            await trail.run(desk(cents), "hi", session=session)

    async def asked(views: Views) -> tuple[list[int], int]:
        found, as_of = await views.sql("SELECT cents FROM refunds ORDER BY position", [], seconds=60, most=10)
        return [int(cents) for (cents,) in found.rows], as_of.position

    await refund_of(450, "a")
    async with opened(Refunds()) as (_, views):
        await views.catch_up()
        first, end = await asked(views), await views.end()
    await refund_of(5, "b")
    await refund_of(13, "c")
    async with opened(Refunds(version=2)) as (_, views):
        await views.catch_up()  # it fails behind what is shown, which the older version has counted
        assert await asked(views) == first == ([450], end)
    async with opened(Refunds(version=2, on_error="skip")) as (_, views):
        await views.catch_up()
        second, end = await asked(views), await views.end()
    await refund_of(6, "d")
    async with opened(Refunds(on_error="skip")) as (_, views):
        await views.catch_up()  # what it counts is not shown any more
        assert await asked(views) == second == ([900, 10], end)


async def test_a_view_that_somebody_has_made_of_ours_outlives_rebuilds_by_who_has_not_the_class(
    postgres_server: PostgresServer, postgres_store_url: str
) -> None:
    database = postgres_store_url.rpartition("/")[2]
    async with (
        Steptrail.open(postgres_store_url, projections=[Refunds()]) as trail,
        Steptrail.open(postgres_store_url) as other,
    ):
        await trail.run(desk(450), "hi", session="a")
        assert await refunds(trail) == [("agent:a", 450)]
        postgres_server.execute("CREATE VIEW mine AS SELECT cents FROM steptrail_views.refunds", database=database)
        for _ in range(3):
            await other.views.rebuild()
        assert postgres_server.execute("SELECT cents FROM mine", database=database) == [(450,)]
        await trail.run(desk(5), "hi", session="b")
        assert len(await refunds(trail)) == 2
        assert len(postgres_server.execute("SELECT cents FROM mine", database=database)) == 2
        for _ in range(2):
            await trail.views.rebuild()
        assert len(other.views.all.series.sizes()) == 2
