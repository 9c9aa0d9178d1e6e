"""The SQLite file: its tables, and a mark in the file's header that says it is ours.

The header carries an application id and the format, so another application's database is never touched and a newer one
never misread. Streams and types stand in the rows as numbers; the view `stored_events` shows their names.
"""

import atexit
import sqlite3
import threading
from functools import cache

from steptrail.domain.errors import NotAStore, StoreTooNew, StoreTooOld
from steptrail.infrastructure.store.core.tables import COLUMNS, FORMAT, INDEXES, MEANINGS, MIN_READER
from steptrail.infrastructure.store.sqlite.connections import SECURE_DELETE, SYNC_ON_MACOS, connect, in_transaction
from steptrail.infrastructure.store.sqlite.events_of_stream import COMMIT_OF_EVENT

APPLICATION_ID = 0x53747054
"""`StpT` in ASCII."""
_COPYING = threading.RLock()
"""Held by the thread that copies the empty store. A handler of a signal may open a store in the middle of that."""

_KEYS = {
    "blob_uses": "PRIMARY KEY (digest, stream)) WITHOUT ROWID",
    "commits": "PRIMARY KEY (stream, version)) WITHOUT ROWID",
    "waits": "PRIMARY KEY (stream, id)) WITHOUT ROWID",
}

_VIEW = f"""
CREATE VIEW IF NOT EXISTS stored_events AS
SELECT e.position, s.id AS stream, e.version, t.name AS type, e.at, e.state, e.content,
    c.version AS commit_version, c.commit_id, c.actor, c.causation, c.segment, c.key_id, c.digest
FROM commits c
JOIN streams s ON s.number = c.stream
JOIN events e ON e.position >= c.position AND e.position < c.position + c.size
    AND {COMMIT_OF_EVENT}
JOIN types t ON t.number = e.type
"""  # noqa: S608 - a text of ours
"""It says twice which commit an event belongs to: from the commit to its events, for questions of a stream, and from an
event to its commit, for questions of positions."""

_TRIGGER = """
CREATE TRIGGER IF NOT EXISTS refuse_erased BEFORE INSERT ON commits
WHEN EXISTS (SELECT 1 FROM erasures WHERE stream = NEW.stream)
BEGIN SELECT RAISE(ABORT, 'the stream was erased'); END
"""
"""A writer that has not looked since knows a head whose place is free again."""


def ddl() -> list[str]:
    """Return the statements that turn an empty database into a store. They may run again on one."""
    return [
        *(_table(name) for name in COLUMNS if name != "leases"),
        *(f"CREATE INDEX IF NOT EXISTS {name} ON {rows}" for name, rows in INDEXES.items()),
        _VIEW,
        _TRIGGER,
        f"INSERT INTO store SELECT {FORMAT}, {MIN_READER} WHERE NOT EXISTS (SELECT 1 FROM store)",  # noqa: S608
        f"PRAGMA application_id = {APPLICATION_ID}",
        f"PRAGMA user_version = {FORMAT}",
    ]


# In one statement: between two of them another process may make a store of an empty file.
_HEADER = (
    "SELECT a.application_id, v.user_version, EXISTS (SELECT 1 FROM sqlite_master) "
    "FROM pragma_application_id a, pragma_user_version v"
)


def check_header(connection: sqlite3.Connection, store: str, *, to_write: bool = True) -> int:
    """Return the format of a store of ours, which may be read, and written if asked for; 0 for an empty database.

    Raises `NotAStore`, `StoreTooOld` or `StoreTooNew` for anything else. Reads only.
    """
    header: tuple[int, int, int] = connection.execute(_HEADER).fetchone()
    application, version, is_used = header
    if application == APPLICATION_ID:
        if version < FORMAT:
            raise StoreTooOld(store, version, FORMAT)
        if version > FORMAT and (to_write or _min_reader(connection) > FORMAT):
            raise StoreTooNew(
                f"the store {store} has format {version}, this Steptrail knows formats up to {FORMAT}: update"
            )
        return version
    if application or version or is_used:
        raise NotAStore(f"{store} is a SQLite database of another application; it was left as it is")
    return 0


def initialise(connection: sqlite3.Connection, store: str) -> None:
    """Make an empty database a store. Safe to race: the loser finds it.

    The header of a new file is written before the write-ahead log exists, so the mark always stands in the file itself.
    """
    for setting in (SECURE_DELETE, *SYNC_ON_MACOS):
        connection.execute(setting)

    def made(connection: sqlite3.Connection) -> None:
        if not check_header(connection, store):
            for statement in ddl():
                connection.execute(statement)

    in_transaction(connection, made)


def initialise_in_memory(connection: sqlite3.Connection) -> None:
    """Make an empty database in memory a store, as a copy: the statements that make one take six times as long."""
    with _COPYING:
        _empty_store().backup(connection)
    connection.execute(SECURE_DELETE)


@cache
def _empty_store() -> sqlite3.Connection:
    connection = connect(":memory:")
    atexit.register(connection.close)
    initialise(connection, ":memory:")
    return connection


def _table(name: str) -> str:
    # SQLite keeps the text of the statement, with its comments.
    lines = [f"    {column} {kind},  -- {MEANINGS[name][column]}" for column, kind in COLUMNS[name].items()]
    key = _KEYS.get(name)
    if key is None:
        column, _, comment = lines[-1].rpartition(",  -- ")
        lines[-1] = f"{column}  -- {comment}"
    return "\n".join([f"CREATE TABLE IF NOT EXISTS {name} (", *lines, key or ")"])


def _min_reader(connection: sqlite3.Connection) -> int:
    (oldest,) = connection.execute("SELECT min_reader FROM store").fetchone()
    return oldest if isinstance(oldest, int) else FORMAT + 1
