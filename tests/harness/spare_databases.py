"""The databases of a server that tests have to themselves, one test after another.

Making the tables of a store and removing them takes the server ten times as long as deleting the few rows of a test.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import psycopg

from steptrail.infrastructure.store.postgres.driver import Connection
from steptrail.infrastructure.store.postgres.schema import initialise
from tests.harness.postgres_server import PostgresServer

_END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
_DROP_VIEWS = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT nspname FROM pg_namespace WHERE nspname LIKE 'steptrail\\_%' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', name);
    END LOOP;
END $$
"""
_DROP_STORE = "DROP SCHEMA IF EXISTS steptrail CASCADE"
_DELETE_ROWS = """
DO $$ DECLARE place regclass; BEGIN
    FOR place IN SELECT oid FROM pg_class WHERE relnamespace = 'steptrail'::regnamespace AND relkind = 'r'
        AND relname <> 'store' LOOP
        EXECUTE format('DELETE FROM %s', place);
    END LOOP;
    PERFORM setval(oid::regclass, 1, false) FROM pg_class
        WHERE relnamespace = 'steptrail'::regnamespace AND relkind = 'S';
END $$
"""
_SHAPE = """
WITH ours AS (SELECT * FROM pg_class WHERE relnamespace = to_regnamespace('steptrail'))
SELECT nspacl::text FROM pg_namespace WHERE nspname = 'steptrail'
UNION ALL SELECT concat_ws(' ', relname, relkind, relpersistence, relacl, reloptions, relrowsecurity) FROM ours
UNION ALL SELECT concat_ws(' ', relname, attname, atttypid, attnotnull, attisdropped, atthasdef, attacl)
    FROM pg_attribute JOIN ours ON ours.oid = attrelid WHERE attnum > 0
UNION ALL SELECT concat_ws(' ', proname, prosrc, proacl) FROM pg_proc WHERE pronamespace = to_regnamespace('steptrail')
UNION ALL SELECT concat_ws(' ', relname, tgname) FROM pg_trigger JOIN ours ON ours.oid = tgrelid
UNION ALL SELECT concat_ws(' ', relname, conname) FROM pg_constraint JOIN ours ON ours.oid = conrelid
UNION ALL SELECT CASE WHEN to_regclass('steptrail.store') IS NOT NULL
    THEN query_to_xml('SELECT * FROM steptrail.store', true, false, '')::text END
ORDER BY 1
"""
"""What a test may have left otherwise than it found it, beside rows: the store's own row is in it."""


class SpareDatabases:
    """Databases that no test uses just now: some without a store, and some whose store is empty."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._without, self._empty = list[str](), list[str]()
        self._fresh: object = None
        # A new connection for what is left of each test would take the server longer than that.
        self._connections: dict[str, Connection] = {}

    @contextmanager
    def without_store(self) -> Generator[str]:
        """The name of a database that holds nothing and that nobody is connected to, for the time inside."""
        name = self._taken()
        try:
            yield name
        finally:
            self._server.execute(_END_OTHERS, _DROP_VIEWS, _DROP_STORE, database=name)
            self._without.append(name)

    @contextmanager
    def empty_store(self) -> Generator[str]:
        """The name of a database whose store holds nothing, for the time inside."""
        name = self._empty.pop() if self._empty else self._with_store()
        connection = self._connections[name]
        try:
            yield name
        finally:
            for statement in (_END_OTHERS, _DROP_VIEWS):
                connection.execute(statement.encode())
            if connection.execute(_SHAPE).fetchall() == self._fresh:
                connection.execute(_DELETE_ROWS)
                self._empty.append(name)
            else:
                connection.execute(_DROP_STORE)
                self._connections.pop(name).close()
                self._without.append(name)

    def close(self) -> None:
        """End the connections. Safe to call twice."""
        for connection in self._connections.values():
            connection.close()

    def _taken(self) -> str:
        return self._without.pop() if self._without else self._server.create_database()

    def _with_store(self) -> str:
        name = self._taken()
        connection = cast("Connection", psycopg.connect(self._server.url(name), autocommit=True))
        initialise(connection, name)
        self._fresh = connection.execute(_SHAPE).fetchall()
        self._connections[name] = connection
        return name
