"""Read models are removed, replaced or emptied while processes have them open: files of SQLite, schemas of a server."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest

from steptrail import Agent, AgentBuilder, Steptrail
from steptrail.domain.errors import StoreDamaged, StoreUnavailable
from steptrail.infrastructure.views.sqlite import SqliteViews
from steptrail.interfaces.cli.main import main
from steptrail.testing import ScriptedModel
from tests.harness.postgres_server import PostgresServer
from tests.views.counting import TOTALS, note
from tests.views.kit import rows, viewed

STREAMS = "SELECT stream FROM executions ORDER BY 1"


def remove_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def remove_the_files(folder: Path) -> None:
    for path in folder.glob("1.db*"):
        path.unlink()


def replace_the_file_by_a_copy(folder: Path) -> None:
    shutil.copy(folder / "1.db", folder / "copy")
    for path in folder.glob("1.db-*"):
        path.unlink()
    (folder / "copy").replace(folder / "1.db")


def desk() -> Agent:
    return AgentBuilder("desk").with_model(ScriptedModel(["Yes."] * 2)).build()


async def streams(trail: Steptrail) -> list[object]:
    await trail.views.wait(timeout=60)
    return [row[0] for row in (await trail.views.sql(STREAMS)).rows]


@pytest.mark.parametrize("is_kept_going", [True, False])
@pytest.mark.parametrize("change", [remove_the_folder, remove_the_files, replace_the_file_by_a_copy])
async def test_all_processes_have_the_same_read_models_after_their_files_were_changed(
    tmp_path: Path, change: Callable[[Path], None], is_kept_going: bool
) -> None:
    url, folder = f"sqlite:///{tmp_path}/runs.db", tmp_path / "runs.db-views"
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Steptrail.open(url))
        second = await stack.enter_async_context(Steptrail.open(url))
        if is_kept_going:
            await stack.enter_async_context(first.views.kept_going())
        await first.run(desk(), "Hi", session="a")
        assert await streams(first) == await streams(second) == ["agent:a"]
        with closing(sqlite3.connect(folder / "current.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        change(folder)
        await first.run(desk(), "Hi", session="b")
        assert await streams(first) == await streams(second) == ["agent:a", "agent:b"]
        with closing(sqlite3.connect(folder / "current.db")) as other_tool:
            assert other_tool.execute(STREAMS).fetchall() == [("agent:a",), ("agent:b",)]
        async with Steptrail.open(url) as third:
            assert await streams(third) == ["agent:a", "agent:b"]
            assert await third.views.verify() == []


async def counted_once(url: str) -> None:
    async with Steptrail.open(url) as trail:
        await trail.run(desk(), "Hi", session="a")
        assert await streams(trail) == ["agent:a"]


async def test_a_file_that_was_emptied_is_made_anew_with_the_next_question(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    await counted_once(url)
    os.truncate(tmp_path / "runs.db-views" / "1.db", 0)
    async with Steptrail.open(url) as trail:
        assert await streams(trail) == ["agent:a"]


async def without_tables(tmp_path: Path) -> str:
    url, path = f"sqlite:///{tmp_path}/runs.db", tmp_path / "runs.db-views" / "1.db"
    await counted_once(url)
    path.unlink()
    with closing(sqlite3.connect(path)) as other_tool:
        other_tool.execute("CREATE TABLE another (a)")
    return url


def test_a_file_without_our_tables_is_said_to_be_damaged_and_rebuilt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = asyncio.run(without_tables(tmp_path))
    assert main(["stats", "--store", url]) != 0
    assert "are damaged: `steptrail rebuild` makes them anew" in capsys.readouterr().err
    assert main(["rebuild", "--store", url]) == 0
    assert main(["sql", STREAMS, "--store", url]) == 0
    assert "agent:a" in capsys.readouterr().out


@pytest.mark.parametrize(
    "dropped",
    [
        ("DROP SCHEMA steptrail_views CASCADE", "DROP SCHEMA steptrail_views_1 CASCADE"),
        ("DROP SCHEMA steptrail_views CASCADE",),
        ("DROP SCHEMA steptrail_views_1 CASCADE",),
        ("DELETE FROM steptrail_views.series",),
    ],
)
async def test_schemas_of_read_models_that_were_dropped_are_made_again_with_the_next_question(
    postgres_server: PostgresServer, postgres_database: str, postgres_url: str, dropped: tuple[str, ...]
) -> None:
    async with Steptrail.open(postgres_url) as first, Steptrail.open(postgres_url) as second:
        await first.run(desk(), "Hi", session="a")
        assert await streams(first) == await streams(second) == ["agent:a"]
        postgres_server.execute(*dropped, database=postgres_database)
        await first.run(desk(), "Hi", session="b")
        assert await streams(first) == await streams(second) == ["agent:a", "agent:b"]
        await second.views.rebuild()
        assert await streams(first) == ["agent:a", "agent:b"]


def test_a_question_to_a_file_whose_log_is_gone_says_what_sqlite_says(tmp_path: Path) -> None:
    path = tmp_path / "1.db"
    path.touch()
    views = SqliteViews(path, patience=1)
    views.write(lambda statements: statements.change("CREATE TABLE notes (number)"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    views.write(lambda statements: statements.change("INSERT INTO notes VALUES (1)"))
    path.with_name("1.db-wal").unlink()
    with pytest.raises(StoreUnavailable, match="disk I/O error"):
        views.read(lambda statements: statements.ask("SELECT * FROM notes"))
    views.close()


async def test_read_models_of_an_older_form_name_what_makes_them_anew(
    postgres_server: PostgresServer, postgres_store_url: str
) -> None:
    async with viewed(postgres_store_url) as (store, views):
        await note(store, "agent:a", 1)
        await views.catch_up()
        database = postgres_store_url.rpartition("/")[2]
        postgres_server.execute("ALTER TABLE steptrail_views_1.projections DROP erased CASCADE", database=database)
        with pytest.raises(
            StoreDamaged, match=r"in steptrail_views_1 are damaged: `steptrail rebuild` makes them anew"
        ):
            await views.status()
        assert await views.rebuild() == 2
        assert await rows(views, TOTALS) == [("odd", 1, 1)]
