"""Servers that are down, restarted, late or cut off: the store says what is true, and nothing is lost or doubled."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import psycopg
import pytest

from steptrail.domain.errors import (
    AppendOutcomeUnknown,
    StoreAway,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)
from steptrail.domain.kernel.record import EMPTY_STREAM, StreamHead
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.postgres.driver import (
    Connection,
    ServerFailure,
    attempt,
    connect,
    parse_address,
    together,
)
from steptrail.testing.store_contract import Noted, Written, commit_of
from tests.harness.postgres_server import PostgresServer
from tests.integration.store.proxy import Proxy, proxy_to

T = TypeVar("T")

HOLD_UP_APPENDS = "LOCK TABLE steptrail.events IN SHARE MODE"
COUNT = "SELECT count(*) FROM steptrail.events"
LEASES = "SELECT count(*) FROM steptrail.leases"
LONGEST_SECONDS = 60
"""Whatever takes this long hangs; no assertion is about time."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that may be stopped without anybody else noticing."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    name = server.create_database()
    asyncio.run(open_store(server.url(name)).close())
    yield name
    server.drop_database(name)


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    with proxy_to(server.port) as proxy:
        yield proxy


def through(proxy: Proxy, database: str, options: str = "") -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}{options}"


async def use(url: str, work: Callable[[RecorderEventStore], Awaitable[T]], *, busy_timeout: float = 5.0) -> T:
    store = open_store(url, busy_timeout=busy_timeout)
    try:
        return await work(store)
    finally:
        await store.close()


async def first_append(store: RecorderEventStore) -> StreamHead:
    """Append, and wait until the server has answered the announcement as well: another write comes behind it."""
    head = await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
    await store.keep_place("somebody", 0)
    return head


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.01)


def is_waiting_for_a_lock(server: PostgresServer, database: str) -> bool:
    waiting = server.execute("SELECT datname FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return (database,) in waiting


async def test_given_a_commit_whose_reply_is_lost_when_it_was_stored_then_that_is_found_by_its_id(
    server: PostgresServer, database: str, proxy: Proxy
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        head = await first_append(store)
        proxy.hold("replies")
        append = asyncio.create_task(store.append("agent:a", head, commit_of("c2", Noted(), Noted())))
        await until(lambda: server.execute(COUNT, database=database) == [(3,)])
        proxy.cut()
        end = await append
        assert end == (await store.read("agent:a")).head
        assert end.version == 3

    await use(through(proxy, database), scenario)


async def test_given_a_commit_that_never_arrived_when_the_connection_is_cut_then_it_is_unknown_and_can_be_repeated(
    proxy: Proxy, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        head = await first_append(store)
        proxy.hold("requests")
        append = asyncio.create_task(store.append("agent:a", head, commit_of("c2", Noted())))
        await until(lambda: b"c2" in proxy.held)
        assert not append.done()
        proxy.cut()
        with pytest.raises(AppendOutcomeUnknown, match="may or may not have happened"):
            await append
        assert await store.version("agent:a") == 1
        assert (await store.append("agent:a", head, commit_of("c2", Noted()))).version == 2
        assert await store.verify("agent:a") is None

    await use(through(proxy, database), scenario)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
async def test_given_an_append_in_flight_when_the_server_is_restarted_then_it_is_unknown_and_stored_once_when_repeated(
    server: PostgresServer, database: str, how: signal.Signals
) -> None:
    commit = commit_of("c2", Noted(), Noted())

    async def scenario(store: RecorderEventStore) -> None:
        head = await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
        with server.session(database, HOLD_UP_APPENDS):
            append = asyncio.create_task(store.append("agent:a", head, commit))
            await until(lambda: is_waiting_for_a_lock(server, database))
            ((holder,),) = server.execute("SELECT pid FROM pg_locks WHERE mode = 'ShareLock' AND locktype = 'relation'")
            # Whoever holds the lock must not end before the append does: it would let the append through.
            os.kill(holder, signal.SIGSTOP)
            ending = asyncio.create_task(asyncio.to_thread(server.stop, how))
            try:
                with pytest.raises(AppendOutcomeUnknown):
                    await append
            finally:
                os.kill(holder, signal.SIGCONT)
                await ending
        with pytest.raises(StoreUnavailable, match=r"cannot be reached|was lost"):
            await store.append("agent:a", head, commit)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await store.read("agent:a")
        server.start()
        end = await store.append("agent:a", head, commit)
        assert await store.append("agent:a", head, commit) == end
        assert [record.version for record in (await store.read("agent:a")).records] == [1, 2, 3]
        assert await store.verify("agent:a") is None

    await use(server.url(database), scenario, busy_timeout=LONGEST_SECONDS)


async def test_given_an_idle_store_when_the_server_is_restarted_then_nobody_notices(
    server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        lease = await store.acquire("agent:a", owner="worker-7")
        head = await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
        for restart in range(2, 4):
            server.restart(signal.SIGQUIT if restart == 2 else signal.SIGINT)
            head = await store.append("agent:a", head, commit_of(f"c{restart}", Noted()))
            server.restart()
            assert await store.version("agent:a") == restart
            server.restart()
            assert await store.is_leased("agent:a") is True
        await lease.release()
        assert await store.is_leased("agent:a") is False

    await use(server.url(database), scenario)


@pytest.mark.parametrize("who", ["the same process", "others"])
async def test_given_a_lease_that_was_given_up_while_the_server_was_away_when_it_is_back_then_it_is_free(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """It does not expire in this test. For others the thread that renews leases frees it."""
    if who == "others":
        monkeypatch.setattr("steptrail.infrastructure.store.postgres.leases._RENEWALS", 10_000_000)

    async def scenario(store: RecorderEventStore) -> None:
        lease = await store.acquire("agent:a", owner="worker-7")
        server.stop()
        await lease.release()
        server.start()
        if who == "others":
            await until(lambda: server.execute(LEASES, database=database) == [(0,)])
        else:
            await (await store.acquire("agent:a", owner="worker-7")).release()
            assert await store.is_leased("agent:a") is False

    await use(server.url(database) + "?lease_seconds=1000000", scenario)


async def test_given_a_server_that_lost_its_last_commits_when_it_is_back_then_events_have_types_that_it_knows(
    server: PostgresServer, database: str
) -> None:
    """It may with the durability "normal", and so may a standby that takes the place of its primary."""

    async def scenario(store: RecorderEventStore) -> None:
        await first_append(store)
        server.restart()
        server.execute(
            "TRUNCATE steptrail.events, steptrail.commits, steptrail.streams, steptrail.types RESTART IDENTITY",
            "INSERT INTO steptrail.types (name) VALUES ('of.somebody.else.v1')",
            database=database,
        )
        await first_append(store)
        assert [record.event for record in (await store.read("agent:a")).records] == [Noted()]

    await use(server.url(database), scenario)


async def test_given_a_server_that_lost_its_last_commits_when_it_is_back_then_nobody_reads_past_what_is_in_flight(
    server: PostgresServer, database: str
) -> None:
    """A reader had seen more than there is now."""
    fly = ("SELECT steptrail.take_off()", "SELECT steptrail.draw(1)")
    reader, writer = open_store(server.url(database)), open_store(server.url(database))
    await writer.append("agent:a", EMPTY_STREAM, commit_of("c1", *[Noted()] * 20))
    assert len([entry async for entry in reader.log()]) == 20
    server.restart()
    server.execute(
        "TRUNCATE steptrail.events, steptrail.commits, steptrail.streams RESTART IDENTITY",
        "SELECT setval('steptrail.positions', 1, false)",
        database=database,
    )
    with server.session(database, *fly):
        assert (await writer.append("agent:b", EMPTY_STREAM, commit_of("c1", Noted()))).version == 1
        assert [entry async for entry in reader.log()] == []
    assert [position async for position, _, _ in reader.log()] == [2]
    await reader.close()
    await writer.close()


async def test_given_a_copy_without_its_sequences_then_nothing_is_written_until_they_are_set(
    server: PostgresServer, database: str
) -> None:
    """As logical replication makes one. An erased session has left room in the log, where others have read already."""

    async def scenario(store: RecorderEventStore) -> None:
        await store.append("agent:gone", EMPTY_STREAM, commit_of("c1", Noted(), Noted()))
        head = await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
        await store.erase({"agent:gone": 2}, at=1, by="ana", reason="asked")
        server.execute("SELECT setval('steptrail.positions', 1, false)", database=database)
        server.restart()
        with pytest.raises(StoreUnavailable, match="stands before the end of its log") as refused:
            await store.append("agent:a", head, commit_of("c2", Noted()))
        server.execute(str(refused.value).rpartition("by ")[2], database=database)
        assert (await store.append("agent:a", head, commit_of("c2", Noted()))).version == 2
        assert [position async for position, _, _ in store.log()] == [3, 4, 5]
        assert await store.verify("agent:a") is None

    await use(server.url(database), scenario)


async def test_given_a_pooler_that_is_cut_off_while_a_store_is_opened_then_it_is_away(
    proxy: Proxy, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler tells a connection another number than that of its session."""
    asked = list[Connection]()

    def session(connection: Connection) -> int:
        asked.append(connection)
        if len(asked) > 1:
            proxy.cut()
            connection.execute("SELECT 1")
        return 0

    monkeypatch.setattr("steptrail.infrastructure.store.postgres.pooler._session", session)
    with pytest.raises(StoreAway, match="cannot be reached"):
        open_store(through(proxy, database))


async def test_given_a_server_that_is_silent_when_asked_then_it_is_given_up_on_and_comes_back(
    proxy: Proxy, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        head = await first_append(store)
        assert await store.version("agent:a") == 1
        proxy.hold()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await store.read("agent:a")
        with pytest.raises(AppendOutcomeUnknown):
            await store.append("agent:a", head, commit_of("c2", Noted()))
        proxy.cut()
        assert (await store.append("agent:a", head, commit_of("c2", Noted()))).version == 2

    await use(through(proxy, database, "?answer_timeout=1&connect_timeout=30"), scenario, busy_timeout=1)


def test_given_a_server_that_falls_silent_in_a_transaction_then_the_driver_warns_of_nothing(
    proxy: Proxy, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work(connection: Connection) -> None:
        with together(connection):
            connection.execute("SELECT 1")
            proxy.hold()
            connection.execute("SELECT 2")

    connection = connect(parse_address(through(proxy, database)), patience=0.0)
    with pytest.raises(ServerFailure, match="did not answer in time"):
        attempt(connection, work)
    assert connection.closed
    assert caplog.text == ""


async def test_given_a_lock_that_another_process_holds_too_long_then_nothing_is_written(
    server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        with server.session(database, HOLD_UP_APPENDS):
            with pytest.raises(StoreLocked, match="another process"):
                await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
            appends = [store.append(f"agent:{i}", EMPTY_STREAM, commit_of("c1", Noted())) for i in range(3)]
            outcomes = await asyncio.gather(*appends, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StoreLocked] * 3
        assert await store.streams("agent:") == []
        assert (await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))).version == 1

    await use(server.url(database), scenario, busy_timeout=0.05)


async def test_given_a_lock_that_is_let_go_in_time_then_nobody_notices(server: PostgresServer, database: str) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        with server.session(database, HOLD_UP_APPENDS):
            append = asyncio.create_task(store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted())))
            await until(lambda: is_waiting_for_a_lock(server, database))
            assert not append.done()
        assert (await append).version == 1

    await use(server.url(database), scenario, busy_timeout=LONGEST_SECONDS)


async def test_given_a_commit_that_takes_long_then_others_neither_wait_for_it_nor_for_its_announcement(
    server: PostgresServer, database: str
) -> None:
    """The commit waits for a standby that is not there, with all its locks, and nobody sees it yet."""
    flushing = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    slow = open_store(server.url(database), busy_timeout=LONGEST_SECONDS)
    quick = open_store(server.url(database), durability="normal")
    await first_append(slow)
    waits = asyncio.create_task(quick.wait_past(1, timeout=float("inf")))
    server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    try:
        append = asyncio.create_task(slow.append("agent:slow", EMPTY_STREAM, commit_of("c1", Noted())))
        await until(lambda: server.execute(flushing) == [(1,)])
        head = EMPTY_STREAM
        for number in range(3):
            head = await quick.append("agent:quick", head, commit_of(f"c{number}", Noted()))
        assert [stream async for _, stream, _ in quick.log()] == ["agent:a"]
        assert not append.done()
        assert not waits.done()
    finally:
        server.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    await append
    async with asyncio.timeout(LONGEST_SECONDS):
        await waits
    assert [stream async for _, stream, _ in quick.log()] == ["agent:a", "agent:slow", *["agent:quick"] * 3]
    await slow.close()
    await quick.close()


def before_insert(body: str) -> tuple[str, str]:
    """Return the statements that make the server do something before each event is inserted."""
    return (
        f"CREATE FUNCTION steptrail.meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN new; END $$",
        "CREATE TRIGGER meddle BEFORE INSERT ON steptrail.events FOR EACH ROW EXECUTE FUNCTION steptrail.meddle()",
    )


async def test_given_a_write_that_takes_too_long_then_the_server_undoes_it(
    server: PostgresServer, database: str
) -> None:
    server.execute(*before_insert("PERFORM pg_sleep(600);"), database=database)

    async def scenario(store: RecorderEventStore) -> None:
        with pytest.raises(StoreUnavailable, match=r"took too long to answer: nothing was written"):
            await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
        assert await store.version("agent:a") == 0

    await use(server.url(database) + "?answer_timeout=1", scenario, busy_timeout=1)


async def test_given_a_full_disk_then_what_still_fits_is_stored(server: PostgresServer, database: str) -> None:
    full = (
        "IF new.stream = (SELECT number FROM steptrail.streams WHERE id = 'agent:large') "
        "THEN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END IF;"
    )
    server.execute(*before_insert(full), database=database)

    async def scenario(store: RecorderEventStore) -> None:
        names = ("agent:a", "agent:large", "agent:b")
        outcomes = await asyncio.gather(
            *(store.append(name, EMPTY_STREAM, commit_of("c1", Noted())) for name in names), return_exceptions=True
        )
        assert [isinstance(outcome, StoreFull) for outcome in outcomes] == [False, True, False]
        assert [await store.version(name) for name in names] == [1, 0, 1]

    await use(server.url(database), scenario)


async def test_given_an_id_that_the_server_cannot_hold_then_it_alone_is_refused(
    server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        names = ("agent:a", "agent:\0", "agent:b")
        outcomes = await asyncio.gather(
            *(store.append(name, EMPTY_STREAM, commit_of("c1", Noted())) for name in names), return_exceptions=True
        )
        assert [isinstance(outcome, StoreUnavailable) for outcome in outcomes] == [False, True, False]
        assert await store.streams("agent:") == ["agent:a", "agent:b"]

    await use(server.url(database), scenario)


async def test_given_a_server_that_only_reads_then_that_is_said_until_it_takes_writes(
    server: PostgresServer, database: str
) -> None:
    server.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")

    async def scenario(store: RecorderEventStore) -> None:
        with pytest.raises(StoreReadOnly, match="only reads"):
            await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
        with pytest.raises(StoreReadOnly, match="only reads"):
            await store.acquire("agent:a", owner="worker-7")
        assert await store.version("agent:a") == 0
        server.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
        await (await store.acquire("agent:a", owner="worker-7")).release()
        assert (await first_append(store)).version == 1

    await use(server.url(database), scenario)


async def test_given_tables_that_were_made_anew_beneath_a_store_then_events_have_types_that_they_know(
    server: PostgresServer, database: str
) -> None:
    """As by a dump that is restored in their place."""

    async def scenario(store: RecorderEventStore) -> None:
        await first_append(store)
        server.execute("DROP SCHEMA steptrail CASCADE", database=database)
        await use(server.url(database), lambda other: other.append("agent:b", EMPTY_STREAM, commit_of("c1", Written())))
        await store.append("agent:c", EMPTY_STREAM, commit_of("c1", Noted(), Written()))
        assert [record.event for record in (await store.read("agent:c")).records] == [Noted(), Written()]

    await use(server.url(database), scenario)


async def test_given_a_server_that_lacks_memory_then_it_is_away_and_nothing_is_written(
    server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        await first_append(store)
        with server.session(database) as greedy:
            with pytest.raises(psycopg.errors.OutOfMemory):
                greedy.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 10000000) n")
            greedy.rollback()
            with pytest.raises(StoreAway, match="nothing was written, try again: out of shared memory"):
                await store.append("agent:b", EMPTY_STREAM, commit_of("c1", Noted()))
        is_stored = False
        while not is_stored:
            # The server notices the end of the greedy session in its own time.
            with suppress(StoreAway):
                await store.append("agent:b", EMPTY_STREAM, commit_of("c1", Noted()))
                is_stored = True

    await use(server.url(database), scenario)
