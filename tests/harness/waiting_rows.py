"""Very many sessions that wait, as rows of the index only: that is all that may be read of them, and soon made.

A third waits for a person, a third for a time that is far off, and a third for one of the first third, below it.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import LiteralString

from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.infrastructure.store.core.index import select
from steptrail.infrastructure.store.postgres import recorder as postgres
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import fetch_all
from steptrail.infrastructure.store.sqlite import recorder as sqlite

_COLUMNS: LiteralString = (
    "id, version, name, status, standing, due_at, parent, began_by, answered, recorded_errors, executions, steps, "
    "active_seconds, started_at, updated_at"
)
_REST: LiteralString = "NULL, 0, 0, 1, 1, 0.0, 1, 1"
_NUMBERS: LiteralString = (
    "(WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n < {number}) SELECT n FROM a) b"
)
_STREAMS: LiteralString = (
    "INSERT INTO {schema}streams ({columns}) SELECT id, 9, '{name}', 'waiting', 'resting', due, above, {rest} FROM ("
    "SELECT n, 1 AS kind, 'agent:{prefix}asks-' || n AS id, NULL AS due, "
    "'agent:{prefix}above-' || n AS above FROM {numbers} UNION ALL "
    "SELECT n, 2, 'agent:{prefix}sleeps-' || n, {later} + n, NULL FROM {numbers} UNION ALL "
    "SELECT n, 3, 'agent:{prefix}above-' || n, NULL, NULL FROM {numbers}) c ORDER BY n, kind"
)
_WAITS: LiteralString = (
    "INSERT INTO {schema}waits (stream, id, kind, since, due_at, asked_at_version, answered_at, waits_on) "
    "SELECT number, id, "
    "CASE WHEN parent IS NOT NULL THEN 'approval' WHEN due_at IS NULL THEN 'child' ELSE 'retry' END, "
    "1, due_at, 8, NULL, CASE WHEN parent IS NULL AND due_at IS NULL THEN replace(id, 'above', 'asks') END "
    "FROM {schema}streams WHERE name = '{name}'"
)


class WaitingRows:
    """The rows of the store at `url`, which is there; `number` sessions are added to it, a third of each kind.

    Timers are over from `later` on, in microseconds of UTC.
    """

    def __init__(self, url: str) -> None:
        self._file = None if url.startswith("postgresql:") else url.removeprefix("sqlite:///")
        self._url = url

    def add(self, number: int, *, later: int, name: str = "patient") -> None:
        """Add the sessions, of an agent of that name. The name is in their ids."""
        schema: LiteralString = "" if self._file is not None else "steptrail."
        numbers = _NUMBERS.format(number=number // 3)
        columns, rest, prefix = _COLUMNS, _REST, "" if name == "patient" else f"{name}-"
        if self._file is None:
            rest = rest.replace("NULL", "NULL::text", 1)
        self._run(
            _STREAMS.format(
                schema=schema, columns=columns, rest=rest, numbers=numbers, later=later, name=name, prefix=prefix
            ),
            _WAITS.format(schema=schema, name=name),
            "ANALYZE",
        )

    def plan(self, asked: IndexQuery) -> Sequence[str]:
        """Return what the database does to answer a question, without what depends on the number of rows."""
        if self._file is not None:
            statement, values = select(asked, sqlite.DIALECT)
            with closing(sqlite3.connect(self._file)) as connection:
                return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        statement, values = select(asked, postgres.DIALECT)
        connections = PostgresConnections(PostgresAddress.parse(self._url), durability="normal", patience=5.0)
        try:
            explained: LiteralString = f"EXPLAIN (COSTS OFF) {statement}"
            return [row[0] for row in connections.read(lambda connection: fetch_all(connection, explained, values))]
        finally:
            connections.close()

    def _run(self, *statements: str) -> None:
        if self._file is not None:
            with closing(sqlite3.connect(self._file, isolation_level=None)) as connection:
                for statement in statements:
                    connection.execute(statement)
            return
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as server:
            for statement in statements:
                server.execute(statement.encode())
