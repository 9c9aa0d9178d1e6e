"""Whoever has read the log up to a position has read everything up to it, whatever else is going on."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from steptrail.domain.kernel.record import EMPTY_STREAM, StreamHead
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.postgres import recorder as postgres_recorder
from steptrail.infrastructure.store.postgres.schema import LOCK_APPENDS
from steptrail.infrastructure.store.postgres.store import open_postgres
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.postgres_server import PostgresServer

WRITERS, READERS, COMMITS = 4, 2, 150
SESSIONS = 4
"""How many sessions each writer has open at once, so that commits are grouped."""

WRITE = """
import asyncio, sys
from steptrail.domain.errors import ConcurrencyConflict
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Noted, commit_of

url, name, commits, sessions = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

async def session(store, number):
    head = EMPTY_STREAM
    for i in range(commits // sessions):
        # One in three loses against a head that is too old, and leaves no trace.
        try:
            await store.append(f"agent:{name}-{number}", EMPTY_STREAM, commit_of(f"x{i}", Noted()))
            assert i == 0
            head = (await store.read(f"agent:{name}-{number}")).head
        except ConcurrencyConflict:
            head = await store.append(f"agent:{name}-{number}", head, commit_of(f"c{i}", Noted(), Noted()))

async def main():
    store = open_store(url, busy_timeout=60)
    await asyncio.gather(*(session(store, i) for i in range(sessions)))
    await store.close()

asyncio.run(main())
"""

READ = """
import asyncio, json, sys
from pathlib import Path
from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Noted

async def main():
    store = open_store(sys.argv[1], read_only=True)
    position, seen, is_last = 0, [], False
    while True:
        async for position, stream, record in store.log(after=position):
            seen.append((position, stream, record.version))
        if is_last:
            break
        # Looked for before the last reading, so that this one has everything.
        is_last = Path(sys.argv[2]).exists()
        await store.wait_past(position, timeout=0.2)
    await store.close()
    print(json.dumps(seen))

asyncio.run(main())
"""


@pytest.fixture
async def database(postgres_database: str, postgres_url: str) -> str:
    await open_store(postgres_url).close()
    return postgres_database


def everything(server: PostgresServer, database: str) -> list[tuple[int, str, int]]:
    return server.execute(
        "SELECT position, originator_id, originator_version FROM steptrail.events ORDER BY position", database=database
    )


def insert(stream: str) -> str:
    return (
        "INSERT INTO steptrail.events (originator_id, originator_version, topic, state, commit_id, actor) "  # noqa: S608
        f"VALUES ('{stream}', 1, 'test.noted.v1', '{{\"@\":1700000000000000}}', 'c', 'somebody')"
    )


def test_given_writers_in_many_processes_and_slow_transactions_when_readers_tail_then_each_event_is_seen_once_in_order(
    postgres_server: PostgresServer, database: str, tmp_path: Path
) -> None:
    url, done = postgres_server.url(database), tmp_path / "done"
    readers = [
        subprocess.Popen([sys.executable, "-c", READ, url, str(done)], stdout=subprocess.PIPE, text=True)
        for _ in range(READERS)
    ]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, url, str(i), str(COMMITS), str(SESSIONS)])
        for i in range(WRITERS)
    ]
    # Transactions that have drawn a position and take their time: one is committed, one is not.
    for turn, end in enumerate(("COMMIT", "ROLLBACK", "COMMIT", "ROLLBACK")):
        with postgres_server.session(database, LOCK_APPENDS, insert(f"slow:{turn}")) as slow:
            time.sleep(0.2)
            slow.execute(end)
    # One that holds no lock and stays open: it must not keep readers from what is stored meanwhile.
    with postgres_server.session(database, "CREATE TABLE elsewhere (id int)"):
        assert [writer.wait() for writer in writers] == [0] * WRITERS
        done.touch()
        seen = [[tuple(entry) for entry in json.loads(reader.communicate()[0])] for reader in readers]

    stored = everything(postgres_server, database)
    assert len(stored) == WRITERS * SESSIONS * (1 + 2 * (COMMITS // SESSIONS - 1)) + 2
    assert seen == [stored] * READERS
    for stream in {stream for _, stream, _ in stored}:
        versions = [version for _, name, version in stored if name == stream]
        assert versions == list(range(1, len(versions) + 1))


async def test_given_a_transaction_that_has_drawn_a_position_when_others_append_then_they_come_after_it(
    postgres_server: PostgresServer, database: str
) -> None:
    store = open_store(postgres_server.url(database), busy_timeout=60)
    with postgres_server.session(database, LOCK_APPENDS, insert("slow:1")) as slow:
        append = asyncio.create_task(store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted())))
        await asyncio.sleep(0.2)
        # Positions before it are not there yet, so neither is this.
        assert [entry async for entry in store.log()] == []
        assert not append.done()
        slow.execute("COMMIT")
        await append
    assert [stream async for _, stream, _ in store.log()] == ["slow:1", "agent:a"]
    await store.close()


async def waiting(url: str, scenario: Callable[[RecorderEventStore], Awaitable[None]]) -> None:
    store = open_postgres(url, "full", 5.0, create=True, read_only=False)
    try:
        await scenario(store)
    finally:
        await store.close()


async def append(store: RecorderEventStore, head: StreamHead = EMPTY_STREAM) -> StreamHead:
    return await store.append("agent:a", head, commit_of(f"c{head.version}", Noted()))


async def test_given_events_past_a_position_when_waited_for_then_there_is_no_wait(postgres_url: str) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        await append(store)
        await asyncio.wait_for(store.wait_past(0, timeout=float("inf")), 60)

    await waiting(postgres_url, scenario)


async def test_given_nothing_past_a_position_when_waited_for_then_the_wait_ends_at_its_timeout(
    postgres_url: str,
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        await append(store)
        await asyncio.wait_for(store.wait_past(1, timeout=0.1), 60)
        assert await store.version("agent:a") == 1

    await waiting(postgres_url, scenario)


@pytest.mark.parametrize("whose", ["this", "another"])
async def test_given_somebody_who_waits_when_something_is_stored_then_its_announcement_ends_the_wait(
    postgres_url: str, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_recorder, "_POLL_SECONDS", 3600.0)

    async def scenario(store: RecorderEventStore) -> None:
        other = open_postgres(postgres_url, "full", 5.0, create=False, read_only=False)
        writer = store if whose == "this" else other
        head = EMPTY_STREAM
        for position in range(3):
            waits = asyncio.create_task(store.wait_past(position, timeout=float("inf")))
            await asyncio.sleep(0.05)
            assert not waits.done()
            head = await append(writer, head)
            await asyncio.wait_for(waits, 60)
        await other.close()

    await waiting(postgres_url, scenario)


async def test_given_a_server_that_announces_nothing_then_looking_finds_what_was_stored(
    postgres_server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        waits = asyncio.create_task(store.wait_past(0, timeout=float("inf")))
        await asyncio.sleep(0.05)
        # Inserted by hand: without an announcement.
        with postgres_server.session(database, LOCK_APPENDS, insert("agent:b")) as other:
            other.execute("COMMIT")
        await asyncio.wait_for(waits, 60)

    await waiting(postgres_server.url(database), scenario)


async def test_given_somebody_who_waits_when_the_listening_connection_is_lost_then_it_is_made_anew(
    postgres_server: PostgresServer, database: str
) -> None:
    find = "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN steptrail' AND datname = current_database()"

    def listening() -> list[int]:
        return [pid for (pid,) in postgres_server.execute(find, database=database)]

    async def until_listening(previous: int | None) -> int:
        while not (pids := [pid for pid in listening() if pid != previous]):
            await asyncio.sleep(0.01)
        return pids[0]

    async def scenario(store: RecorderEventStore) -> None:
        waits = asyncio.create_task(store.wait_past(0, timeout=float("inf")))
        first = await until_listening(None)
        postgres_server.execute(f"SELECT pg_terminate_backend({first})")
        assert await until_listening(first) != first
        assert not waits.done()
        await append(store)
        await asyncio.wait_for(waits, 60)

    await waiting(postgres_server.url(database), scenario)
