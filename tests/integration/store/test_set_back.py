"""A store that is put back to an older state while processes have it open, as by a server that lacks the last commits.

The database of a server is exchanged for a copy of it, so that each process meets the copy with its next connection. A
file is restored in its place, as SQLite's `.restore` does.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from steptrail import Agent, Steptrail
from steptrail.broadcasting import Broadcaster
from steptrail.domain.errors import StoreSetBack, StoreUnavailable
from steptrail.infrastructure.store import open_store
from steptrail.runtime.kernel.following import Following
from steptrail.testing import call
from tests.harness.postgres_server import PostgresServer
from tests.integration.broadcast.transports import KeepingTransport
from tests.runner.kit import agent_of
from tests.trail.workers import Desk, ended, until

PutBack = Callable[[], None]


def serving(desk: Desk) -> Agent:
    return agent_of([call("serve"), "Done."] * 5).with_tools(*desk.tools).build()


@asynccontextmanager
async def with_a_run_to_lose(server: PostgresServer, database: str, desk: Desk) -> AsyncGenerator[PutBack]:
    """Let a session have a first run, and give what puts the store back to that instant."""
    copy = f"{database}_copy"
    async with Steptrail.open(server.url(database)) as trail:
        await trail.run(serving(desk), "one", session="s")
    server.execute(f"CREATE DATABASE {copy} TEMPLATE {database}")

    def put_back() -> None:
        server.execute(
            f"ALTER DATABASE {database} ALLOW_CONNECTIONS false",
            f"DROP DATABASE {database} WITH (FORCE)",
            f"ALTER DATABASE {copy} RENAME TO {database}",
        )

    try:
        yield put_back
    finally:
        server.execute(f"DROP DATABASE IF EXISTS {copy}")


async def set_back(following: Following) -> StoreSetBack:
    """Return what a follower who has seen more than there is now is told, as soon as the server is back."""
    while True:
        try:
            item = await anext(following)
        except StoreSetBack as error:
            return error
        except StoreUnavailable:
            continue
        raise AssertionError(item)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_given_a_run_whose_last_commits_are_lost_then_it_says_so_and_another_one_goes_on_from_what_is_stored(
    postgres_server: PostgresServer, postgres_database: str, desk: Desk
) -> None:
    url = postgres_server.url(postgres_database)
    async with with_a_run_to_lose(postgres_server, postgres_database, desk) as put_back, Steptrail.open(url) as trail:
        desk.gate.clear()
        running = asyncio.create_task(trail.run(serving(desk), "two", session="s"))
        await until(lambda: desk.inside == 1)
        await asyncio.to_thread(put_back)
        desk.gate.set()
        with pytest.raises(StoreSetBack, match="'s' as it was read here"):
            async with asyncio.timeout(60):
                await running
        again = await trail.run(serving(desk), "three", session="s")
        assert again.status == "completed"
        assert [message.text for message in again.state.messages if message.is_user()] == ["one", "three"]


async def test_given_who_follows_a_session_whose_last_commits_are_lost_then_each_is_told_and_may_begin_again(
    postgres_server: PostgresServer, postgres_database: str, desk: Desk
) -> None:
    url = postgres_server.url(postgres_database)
    async with with_a_run_to_lose(postgres_server, postgres_database, desk) as put_back, Steptrail.open(url) as trail:
        # given
        session = trail.session("s")
        kept = (await session.state()).version
        lost = (await session.send(serving(desk), "two")).state.version
        followings = [session.follow(after=after, forever=True) for after in (0, lost)]
        async with followings[0], followings[1], asyncio.timeout(60):
            seen = [await anext(followings[0]) for _ in range(lost)]
            # when
            await asyncio.to_thread(put_back)
            # then
            for following in followings:
                assert "'s' as it was read here" in str(await set_back(following))
        async with session.follow() as again:
            assert [each async for each in again] == seen[:kept]


async def test_given_others_who_went_on_from_what_was_left_then_the_session_is_not_taken_for_damaged(
    postgres_server: PostgresServer, postgres_database: str, desk: Desk
) -> None:
    url = postgres_server.url(postgres_database)
    async with (
        with_a_run_to_lose(postgres_server, postgres_database, desk) as put_back,
        Steptrail.open(url) as trail,
        Steptrail.open(url) as other,
    ):
        desk.gate.clear()
        running = asyncio.create_task(trail.run(serving(desk), "two", session="s"))
        await until(lambda: desk.inside == 1)
        await asyncio.to_thread(put_back)
        free = Desk()
        for text in ("three", "four"):
            await other.run(serving(free), text, session="s")
        desk.gate.set()
        with pytest.raises(StoreSetBack):
            async with asyncio.timeout(60):
                await running
        (row,) = await other.runs()
        assert (row.damage, row.status) == (None, "completed")


async def test_given_a_worker_whose_sessions_are_set_back_then_it_carries_on_what_is_due(
    postgres_server: PostgresServer, postgres_database: str, desk: Desk
) -> None:
    url = postgres_server.url(postgres_database)
    async with (
        with_a_run_to_lose(postgres_server, postgres_database, desk) as put_back,
        Steptrail.open(url) as trail,
        trail.work(serving(desk)),
    ):
        desk.gate.clear()
        await trail.start(serving(desk), "two", session="s")
        await until(lambda: desk.inside == 1)
        await asyncio.to_thread(put_back)
        desk.gate.set()
        await until(lambda: desk.inside == 0)
        async with Steptrail.open(url) as other:
            await other.start(serving(desk), "three", session="s")
        await ended(trail, "s")


async def test_given_a_broadcaster_whose_log_is_set_back_then_it_tells_what_comes_from_the_place_that_was_kept_there(
    postgres_server: PostgresServer, postgres_database: str, desk: Desk
) -> None:
    url, transport = postgres_server.url(postgres_database), KeepingTransport()
    async with (
        with_a_run_to_lose(postgres_server, postgres_database, desk) as put_back,
        Steptrail.open(url) as trail,
        Broadcaster(trail, transport) as broadcaster,
    ):
        for session in ("lost", "lost2"):
            await trail.run(serving(desk), "two", session=session)
        await broadcaster.caught_up()
        await asyncio.to_thread(put_back)
        await trail.run(serving(desk), "three", session="new")
        await until(lambda: any(each.session_id == "new" for each in transport.sent))


async def test_given_a_file_that_is_restored_in_place_then_no_session_is_written_into_another(
    tmp_path: Path, desk: Desk
) -> None:
    def copy(source: str, target: str) -> None:
        with closing(sqlite3.connect(tmp_path / source)) as one, closing(sqlite3.connect(tmp_path / target)) as other:
            one.backup(other)

    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await trail.run(serving(desk), "one", session="s")
        copy("runs.db", "backup.db")
        for session in ("lost", "lost2", "s"):
            await trail.run(serving(desk), "two", session=session)
        copy("backup.db", "runs.db")
        async with Steptrail.open(url) as other:
            await other.run(serving(desk), "three", session="other")
        with pytest.raises(StoreSetBack):
            await trail.run(serving(desk), "four", session="lost")
        for session in ("lost", "s"):
            await trail.run(serving(desk), "four", session=session)
        assert {row.session_id for row in await trail.runs()} == {"s", "other", "lost"}
    store = open_store(url)
    assert [await store.verify(stream) for stream in await store.all_streams()] == [None] * 3
    await store.close()
