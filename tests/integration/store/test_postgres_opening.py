"""Databases that become stores, and those that are refused and left as they are. No message holds a secret."""

import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from steptrail.domain.errors import (
    ConfigurationError,
    NotAStore,
    StoreAway,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
    StoreTooOld,
    StoreUnavailable,
)
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.tables import MEANINGS
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import ServerFailure
from steptrail.infrastructure.store.postgres.errors import unreachable
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.postgres_server import PostgresServer
from tests.harness.ready_python import ready_python

T = TypeVar("T")

SECRET = "s3cr3t%21"  # noqa: S105  made up
EVERYTHING = "SELECT nspname, relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace ORDER BY 1, 2"


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """A server that asks for a password."""
    with PostgresServer(password=SECRET.replace("%21", "!")) as server:
        yield server


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    name = postgres_server.create_database()
    yield name
    postgres_server.drop_database(name)


async def use(url: str, work: Callable[[RecorderEventStore], Awaitable[T]], **settings: Any) -> T:
    store = open_store(url, **settings)
    try:
        return await work(store)
    finally:
        await store.close()


async def add(store: RecorderEventStore) -> None:
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(text="kept")))


async def version(store: RecorderEventStore) -> int:
    return await store.version("agent:a")


def refusal(url: str, **settings: Any) -> StoreError:
    with pytest.raises(StoreError) as caught:
        open_store(url, **settings)
    return caught.value


def test_given_a_wrong_password_then_that_is_said_without_it(guarded: PostgresServer) -> None:
    error = refusal(guarded.url("postgres", password="wr0ng"))  # noqa: S106  made up
    assert type(error) is StoreUnavailable
    assert "refuses the user or the password" in str(error)
    assert f"postgresql://postgres@127.0.0.1:{guarded.port}/postgres" in str(error)
    assert "wr0ng" not in "".join(traceback.format_exception(error))


async def test_given_the_right_password_then_no_error_of_the_store_holds_it(guarded: PostgresServer) -> None:
    name = guarded.create_database()
    url = guarded.url(name, password=SECRET)
    await use(url, add)
    guarded.execute("DROP TABLE steptrail.events CASCADE", database=name)

    async def scenario(store: RecorderEventStore) -> None:
        for work in (add, version):
            with pytest.raises(NotAStore, match="check the database") as caught:
                await work(store)
            assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))

    await use(url, scenario)


@pytest.mark.parametrize(
    ("change", "kind", "why"),
    [
        ({"user": "nobody_here"}, StoreUnavailable, "refuses the user or the password"),
        ({"database": "nothing_here"}, StoreUnavailable, "there is no database for the store"),
        ({"port": "1"}, StoreAway, "cannot be reached"),
        ({"host": "nowhere.invalid"}, StoreAway, "cannot be reached"),
        ({"port": "99999"}, StoreUnavailable, 'is wrong: invalid port number: "99999"'),
        ({"database": "postgres?sslmode=yes"}, StoreUnavailable, 'is wrong: invalid sslmode value: "yes"'),
        ({"database": "postgres?connect_timeout=soon"}, StoreUnavailable, "is wrong: bad value for connect_timeout"),
        ({"database": "postgres?target_session_attrs=us"}, StoreUnavailable, "is wrong: invalid target_session_attrs"),
        ({"database": "postgres?options=-c%20colour%3D1"}, StoreUnavailable, "is wrong: unrecognized configuration"),
        ({"database": "postgres?options=-c%20work_mem%3D?"}, StoreUnavailable, "is wrong: invalid value for parameter"),
    ],
)
def test_given_a_server_that_does_not_let_us_in_then_what_to_check_is_said(
    postgres_server: PostgresServer, change: dict[str, str], kind: type[StoreUnavailable], why: str
) -> None:
    parts = {"user": "postgres", "host": "127.0.0.1", "port": str(postgres_server.port), "database": "postgres"}
    error = refusal("postgresql://{user}:s3cr3t@{host}:{port}/{database}".format(**{**parts, **change}))
    assert type(error) is kind
    assert why in str(error)
    assert "\n" not in str(error)
    assert "s3cr3t" not in "".join(traceback.format_exception(error))


def test_given_a_server_that_has_no_room_for_one_more_connection_then_that_is_said(
    postgres_server: PostgresServer,
) -> None:
    postgres_server.execute("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")
    try:
        error = refusal(f"postgresql://crowded@127.0.0.1:{postgres_server.port}/postgres")
    finally:
        postgres_server.execute("DROP ROLE crowded")
    assert type(error) is StoreAway
    assert "takes no connection now, try again: too many connections for role" in str(error)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("FATAL:  no more connections allowed (max_client_conn)", "takes no connection now"),
        ('FATAL:  role "ana" is not permitted to log in', "refuses the user or the password"),
        ('FATAL:  permission denied for database "agents"', "refuses the user or the password"),
        ("FATAL:  unsupported startup parameter: options", "a setting in the address"),
        ('root certificate file "/root.crt" does not exist\nEither provide the file', "cannot be reached"),
    ],
)
def test_given_what_the_driver_says_of_a_connection_then_a_user_is_refused_only_if_it_says_so(
    text: str, why: str
) -> None:
    failed = ServerFailure(f'connection to server at "db", port 5432 failed: {text}', state=None, is_lost=True)
    error = unreachable(failed, "postgresql://ana@db/agents")
    assert why in str(error)
    assert text.removeprefix("FATAL:  ").replace("\n", " ") in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ana:s3cr3t@host:many/db",
        "postgresql://ana:my@s3cr3t@host/db",
        "postgresql://ana:my/s3cr3t@host/db",
        "postgresql://ana:my%s3cr3t@host:5432/db",
        "postgresql://ana:s3cr3t@host/db?colour=red",
        "postgresql://ana:s3cr3t@host/db?answer_timeout=soon",
        "postgres://ana:s3cr3t@host/db?lease_seconds=0",
        "postgresql://ana:s3cr3t@[host/db",
        "mysql://ana:s3cr3t@host/db",
        "mysql://host/db?password=s3cr3t",
        "postgresql:/ana:s3cr3t@host/db",
    ],
)
def test_given_an_address_that_is_not_understood_then_its_password_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_store(url)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_given_a_setting_that_nobody_knows_then_the_error_names_those_that_are_known() -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_store("postgresql://ana@host/db?lease=3")
    assert "settings behind ? are answer_timeout, connections, lease_seconds and those of libpq" in str(caught.value)


def test_given_no_driver_then_the_extra_is_named() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\nfrom steptrail import Steptrail\nSteptrail.open('postgres://h/d')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        "MissingExtra: a store at postgresql:// needs the package 'psycopg': "
        "install it with `pip install 'steptrail[postgres]'`"
    )


async def test_given_a_store_then_the_database_says_what_it_is(postgres_server: PostgresServer, database: str) -> None:
    await use(postgres_server.url(database), add)
    rows = postgres_server.execute("SELECT * FROM steptrail.store", database=database)
    assert rows == [("steptrail", 10, 10)]
    assert await use(postgres_server.url(database), version, create=False) == 1


@pytest.mark.parametrize("settings", [{"create": False}, {"read_only": True}])
def test_given_no_store_when_it_may_not_be_made_then_nothing_is(
    postgres_server: PostgresServer, database: str, settings: dict[str, bool]
) -> None:
    before = postgres_server.execute(EVERYTHING, database=database)
    error = refusal(postgres_server.url(database), **settings)
    assert type(error) is StoreUnavailable
    assert "there is no store in" in str(error)
    assert postgres_server.execute(EVERYTHING, database=database) == before


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE steptrail.journeys (id int)",
        "CREATE TABLE steptrail.store (id int)",
        "CREATE TABLE steptrail.store (application text, schema_version int)",
        "CREATE TABLE steptrail.store (application text, format int, min_reader int)",
    ],
)
def test_given_a_schema_of_somebody_else_then_it_is_left_as_it_is(
    postgres_server: PostgresServer, database: str, theirs: str
) -> None:
    postgres_server.execute("CREATE SCHEMA steptrail", theirs, database=database)
    before = postgres_server.execute(EVERYTHING, database=database)
    for settings in ({}, {"create": False}, {"read_only": True}):
        assert type(refusal(postgres_server.url(database), **settings)) is NotAStore
    assert postgres_server.execute(EVERYTHING, database=database) == before


async def test_given_tables_of_somebody_else_in_other_schemas_then_they_live_beside_the_store(
    postgres_server: PostgresServer, database: str
) -> None:
    postgres_server.execute("CREATE TABLE stored_events (id int)", "CREATE TABLE store (id int)", database=database)
    await use(postgres_server.url(database), add)
    assert await use(postgres_server.url(database), version) == 1


async def test_given_a_store_of_a_newer_format_then_it_is_read_where_its_header_allows_it_and_never_written(
    postgres_server: PostgresServer, database: str
) -> None:
    await use(postgres_server.url(database), add)
    postgres_server.execute("UPDATE steptrail.store SET format = 11", database=database)
    assert await use(postgres_server.url(database), version, read_only=True) == 1
    assert type(refusal(postgres_server.url(database))) is StoreTooNew
    postgres_server.execute("UPDATE steptrail.store SET min_reader = 11", database=database)
    for settings in ({}, {"read_only": True}):
        error = refusal(postgres_server.url(database), **settings)
        assert type(error) is StoreTooNew
        assert "has format 11, this Steptrail knows formats up to 10: update" in str(error)


@pytest.mark.parametrize("settings", [{}, {"create": False}, {"read_only": True}])
def test_given_a_store_of_an_older_format_then_it_is_refused_and_says_what_to_do(
    postgres_server: PostgresServer, database: str, settings: dict[str, bool]
) -> None:
    postgres_server.execute(
        "CREATE SCHEMA steptrail",
        "CREATE TABLE steptrail.store (application text NOT NULL, schema_version integer NOT NULL)",
        "INSERT INTO steptrail.store VALUES ('steptrail', 3)",
        database=database,
    )
    before = postgres_server.execute(EVERYTHING, database=database)
    error = refusal(postgres_server.url(database), **settings)
    assert type(error) is StoreTooOld
    assert "has format 3" in str(error)
    assert "keep it with the version that wrote it and begin a new one" in str(error)
    assert postgres_server.execute(EVERYTHING, database=database) == before


async def test_given_a_store_then_a_shell_shows_what_each_column_holds(
    postgres_server: PostgresServer, database: str
) -> None:
    await use(postgres_server.url(database), add)
    described = postgres_server.execute(
        "SELECT c.relname, a.attname, col_description(c.oid, a.attnum) FROM pg_class c "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 "
        "WHERE c.relnamespace = 'steptrail'::regnamespace AND c.relkind = 'r'",
        database=database,
    )
    assert {row for row in described if row[1] != "application"} == {
        (table, column, meaning) for table, columns in MEANINGS.items() for column, meaning in columns.items()
    }


async def test_given_events_then_people_see_each_with_all_names_and_with_its_commit(
    postgres_server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        head = await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
        await store.append("agent:a", head, commit_of("c2", Noted(), Noted()))

    await use(postgres_server.url(database), scenario)
    shown = postgres_server.execute(
        "SELECT position, stream, version, type, commit_version, commit_id, actor FROM steptrail.stored_events "
        "ORDER BY position",
        database=database,
    )
    assert shown == [
        (1, "agent:a", 1, "test.noted.v1", 1, "c1", "tester"),
        (2, "agent:a", 2, "test.noted.v1", 2, "c2", "tester"),
        (3, "agent:a", 3, "test.noted.v1", 2, "c2", "tester"),
    ]


async def test_given_events_that_belong_to_no_commit_then_people_see_none_of_them(
    postgres_server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))

    await use(postgres_server.url(database), scenario)
    for position, stream, version in ((8, "stream", 2), (9, "stream + 1", 1)):
        postgres_server.execute(
            "INSERT INTO steptrail.events (position, stream, version, at, type, state, content) "  # noqa: S608
            f"SELECT {position}, {stream}, {version}, at, type, state, content "
            "FROM steptrail.events WHERE position = 1",
            database=database,
        )
    shown = postgres_server.execute("SELECT position FROM steptrail.stored_events", database=database)
    assert shown == [(1,)]


def test_given_a_database_that_cannot_hold_every_text_then_it_is_refused(postgres_server: PostgresServer) -> None:
    name = postgres_server.create_database("TEMPLATE template0 ENCODING 'LATIN1'")
    error = refusal(postgres_server.url(name))
    postgres_server.drop_database(name)
    assert "has the encoding LATIN1: create it with ENCODING 'UTF8'" in str(error)


async def test_given_a_store_opened_for_reading_then_nothing_can_be_written(
    postgres_server: PostgresServer, database: str
) -> None:
    await use(postgres_server.url(database), add)

    async def scenario(store: RecorderEventStore) -> None:
        assert await version(store) == 1
        head = (await store.read("agent:a")).head
        with pytest.raises(StoreReadOnly, match="opened for reading only"):
            await store.append("agent:a", head, commit_of("c2", Noted()))
        with pytest.raises(StoreReadOnly, match="worker-7 cannot run 'agent:a'"):
            await store.acquire("agent:a", owner="worker-7")
        with pytest.raises(StoreReadOnly, match="opened for reading only"):
            await store.list_anew(RunSummary(kind="agent", session_id="a", version=1))
        with pytest.raises(StoreReadOnly, match="opened for reading only"):
            await store.keep_place("somebody", 1)
        assert await store.leases() == []

    await use(postgres_server.url(database), scenario, read_only=True)


def test_given_connections_that_were_closed_then_none_is_made_for_a_write_that_comes_late(
    postgres_server: PostgresServer, database: str
) -> None:
    address = PostgresAddress.parse(postgres_server.url(database))
    connections = PostgresConnections(address, durability="full", patience=1.0)
    assert connections.write(lambda connection: connection.execute("SELECT 1").rowcount) == 1
    connections.close()
    for late in (connections.write, connections.read):
        with pytest.raises(StoreUnavailable, match="is closed"):
            late(lambda connection: connection.execute("SELECT 1").rowcount)


async def test_given_a_user_with_few_rights_then_what_is_missing_is_said(
    postgres_server: PostgresServer, database: str
) -> None:
    postgres_server.execute("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN")
    url = postgres_server.url(database, user="reader")
    error = refusal(url)
    assert type(error) is StoreReadOnly
    assert "grant it the right" in str(error)
    await use(postgres_server.url(database), add)
    assert "cannot be read by this user" in str(refusal(url))
    postgres_server.execute(
        "GRANT USAGE ON SCHEMA steptrail TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA steptrail TO reader",
        database=database,
    )

    async def scenario(store: RecorderEventStore) -> None:
        head = (await store.read("agent:a")).head
        with pytest.raises(StoreReadOnly, match="grant it the right"):
            await store.append("agent:a", head, commit_of("c2", Noted()))

    await use(url, scenario)
    postgres_server.execute("DROP OWNED BY reader", database=database)


async def test_given_a_schema_that_was_made_for_us_then_no_right_to_make_one_is_needed(
    postgres_server: PostgresServer, database: str
) -> None:
    postgres_server.execute("DROP ROLE IF EXISTS owner", "CREATE ROLE owner LOGIN")
    postgres_server.execute("CREATE SCHEMA steptrail AUTHORIZATION owner", database=database)
    await use(postgres_server.url(database, user="owner"), add)
    assert await use(postgres_server.url(database, user="owner"), version) == 1
    postgres_server.execute("DROP OWNED BY owner CASCADE", database=database)


@pytest.mark.parametrize(
    ("durability", "database_says", "then"),
    [("full", "off", "on"), ("full", "remote_apply", "remote_apply"), ("normal", "on", "off")],
)
def test_durability_is_what_was_asked_for(
    postgres_server: PostgresServer, database: str, durability: str, database_says: str, then: str
) -> None:
    from steptrail.infrastructure.store.postgres.address import PostgresAddress
    from steptrail.infrastructure.store.postgres.connections import PostgresConnections

    postgres_server.execute(f"ALTER DATABASE {database} SET synchronous_commit = {database_says}")
    connections = PostgresConnections(
        PostgresAddress.parse(postgres_server.url(database)),
        durability="full" if durability == "full" else "normal",
        patience=0,
    )
    assert connections.write(lambda c: c.execute("SHOW synchronous_commit").fetchone()) == (then,)
    connections.close()


START = """
import asyncio, sys
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Noted, commit_of

async def main():
    sys.stdin.readline()
    store = open_store(sys.argv[1])
    await store.append("agent:" + sys.argv[2], EMPTY_STREAM, commit_of("c1", Noted()))
    await store.close()

asyncio.run(main())
"""


async def test_given_an_empty_database_when_many_workers_start_at_once_then_each_finds_a_whole_store(
    postgres_url: str,
) -> None:
    workers = [
        subprocess.Popen([ready_python(), "-c", START, postgres_url, str(i)], stdin=subprocess.PIPE, text=True)
        for i in range(6)
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.close()
    assert [worker.wait() for worker in workers] == [0] * 6
    assert len(await use(postgres_url, lambda store: store.streams("agent:"))) == 6


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://ana@one:5432,two:5433/db?target_session_attrs=any", "postgresql://ana@one:5432,two:5433/db"),
        ("postgresql://ana@one,two:5433/db", "postgresql://ana@one,two:5433/db"),
        ("postgresql://ana@/db?host=one,two&port=7", "postgresql://ana@one:7,two:7/db"),
        ("postgresql://ana:s3cr3t@[::1]:5432/db", "postgresql://ana@[::1]:5432/db"),
        ("postgresql:///db?host=/var/run&port=7", "postgresql://%2Fvar%2Frun:7/db"),
        ("postgresql:///db", "postgresql:///db"),
    ],
)
def test_given_several_hosts_or_a_socket_then_messages_call_the_store_by_an_address_of_it(url: str, name: str) -> None:
    assert PostgresAddress.parse(url).name == name
    assert PostgresAddress.parse(name).name == name
