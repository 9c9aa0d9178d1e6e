"""Whoever has read the log up to a position has read everything up to it, whatever else is going on."""

import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import LiteralString

import pytest

from steptrail import Steptrail
from steptrail.broadcasting import Broadcaster, InProcessTransport
from steptrail.domain.errors import ConcurrencyConflict
from steptrail.domain.kernel.record import EMPTY_STREAM, StreamHead
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core import event_store, store_threads
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.postgres import recorder as postgres_recorder
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import Connection, send_unasked
from steptrail.infrastructure.store.postgres.schema import ANNOUNCE
from steptrail.infrastructure.store.postgres.store import open_postgres
from steptrail.runtime.kernel.subscription import Subscription
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.postgres_server import PostgresServer
from tests.harness.ready_python import ready_python
from tests.runner.kit import agent_of

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


SLOW_COMMITS = (
    "CREATE FUNCTION steptrail.dawdle() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM pg_sleep(random() * 0.02); RETURN NULL; END $$",
    "CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON steptrail.commits DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION steptrail.dawdle()",
)
"""Lets each transaction take its time when it commits, after all that it does has been done."""


@pytest.fixture
async def database(postgres_database: str, postgres_url: str, postgres_server: PostgresServer) -> str:
    await open_store(postgres_url).close()
    postgres_server.execute(
        f"INSERT INTO steptrail.types (name) VALUES ('{Noted.TYPE}')",  # noqa: S608 - our name
        database=postgres_database,
    )
    return postgres_database


def everything(server: PostgresServer, database: str) -> list[tuple[int, str, int]]:
    return server.execute(
        "SELECT position, stream, version FROM steptrail.stored_events ORDER BY position", database=database
    )


def append_of(stream: str) -> str:
    """Return an append as our function does it, for a transaction that somebody holds open."""
    return (
        f'SELECT steptrail.append_commits(\'[{{"stream": "{stream}", "expected": 0, "commit_id": "c", '
        '"actor": "somebody", "segment": 0, "size": 1, "blobs": 0}]\', '
        "ARRAY[''::bytea], ARRAY['digest'::bytea], ARRAY[1]::bigint[], ARRAY[7]::bigint[], ARRAY['{}'::bytea], "
        "ARRAY[NULL]::bytea[], ARRAY[]::bytea[], ARRAY[]::bytea[])"
    )


def test_given_writers_in_many_processes_and_slow_commits_when_readers_tail_then_each_event_is_seen_once_in_order(
    postgres_server: PostgresServer, database: str, tmp_path: Path
) -> None:
    postgres_server.execute(*SLOW_COMMITS, database=database)
    url, done = postgres_server.url(database), tmp_path / "done"
    readers = [
        subprocess.Popen([ready_python(), "-c", READ, url, str(done)], stdout=subprocess.PIPE, text=True)
        for _ in range(READERS)
    ]
    writers = [
        subprocess.Popen([ready_python(), "-c", WRITE, url, str(i), str(COMMITS), str(SESSIONS)])
        for i in range(WRITERS)
    ]
    # Transactions that have drawn a position and take longer than all others: one is committed, one is not.
    for turn, end in enumerate(("COMMIT", "ROLLBACK", "COMMIT", "ROLLBACK")):
        with postgres_server.session(database, append_of(f"slow:{turn}")) as slow:
            time.sleep(0.2)
            slow.execute(end)
    # One that is no append and stays open: it must not keep readers from what is stored meanwhile.
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


async def streams_in_the_log(store: RecorderEventStore) -> list[str]:
    return [stream async for _, stream, _ in store.log()]


@pytest.mark.parametrize(("end", "then"), [("COMMIT", ["slow:1", "agent:a"]), ("ROLLBACK", ["agent:a"])])
async def test_given_an_append_in_flight_when_others_append_then_they_do_not_wait_and_are_read_when_it_has_ended(
    postgres_server: PostgresServer, database: str, end: str, then: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_store, "_LOOKED_THROUGH", 1)
    store = open_store(postgres_server.url(database), busy_timeout=60)
    before = await store.append("agent:before", EMPTY_STREAM, commit_of("c1", Noted()))
    with postgres_server.session(database, append_of("slow:1")) as slow:
        await append(store)
        assert await store.version("agent:a") == 1
        for _ in range(2):
            # Stored behind a position that is still coming: the log is not complete up to there.
            assert await streams_in_the_log(store) == ["agent:before"]
            assert (await store.log_page(1, 1, types=[Noted.TYPE]))[1:] == (0, 1, True)
            assert await store.last_position() == before.version
            assert await store.grown(0) == (before.version, {"agent:before": 1})
        slow.execute(end)
    assert await streams_in_the_log(store) == ["agent:before", *then]
    assert [entry.stream async for entry in store.log(types=[Noted.TYPE])] == ["agent:before", *then]
    await store.close()


async def test_given_an_append_in_flight_then_a_stream_of_others_is_read_to_its_end(
    postgres_server: PostgresServer, database: str
) -> None:
    store = open_store(postgres_server.url(database))
    with postgres_server.session(database, append_of("slow:1")):
        head = await append(store)
        assert [entry.stream async for entry in store.log(stream="agent:a", types=[Noted.TYPE])] == ["agent:a"]
        assert [record.event for record in await store.newest_of("agent:a", head, {Noted.TYPE: b""})] == [Noted()]
    await store.close()


async def test_given_a_reader_who_knows_an_older_end_when_a_page_ends_there_then_it_reads_on(
    postgres_server: PostgresServer, database: str
) -> None:
    reader = open_store(postgres_server.url(database), read_only=True)
    writer = open_store(postgres_server.url(database))
    head = await append(writer)
    assert await reader.last_position() == 1
    await append(writer, head)
    await writer.append("agent:b", EMPTY_STREAM, commit_of("c1", Noted()))
    for wanted in (2, 3, 4):
        pages = [entry async for entry in reader.log(limit=wanted)]
        assert [position for position, _, _ in pages] == [1, 2, 3][:wanted]
    assert [position async for position, _, _ in reader.log(stream="agent:a")] == [1, 2]
    await reader.close()
    await writer.close()


TAKES_OFF_LATE = "SELECT pg_advisory_xact_lock_shared(21364::bigint << 48)"
"""What an append holds that read the last position, 0, and was held up before it could take the lock of it."""


async def test_given_an_append_that_takes_off_late_then_what_was_told_holds_and_a_subscription_passes_over_nothing(
    postgres_server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, late, asked = open_store(postgres_server.url(database)), ExitStack(), list[asyncio.Task[int]]()

    async def told(ask: Callable[[], Awaitable[int]]) -> int:
        end = await ask()
        if asked:
            return end
        # The next question has to take another connection than this one, which somebody else is given.
        held_up = (TAKES_OFF_LATE, "LOCK TABLE steptrail.followers")
        late.enter_context(postgres_server.session(database, *held_up))
        asked.append(asyncio.create_task(store.place("somebody")))
        while not postgres_server.execute("SELECT FROM pg_locks WHERE NOT granted", database=database):
            await asyncio.sleep(0.01)
        return end

    await append(store)
    subscription = Subscription(store, follow=False)
    with late:
        with monkeypatch.context() as between:
            between.setattr(store, "last_position", partial(told, store.last_position))
            await subscription.fill()
        entry = subscription.ready()
        assert entry is not None
        assert entry.position == 1
        assert await store.last_position() == 1
    await asyncio.gather(*asked)
    await store.close()


@pytest.mark.parametrize("who", ["the one that counted", "another one"])
async def test_given_an_append_that_takes_off_late_then_read_models_are_not_built_anew(
    postgres_server: PostgresServer, database: str, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres_server.url(database)
    async with Steptrail.open(url) as trail, Steptrail.open(url) as other:
        await trail.run(agent_of(["Done."]).build(), "go", session="s")
        await trail.views.wait()
        with postgres_server.session(database, TAKES_OFF_LATE):
            page = await (other if who == "another one" else trail).views.runs()
    assert [row.stream for row in page.rows] == ["agent:s"]
    assert "built anew" not in caplog.text


async def test_given_an_append_in_flight_then_who_waits_for_all_that_is_stored_waits_for_what_stands_behind_it(
    postgres_server: PostgresServer, database: str
) -> None:
    transport = InProcessTransport()
    async with (
        Steptrail.open(postgres_server.url(database)) as trail,
        Broadcaster(trail, transport) as broadcaster,
    ):
        await broadcaster.caught_up()
        with postgres_server.session(database, append_of("slow:1")) as slow:
            await trail.run(agent_of(["Done."]).build(), "go", session="s")
            assert await trail.views.lag() > 0
            with pytest.raises(TimeoutError):
                await trail.views.wait(timeout=0.2)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await broadcaster.caught_up()
            slow.execute("ROLLBACK")
        await trail.views.wait()
        assert [row.stream for row in (await trail.views.runs()).rows] == ["agent:s"]
        await broadcaster.caught_up()
        assert (await broadcaster.stats()).sent > 0


async def test_given_an_append_whose_client_is_silent_then_readers_wait_no_longer_than_the_server_does(
    postgres_server: PostgresServer, database: str
) -> None:
    url = postgres_server.url(database)
    patient = PostgresConnections(
        PostgresAddress.parse(url + "?answer_timeout=1"), durability="full", patience=1.0, read_only=False
    )
    silent = patient.open()
    silent.execute("BEGIN")
    silent.execute(append_of("slow:1").encode())
    store = open_store(url)
    await append(store)
    while await streams_in_the_log(store) != ["agent:a"]:
        await asyncio.sleep(0.05)
    await store.close()
    silent.close()
    patient.close()


async def test_given_two_who_append_to_one_stream_at_once_then_the_second_waits_and_meets_a_conflict(
    postgres_server: PostgresServer, database: str
) -> None:
    store = open_store(postgres_server.url(database), busy_timeout=60)
    with postgres_server.session(database, append_of("agent:a")) as first:
        second = asyncio.create_task(append(store))
        await asyncio.sleep(0.2)
        assert not second.done()
        first.execute("COMMIT")
        with pytest.raises(ConcurrencyConflict):
            await second
    assert everything(postgres_server, database) == [(1, "agent:a", 1)]
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
        async with asyncio.timeout(60):
            await store.wait_past(0, timeout=float("inf"))

    await waiting(postgres_url, scenario)


async def test_given_nothing_past_a_position_when_waited_for_then_the_wait_ends_at_its_timeout(
    postgres_url: str,
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        await append(store)
        async with asyncio.timeout(60):
            await store.wait_past(1, timeout=0.1)
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
            async with asyncio.timeout(60):
                await waits
        await other.close()

    await waiting(postgres_url, scenario)


@pytest.mark.parametrize("ends_by", ["resting", "closing"])
async def test_given_a_commit_right_after_another_then_it_is_announced_when_its_writer_rests_or_closes(
    postgres_url: str, ends_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_recorder, "_POLL_SECONDS", 3600.0)
    monkeypatch.setattr(postgres_recorder, "_ANNOUNCE_SECONDS", 3600.0)
    monkeypatch.setattr(store_threads, "_REST_SECONDS", 0.01 if ends_by == "resting" else 3600.0)
    announced: list[str] = []

    def announce(connection: Connection, statement: LiteralString) -> None:
        announced.append(statement)
        send_unasked(connection, statement)

    monkeypatch.setattr(postgres_recorder, "send_unasked", announce)

    async def scenario(store: RecorderEventStore) -> None:
        other = open_postgres(postgres_url, "full", 5.0, create=False, read_only=False)
        head = await append(other)
        async with asyncio.timeout(60):
            await store.wait_past(0, timeout=float("inf"))
        waits = asyncio.create_task(store.wait_past(1, timeout=float("inf")))
        await append(other, head)
        if ends_by == "closing":
            # The announcement of the first may come so late that whoever waits finds the second by it.
            assert announced == [ANNOUNCE]
            await other.close()
        async with asyncio.timeout(60):
            await waits
        await other.close()
        assert announced == [ANNOUNCE] * 2

    await waiting(postgres_url, scenario)


async def test_given_a_server_that_announces_nothing_then_looking_finds_what_was_stored(
    postgres_server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        waits = asyncio.create_task(store.wait_past(0, timeout=float("inf")))
        await asyncio.sleep(0.05)
        # By hand: without an announcement.
        with postgres_server.session(database, append_of("agent:b")) as other:
            other.execute("COMMIT")
        async with asyncio.timeout(60):
            await waits

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
        async with asyncio.timeout(60):
            await waits

    await waiting(postgres_server.url(database), scenario)
