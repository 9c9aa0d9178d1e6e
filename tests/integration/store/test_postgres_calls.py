"""What goes to the server around the driver's cursors, and what the server makes of it while a store grows."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from urllib.parse import quote

import pytest

from steptrail import Steptrail
from steptrail.domain.errors import AppendOutcomeUnknown, ConcurrencyConflict, StoreAway
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.postgres_server import PostgresServer
from tests.integration.store.proxy import proxy_to

T = TypeVar("T")

MORE_THAN_ANY_BUFFER = 24_000_000
ROWS_LOOKED_AT = (
    "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE schemaname = 'steptrail' AND relname = 'events'"
)


async def use(url: str, work: Callable[[RecorderEventStore], Awaitable[T]], *, busy_timeout: float = 60.0) -> T:
    store = open_store(url, busy_timeout=busy_timeout)
    try:
        return await work(store)
    finally:
        await store.close()


def large() -> Commit:
    return commit_of("c1", *(Noted(text=letter * (MORE_THAN_ANY_BUFFER // 4)) for letter in "abcd"))


async def test_a_commit_larger_than_any_buffer_on_its_way_is_stored_whole(postgres_url: str) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        head = await store.append("agent:a", EMPTY_STREAM, large())
        read = await store.read("agent:a")
        assert [record.event for record in read.records] == [event for _, event in large().events]
        assert read.head == head
        assert await store.verify("agent:a") is None

    await use(postgres_url, scenario)


async def test_a_server_that_takes_only_the_beginning_of_a_commit_is_given_up_on(
    postgres_server: PostgresServer, postgres_database: str
) -> None:
    with proxy_to(postgres_server.port) as proxy:
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/{postgres_database}?answer_timeout=1"

        async def scenario(store: RecorderEventStore) -> None:
            head = await store.append("agent:b", EMPTY_STREAM, commit_of("c1", Noted()))
            proxy.hold("requests")
            append = asyncio.create_task(store.append("agent:a", EMPTY_STREAM, large()))
            # What is held may be the announcement of the commit before. Then nothing of this one was sent.
            with pytest.raises((AppendOutcomeUnknown, StoreAway)):
                await append
            proxy.cut()
            proxy.release()
            assert await store.version("agent:a") == 0
            assert (await store.append("agent:b", head, commit_of("c2", Noted()))).version == 2

        await use(url, scenario, busy_timeout=1)


async def test_commits_are_stored_after_transactions_that_were_undone(postgres_url: str) -> None:
    """What is prepared goes with the first of them, and not with the next ones."""

    async def scenario(store: RecorderEventStore) -> None:
        head = EMPTY_STREAM
        for number in range(4):
            head = await store.append("agent:a", head, commit_of(f"c{number}", Noted()))
            with pytest.raises(ConcurrencyConflict):
                await store.erase({"agent:a": head.version + 1}, at=1, by="ana", reason="asked")
        assert head.version == 4

    await use(postgres_url, scenario)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_text_is_what_it_was_whatever_encoding_the_address_asks_for(postgres_url: str, encoding: str) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        commit = commit_of("c-é", Noted(text="héllo, 世界"), actor="ána 世")
        await store.append("agent:世界", EMPTY_STREAM, commit)
        assert await store.verify("agent:世界") is None

    async def afterwards(store: RecorderEventStore) -> None:
        assert await store.streams("agent:") == ["agent:世界"]
        (record,) = (await store.read("agent:世界")).records
        assert (record.event, record.head and record.head.actor) == (Noted(text="héllo, 世界"), "ána 世")

    await use(f"{postgres_url}?client_encoding={encoding}", scenario)
    await use(postgres_url, afterwards)


async def test_answers_are_what_they_were_whatever_styles_the_server_writes_them_in(postgres_url: str) -> None:
    question = "SELECT timestamptz '2026-11-29 18:30+00', interval '1 day', 1.1::float8"
    styles = "-c DateStyle=German -c IntervalStyle=sql_standard -c extra_float_digits=-15"
    async with Steptrail.open(f"{postgres_url}?options={quote(styles)}") as trail:
        answer = await trail.views.sql(question)
    assert answer.rows == [(datetime(2026, 11, 29, 18, 30, tzinfo=UTC), timedelta(days=1), 1.1)]


@pytest.mark.parametrize("sessions", [1, 4])
async def test_what_the_server_looks_at_for_a_commit_does_not_grow_with_a_store_that_it_knew_when_it_was_small(
    postgres_server: PostgresServer, postgres_database: str, sessions: int
) -> None:
    url = postgres_server.url(postgres_database)

    async def grow(store: RecorderEventStore) -> None:
        names = [f"agent:{number}" for number in range(sessions)]
        heads = {name: await store.head(name) for name in names}
        for number in range(200):
            name = names[number % sessions]
            commit = commit_of(f"c{heads[name].version}", Noted(), Noted())
            heads[name] = await store.append(name, heads[name], commit)
            await store.read(name, after=heads[name].version - 1)

    async def begin(store: RecorderEventStore) -> None:
        await store.append("agent:first", EMPTY_STREAM, commit_of("c1", Noted()))

    await use(url, begin)
    postgres_server.execute("VACUUM ANALYZE steptrail.events", database=postgres_database)
    # What a connection has counted is seen by others when it has ended.
    began = looked_at(postgres_server, postgres_database)
    await use(url, grow)
    assert looked_at(postgres_server, postgres_database) - began < 200 * 20


def looked_at(server: PostgresServer, database: str) -> int:
    others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while server.execute(others, database=database):
        continue
    count: int = server.execute(ROWS_LOOKED_AT, database=database)[0][0]
    return count
