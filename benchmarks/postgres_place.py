"""A PostgreSQL database to measure in, and the floor beside it.

The floor keeps the same promises in the plainest way: what the rows say, in one table with names in it, one multi-row
statement and one round trip for each commit. A lock held until the commit makes positions appear in the order of the
commits, so that no reader who follows the log can miss one. Only the client's processor time is counted.
"""

from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson

from benchmarks.meter import Cost, stopwatch
from benchmarks.rows import Row, Rows, split_commits

_FLOOR = "benchmark_floor"
_LOCK = 5_374_726_569
_FLOOR_COLUMNS = {
    "stream": 'text COLLATE "C" NOT NULL',
    "version": "bigint NOT NULL",
    "type": "text NOT NULL",
    "at": "bigint NOT NULL",
    "state": "bytea NOT NULL",
    "content": "bytea",
    "commit_id": "text",
    "actor": "text",
    "causation": "text",
    "segment": "bigint",
    "key_id": "text",
    "digest": "bytea",
}
_COLUMNS = "e.position, s.id AS stream, e.version, t.name AS type, e.at, e.state, e.content"
_FROM = (
    "FROM steptrail.events e JOIN steptrail.streams s ON s.number = e.stream "
    "JOIN steptrail.types t ON t.number = e.type "
)
_EVENTS = f"SELECT {_COLUMNS} {_FROM}"
"""The log as a projector reads it that looks at no head of a commit."""
_ROWS = (
    f"SELECT {_COLUMNS}, c.commit_id, c.actor, c.causation, c.segment, c.key_id, c.digest {_FROM}"
    "LEFT JOIN steptrail.commits c ON c.stream = e.stream AND c.version = e.version "
)


class PostgresPlace:
    """One store in a database of its own."""

    def __init__(self, site: "PostgresSite", database: str) -> None:
        self._site, self._database = site, database
        self.url = urlunsplit(urlsplit(site.url)._replace(path=f"/{database}"))

    def size(self) -> int:
        """Return the bytes of all tables of the store and of their indexes."""
        statement = "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_stat_user_tables"
        with connected(self.url) as connection:
            size: int = connection.execute(statement).fetchone()[0]
        return size

    def rows(self) -> Rows:
        """Return what the store holds."""
        with connected(self.url) as connection:
            cursor = connection.execute(_ROWS + "ORDER BY e.position")
            return split_commits([column.name for column in cursor.description], cursor)

    def write_floor(self, rows: Rows) -> Cost:
        """Write the rows as the floor does, into a new table, and return what that cost."""
        with floor_table(self.url), connected(self.url) as connection:
            statements = floor_statements(rows, ordered=True)
            execute = connection.execute
            with stopwatch() as watch:
                for statement, values in statements:
                    execute(statement, values)
        return watch.cost

    def read_floor(self, stream: str | None = None) -> Cost:
        """Read the rows of a stream, or of all, parse each as JSON and hold none, and return what that cost."""
        asked = _EVENTS + "ORDER BY e.position" if stream is None else _ROWS + "WHERE s.id = %s ORDER BY e.version"
        with connected(self.url) as connection, stopwatch() as watch:
            cursor = connection.execute(asked, None if stream is None else (stream,), binary=True)
            names = [column.name for column in cursor.description]
            parts = [names.index("state"), names.index("content")]
            for row in cursor:
                for part in parts:
                    if row[part] is not None:
                        orjson.loads(row[part])
        return watch.cost

    def remove(self) -> None:
        """Drop the database."""
        self._site.execute(f"DROP DATABASE IF EXISTS {self._database} WITH (FORCE)")

    def slow_commits(self, milliseconds: int) -> None:
        """Have every commit in this database wait so much longer for the disk, from the next connection on.

        It is PostgreSQL's own `commit_delay`: the first of those who commit together sleeps before the log is synced,
        and the others wait for it, as they would for a slow disk or a replica. The user must be allowed to set it.
        """
        self._site.execute(f"ALTER DATABASE {self._database} SET commit_delay = {milliseconds * 1000}")
        self._site.execute(f"ALTER DATABASE {self._database} SET commit_siblings = 0")


class PostgresSite:
    """Makes a database for each place. The user of `url` must be allowed to."""

    name = "PostgreSQL"

    def __init__(self, url: str) -> None:
        self.url = url
        self._made = 0

    def fresh(self) -> PostgresPlace:
        """Return a place in a new, empty database."""
        self._made += 1
        database = f"steptrail_benchmark_{self._made}"
        self.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        self.execute(f"CREATE DATABASE {database}")
        return PostgresPlace(self, database)

    def settings(self) -> dict[str, str]:
        """Return the server's version and what makes its commits durable."""
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
        with connected(self.url) as connection:
            return {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in names}

    def execute(self, statement: str) -> None:
        """Run a statement on the server."""
        with connected(self.url) as connection:
            connection.execute(statement)


@contextmanager
def connected(url: str) -> Generator[Any, None, None]:
    """Yield a connection on which each statement is a transaction, prepared when it is first used."""
    with closing(import_module("psycopg").connect(url, autocommit=True)) as connection:
        connection.prepare_threshold = 0
        yield connection


@contextmanager
def floor_table(url: str) -> Generator[None, None, None]:
    """Have an empty table of the floor beside the table of events for as long as the block lasts."""
    with connected(url) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {_FLOOR}")
        columns = ", ".join(f"{name} {kind}" for name, kind in _FLOOR_COLUMNS.items())
        connection.execute(
            f"CREATE TABLE {_FLOOR} (position bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, {columns}, "
            "UNIQUE (stream, version))"
        )
        yield
        connection.execute(f"DROP TABLE {_FLOOR}")


def floor_statements(rows: Rows, *, ordered: bool) -> list[tuple[str, list[object]]]:
    """Return the statement and the values of each commit; `ordered` ones take the lock that keeps their order."""
    casts = tuple(_FLOOR_COLUMNS[column].split()[0] for column in rows.columns)
    return [_insert(rows.columns, casts, commit, ordered) for commit in rows.commits]


def _insert(
    columns: tuple[str, ...], casts: tuple[str, ...], rows: tuple[Row, ...], ordered: bool
) -> tuple[str, list[object]]:
    absent = tuple(tuple(value is None for value in row) for row in rows)
    return _statement(columns, casts, absent, ordered), [value for row in rows for value in row if value is not None]


@lru_cache(maxsize=512)
def _statement(
    columns: tuple[str, ...], casts: tuple[str, ...], absent: tuple[tuple[bool, ...], ...], ordered: bool
) -> str:
    # The join waits for the lock before it hands on a row, and only then is the row's position drawn.
    values = ",".join(
        "(" + ",".join(f"{'NULL' if no else '%s'}::{cast}" for no, cast in zip(row, casts, strict=True)) + ")"
        for row in absent
    )
    if not ordered:
        return f"INSERT INTO {_FLOOR} ({','.join(columns)}) VALUES {values}"
    return (
        f"WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock({_LOCK})) "
        f"INSERT INTO {_FLOOR} ({','.join(columns)}) SELECT line.* FROM turn CROSS JOIN (VALUES {values}) AS line"
    )
