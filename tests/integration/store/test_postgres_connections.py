"""A process opens as many connections as its address says, each with a session of the server to itself."""

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from steptrail import Steptrail
from steptrail.errors import ConfigurationError, StoreUnavailable
from steptrail.infrastructure.store import open_store
from tests.harness.pooler import pooler
from tests.harness.postgres_server import PostgresServer
from tests.runner.kit import agent_of

SESSIONS, QUESTIONS = 64, 24


def connections(server: PostgresServer, database: str) -> int:
    """Return how many connections the library has there. It closes none before its end, so that is the most it had."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'steptrail' AND datname = '{}'"
    return int(server.execute(asked.format(database))[0][0])


async def at_once(url: str, then: Callable[[], int], **options: Any) -> tuple[int, int]:
    """Run sessions at once, with followers, lists and workers; return what `then` says, and again with read models."""
    agent = agent_of(["Done."]).build()
    async with Steptrail.open(url, **options) as trail, trail.work(agent):

        async def one(name: str) -> None:
            session = await trail.start(agent, "go", session=name)
            async with session.follow() as following:
                async for _ in following:
                    pass
            await asyncio.gather(trail.due(), trail.runs(), session.why(), session.events())

        await asyncio.gather(*(one(f"s{number}") for number in range(SESSIONS)))
        store = await asyncio.to_thread(then)
        await trail.views.wait()
        answers = (trail.views.sql("SELECT count(*) FROM executions") for _ in range(QUESTIONS))
        assert {tuple(answer.rows) for answer in await asyncio.gather(*answers)} == {((SESSIONS,),)}
        return store, await asyncio.to_thread(then)


@pytest.mark.acceptance("9.1-2")
@pytest.mark.parametrize(("setting", "most"), [("", 8), ("?connections=5", 5)])
async def test_a_process_with_many_sessions_opens_no_more_connections_than_it_is_allowed(
    postgres_server: PostgresServer, postgres_database: str, setting: str, most: int
) -> None:
    url = postgres_server.url(postgres_database) + setting
    store, with_views = await at_once(url, lambda: connections(postgres_server, postgres_database))
    assert 5 <= store <= most
    assert store < with_views <= most + (most - 4) + 1


@pytest.mark.parametrize("setting", ["4", "0", "-1", "many", "1001", "9" * 40, ""])
def test_a_number_of_connections_that_cannot_be_is_refused(setting: str) -> None:
    with pytest.raises(ConfigurationError, match="connections in the address of the store is a number from 5 to 1000"):
        open_store(f"postgresql://nobody@127.0.0.1:1/none?connections={setting}")


@pytest.mark.acceptance("9.1-3")
async def test_everything_works_through_a_pooler_in_session_mode(
    postgres_server: PostgresServer, postgres_database: str
) -> None:
    with pooler(postgres_server.port, "session", "default_pool_size = 13") as port:
        url = f"postgresql://anybody@127.0.0.1:{port}/{postgres_database}"
        store, with_views = await at_once(url, lambda: connections(postgres_server, postgres_database))
    assert 5 <= store <= with_views <= 13


@pytest.mark.parametrize("settings", [(), ("server_round_robin = 1",), ("default_pool_size = 1",)])
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_shares_sessions_is_refused(
    postgres_server: PostgresServer, postgres_database: str, mode: str, settings: tuple[str, ...]
) -> None:
    with pooler(postgres_server.port, mode, *settings) as port:
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="shares sessions between connections: connect directly"):
                open_store(f"postgresql://anybody@127.0.0.1:{port}/{postgres_database}")
    assert postgres_server.execute("SELECT to_regnamespace('steptrail')", database=postgres_database) == [(None,)]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_pooler_that_is_refused_lends_other_programs_sessions_as_they_were(
    postgres_server: PostgresServer, postgres_database: str, read_only: bool
) -> None:
    def settings(url: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True, application_name="another") as other:
            return other.execute("SELECT name, setting FROM pg_settings ORDER BY name").fetchall()

    with pooler(postgres_server.port, "transaction", "default_pool_size = 1") as port:
        url = f"postgresql://anybody@127.0.0.1:{port}/{postgres_database}"
        before = settings(url)
        with pytest.raises(StoreUnavailable, match="shares sessions between connections"):
            open_store(url, read_only=read_only)
        assert settings(url) == before
