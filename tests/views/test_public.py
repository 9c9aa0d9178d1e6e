"""The public views, and questions in SQL to them."""

import asyncio

import pytest

from steptrail.domain.errors import QueryRefused, StoreTooNew
from steptrail.projections.kernel.face import Face
from tests.views.counting import Counting, note
from tests.views.kit import FACE, viewed


async def test_public_views_show_what_is_counted_and_list_their_columns(store_url: str) -> None:
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1, 2)
        await views.catch_up()
        found, as_of = await views.sql("SELECT * FROM streams WHERE notes = $1", [2], seconds=5, most=10)
        assert list(found.columns) == ["first", "stream", "notes", "sum", "limit", "is_even"]
        assert (found.rows, found.is_cut, as_of.position) == ([(1, "agent:a", 2, 3, None, False)], False, 2)
        listed, _ = await views.sql(
            "SELECT \"column\", type, unit, since FROM view_columns WHERE view = 'streams'", [], seconds=5, most=3
        )
        assert listed.rows == [("first", "integer", "", "0.1"), ("stream", "text", "", "0.1"), (
            "notes", "integer", "", "0.1")]  # fmt: skip
        assert listed.is_cut


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM projections",
        "DROP TABLE projections",
        "SELECT 1; DELETE FROM projections",
        "CREATE TABLE mine (a integer)",
        "SELECT nonsense",
        "",
        "ATTACH DATABASE 'other.db' AS other",
        "VACUUM INTO 'other.db'",
        "PRAGMA query_only = OFF",
        "COMMIT",
        "WITH gone AS (DELETE FROM projections RETURNING 1) SELECT * FROM gone",
    ],
)
@pytest.mark.acceptance("8.1-4")
async def test_what_does_more_than_read_is_refused(store_url: str, text: str) -> None:
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        with pytest.raises(QueryRefused):
            await views.sql(text, [], seconds=5, most=10)
        found, _ = await views.sql("SELECT count(*) FROM projections", [], seconds=5, most=10)
        assert found.rows == [(1,)]


async def test_a_question_that_takes_too_long_is_given_up(store_url: str) -> None:
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    async with viewed(store_url) as (_, views):
        with pytest.raises(QueryRefused, match=r"took longer than 0\.2 s"):
            await views.sql(endless, [], seconds=0.2, most=10)


@pytest.mark.acceptance("8.1-3")
async def test_readers_see_whole_generations_and_no_error_while_they_are_rebuilt(store_url: str) -> None:
    async with viewed(store_url) as (store, views), viewed(store_url) as (_, others):
        for number in range(1, 30):
            await note(store, f"agent:{number % 5}", number, number)
        await views.catch_up()
        is_over = asyncio.Event()

        async def ask() -> int:
            asked = 0
            while not is_over.is_set() or not asked:
                found, as_of = await others.sql(
                    "SELECT (SELECT sum(sum) FROM streams), (SELECT sum(sum) FROM totals), "
                    "(SELECT count(*) FROM notes)", [], seconds=30, most=10)  # fmt: skip
                assert [int(each) for each in found.rows[0]] == [870, 870, 29]
                assert as_of.position == 58
                asked += 1
            return asked

        asking = asyncio.gather(ask(), ask())
        for _ in range(6):
            await views.rebuild()
        is_over.set()
        assert min(await asking) > 0


async def test_a_newer_face_is_shown_and_is_not_taken_away_by_an_older_version(store_url: str) -> None:
    newer = Face(2, FACE.views[:1])
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        async with viewed(store_url, Counting(version=1), face=newer) as (_, updated):
            await note(store, "agent:a", 2)
            await updated.catch_up()
            listed, _ = await updated.sql("SELECT DISTINCT view FROM view_columns", [], seconds=5, most=10)
            assert listed.rows == [("streams",)]
        await note(store, "agent:a", 3)
        await views.catch_up()
        listed, _ = await views.sql("SELECT DISTINCT view FROM view_columns", [], seconds=5, most=10)
        assert listed.rows == [("streams",)]
        with pytest.raises(StoreTooNew):
            await views.rebuild()
