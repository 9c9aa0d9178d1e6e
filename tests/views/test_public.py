"""The public views, and questions in SQL to them."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest

from steptrail.domain.errors import QueryRefused, StoreTooNew
from steptrail.infrastructure.views import database, postgres, sqlite
from steptrail.infrastructure.views.database import Answer, Statements
from steptrail.infrastructure.views.views import Views
from steptrail.projections.kernel.face import Face
from steptrail.projections.kernel.table import Scalar
from tests.harness.postgres_server import PostgresServer
from tests.views.counting import Counting, note
from tests.views.kit import FACE, viewed

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


async def test_public_views_show_what_is_counted_and_list_their_columns(store_url: str) -> None:
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1, 2)
        await views.catch_up()
        found, as_of = await views.sql("SELECT * FROM streams WHERE notes = $1", [2], seconds=60, most=10)
        assert list(found.columns) == ["first", "stream", "notes", "sum", "limit", "is_even"]
        assert (found.rows, found.is_cut, as_of.position) == ([(1, "agent:a", 2, 3, None, False)], False, 2)
        listed, _ = await views.sql(
            "SELECT \"column\", type, unit, since FROM view_columns WHERE view = 'streams'", [], seconds=5, most=3
        )
        assert listed.rows == [("first", "integer", "", "0.1"), ("stream", "text", "", "0.1"), (
            "notes", "integer", "", "0.1")]  # fmt: skip
        assert listed.is_cut


async def test_a_server_keeps_nothing_prepared_of_what_made_tables_and_views(postgres_store_url: str) -> None:
    async with viewed(postgres_store_url) as (store, views):
        await note(store, "agent:a", 1, 2)
        await views.catch_up()
        generation = await views.present()
        kept = generation.database.write(lambda s: s.ask("SELECT ltrim(statement) FROM pg_prepared_statements"))
        assert {str(text).split()[0] for (text,) in kept} <= {"SELECT", "INSERT", "UPDATE", "DELETE"}


async def why_refused(views: Views, text: str) -> str:
    """Return why a question is refused; an empty text for one that is answered."""
    try:
        await views.sql(text, [], seconds=60, most=10)
    except QueryRefused as error:
        return str(error)
    return ""


MORE_THAN_READING = (
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
    "DELETE FROM projections",
)
"""The last once more, behind those that would have allowed it."""


@pytest.mark.acceptance("8.1-4")
async def test_what_does_more_than_read_is_refused_and_not_done(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        for text in MORE_THAN_READING:
            assert await why_refused(views, text), text
            found, _ = await views.sql("SELECT count(*) FROM projections", [], seconds=60, most=10)
            assert found.rows == [(1,)], text
        assert not Path("other.db").exists()


ACTING = (
    ("SELECT pg_read_file('/etc/hostname')", "pg_read_file may do more than read"),
    ("SELECT 1 FROM (VALUES (1)) v LIMIT length(\"pg_read_file\"('/etc/hostname'))", "pg_read_file may do more"),
    ("SELECT U&\"\\0070g_read_file\"('/etc/hostname')", "are not taken"),
    ("SELECT * FROM pg_ls_dir('/')", "pg_ls_dir may do more"),
    ("SELECT set_config('statement_timeout', '0', false)", "set_config may do more"),
    ("SELECT query_to_xml('SELECT 1', true, true, '')", "query_to_xml may do more"),
    ("SELECT pg_advisory_lock(1)", "pg_advisory_lock may do more"),
    ("SELECT table_to_xml('steptrail.events'::regclass, true, true, '')", "table_to_xml may do more"),
    ("SELECT CAST(schema_to_xml('steptrail', true, true, '')::text AS integer)", "schema_to_xml may do more"),
    ("SELECT database_to_xml(true, true, '')", "database_to_xml may do more"),
    ("SELECT * FROM pg_stat_get_activity(NULL)", "pg_stat_get_activity may do more"),
    ("SELECT * FROM pg_prepared_statement()", "pg_prepared_statement may do more"),
    ("SELECT setting FROM pg_show_all_settings()", "pg_show_all_settings may do more"),
    ("SELECT current_setting('data_directory')", "current_setting may do more"),
    ("SELECT public.says()", "says may do more"),
    ("SELECT public.lies(NULL)", "steptrail.events is none of the read models"),
    ("SELECT public.lies(stream) FROM streams", "steptrail.events is none of the read models"),
    ("SELECT 1 FROM streams WHERE public.lies(stream) < 0", "steptrail.events is none of the read models"),
    ("SELECT 1 \0 FROM nowhere", "a null character"),
    ("SELECT * FROM steptrail.events", "steptrail.events is none of the read models"),
    ("SELECT * FROM streams s WHERE EXISTS (SELECT FROM pg_authid)", "pg_authid is none of the read models"),
    ("SELECT * FROM streams s WHERE EXISTS (SELECT FROM pg_roles)", "pg_roles is none of the read models"),
    ("SELECT * FROM streams s WHERE EXISTS (SELECT FROM pg_tables)", "pg_tables is none of the read models"),
)
"""Questions that act, or read something else than the views, each with why it is refused."""


async def test_on_a_server_no_question_acts_or_reads_anything_but_the_views(
    postgres_url: str, postgres_server: PostgresServer, postgres_database: str
) -> None:
    async with viewed(postgres_url) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        for name, kind in (("says()", "STABLE"), ("lies(text)", "IMMUTABLE")):
            counted = f"CREATE FUNCTION public.{name} RETURNS bigint LANGUAGE plpgsql {kind} AS"
            body = "BEGIN RETURN (SELECT count(*) FROM steptrail.events); END"
            postgres_server.execute(f"{counted} $$ {body} $$", database=postgres_database)
        try:
            for text, why in ACTING:
                assert why in await why_refused(views, text), text
        finally:
            postgres_server.execute("DROP FUNCTION public.says, public.lies", database=postgres_database)
        plain = "SELECT pg_typeof(stream)::text, upper(stream) FROM streams WHERE stream ~ 'a' AND now() > '-infinity'"
        found, _ = await views.sql(plain, [], seconds=60, most=10)
        assert found.rows == [("text", "AGENT:A")]
        found, _ = await views.sql("SELECT $1 FROM projections WHERE random() < 2", ["pg_sleep"], seconds=60, most=10)
        assert found.rows == [("pg_sleep",)]


async def test_a_refusal_by_a_server_quotes_nothing_that_nobody_has_written(postgres_url: str) -> None:
    refusals = {
        "": "syntax error at end of input",
        "DELETE FROM streams": 'syntax error at or near "DELETE"',
        "SELECT strem FROM streams": 'column "strem" does not exist. Perhaps you meant to reference the column',
        "SELECT 'infinity'::timestamptz": "timestamp too large",
    }
    async with viewed(postgres_url) as (_, views):
        for text, why in refusals.items():
            refusal = await why_refused(views, text)
            assert refusal.startswith(f"the question was refused: {why}")
            assert "CURSOR" not in refusal


@pytest.mark.parametrize("value", ["\udcff", "\0"])
async def test_a_value_that_is_no_text_is_refused(postgres_url: str, value: str) -> None:
    async with viewed(postgres_url) as (_, views):
        with pytest.raises(QueryRefused, match="the question was refused"):
            await views.sql("SELECT $1", [value], seconds=60, most=10)
        with pytest.raises(QueryRefused, match="the question was refused"):
            await views.sql(f"SELECT '{value}'", [], seconds=60, most=10)
        with pytest.raises(QueryRefused, match="timestamp too large"):
            await views.sql("SELECT 'infinity'::timestamptz", [], seconds=60, most=10)


async def test_a_large_answer_is_cut_to_what_a_process_has_room_for(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MOST_BYTES", 1_000)
    async with viewed(store_url) as (_, views):
        many = (
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) SELECT i, 'x' || i FROM n"
        )
        found, _ = await views.sql(many, [], seconds=60, most=10**18)
        assert (len(found.rows), found.is_cut) == (91, True)
        found, _ = await views.sql(many, [], seconds=60, most=3)
        assert ([i for i, _ in found.rows], found.is_cut) == ([1, 2, 3], True)


class Pysqlite3(sqlite3.Connection):
    """Lacks what the connections of that package lack, which services put in the place of an old SQLite."""

    @property
    def setlimit(self) -> None:  # type: ignore[override]
        raise AttributeError


async def test_a_package_in_the_place_of_sqlite3_is_asked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sqlite,
        "connect",
        partial(sqlite3.connect, uri=True, factory=Pysqlite3, isolation_level=None, check_same_thread=False),
    )
    async with viewed(f"sqlite:///{tmp_path / 'runs.db'}") as (_, views):
        found, _ = await views.sql("SELECT 1", [], seconds=60, most=10)
    assert found.rows == [(1,)]


async def test_a_value_that_no_process_has_room_for_is_not_made(tmp_path: Path) -> None:
    async with viewed(f"sqlite:///{tmp_path / 'runs.db'}") as (_, views):
        with pytest.raises(QueryRefused, match="too big"):
            await views.sql("SELECT hex(zeroblob(900000000))", [], seconds=60, most=10)


async def test_a_question_that_takes_too_long_is_given_up(store_url: str) -> None:
    async with viewed(store_url) as (_, views):
        with pytest.raises(QueryRefused, match=r"took longer than 0\.2 s"):
            await views.sql(ENDLESS, [], seconds=0.2, most=10)
        assert (await views.sql("SELECT 1", [], seconds=1e300, most=1))[0].rows == [(1,)]


async def test_a_question_that_nobody_waits_for_any_more_ends(store_url: str) -> None:
    async with viewed(store_url) as (_, views):
        asking = asyncio.create_task(views.sql(ENDLESS, [], seconds=3600, most=10))
        await asyncio.sleep(0.2)
        asking.cancel()
        # Again where it had not begun yet on the server.
        while not (await asyncio.wait({asking}, timeout=1))[0]:
            asking.cancel()
        assert asking.cancelled()
        assert (await views.sql("SELECT 1", [], seconds=60, most=1))[0].rows == [(1,)]


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


async def test_a_question_that_was_begun_before_a_rebuild_finds_rows_though_it_reads_its_first_view_after_it(
    postgres_url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, goes_on = threading.Event(), threading.Event()
    ask: Callable[..., Answer] = attrgetter("_PostgresStatements.ask")(postgres)

    def held_up(statements: Statements, text: str, *values: Scalar) -> Answer:
        if "FROM listed" in text:
            has_begun.set()
            goes_on.wait(60)
        return ask(statements, text, *values)

    async with viewed(postgres_url) as (store, views), viewed(postgres_url) as (_, others):
        await note(store, "agent:a", 1, 2)
        await views.catch_up()
        monkeypatch.setattr(f"{postgres.__name__}._PostgresStatements.ask", held_up)
        asked = asyncio.create_task(others.sql("SELECT sum FROM streams", [], seconds=60, most=10))
        await asyncio.to_thread(has_begun.wait, 60)
        rebuilt = asyncio.create_task(views.rebuild())
        while not rebuilt.done() and postgres_server.execute(WAITING) == [(0,)]:
            await asyncio.sleep(0.01)
        goes_on.set()
        found, as_of = await asked
        assert (found.rows, as_of.position) == ([(3,)], 2)
        await rebuilt


async def test_a_newer_face_is_shown_and_is_not_taken_away_by_an_older_version(store_url: str) -> None:
    newer = Face(2, FACE.views[:1])
    async with viewed(store_url) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        async with viewed(store_url, Counting(version=1), face=newer) as (_, updated):
            await note(store, "agent:a", 2)
            await updated.catch_up()
            listed, _ = await updated.sql("SELECT DISTINCT view FROM view_columns", [], seconds=60, most=10)
            assert listed.rows == [("streams",)]
        await note(store, "agent:a", 3)
        await views.catch_up()
        listed, _ = await views.sql("SELECT DISTINCT view FROM view_columns", [], seconds=60, most=10)
        assert listed.rows == [("streams",)]
        with pytest.raises(StoreTooNew):
            await views.rebuild()
