"""The SQLite file: its tables, and a mark in the file's header that says it is ours.

The header carries an application id and the schema version, so another application's database is never touched and a
newer one never misread. What belongs to a commit stands on its first row and is NULL on the others. Positions are never
used twice, which is what AUTOINCREMENT is for.
"""

import sqlite3

from steptrail.domain.errors import NotAStore, StoreTooNew
from steptrail.infrastructure.store.core.recorder import SCHEMA_VERSION
from steptrail.infrastructure.store.sqlite.connections import SYNC_ON_MACOS

__all__ = [
    "APPLICATION_ID",
    "TABLE",
    "check_header",
    "ddl",
    "initialise",
    "named",
]

APPLICATION_ID = 0x53747054
"""`StpT` in ASCII."""

TABLE = "stored_events"
_PAGE_BYTES = 8192


def ddl(table: str = TABLE) -> list[str]:
    """Return the statements that turn an empty database, or a store of any older version, into a store.

    They may run again on one.
    """
    return [
        f"CREATE TABLE IF NOT EXISTS {table} ("
        "position INTEGER PRIMARY KEY AUTOINCREMENT, "
        "originator_id TEXT NOT NULL, "
        "originator_version INTEGER NOT NULL, "
        "topic TEXT NOT NULL, "
        "state BLOB NOT NULL, "
        "commit_id TEXT, actor TEXT, causation TEXT, segment INTEGER, key_id TEXT, "
        "previous_digest BLOB, digest BLOB, "
        "UNIQUE (originator_id, originator_version))",
        # Listing streams must not walk every event of them.
        f"CREATE INDEX IF NOT EXISTS {table}_streams ON {table} (originator_id) WHERE originator_version = 1",
        "CREATE TABLE IF NOT EXISTS blobs (digest BLOB PRIMARY KEY NOT NULL, body BLOB NOT NULL)",
        "CREATE TABLE IF NOT EXISTS snapshots ("
        "originator_id TEXT PRIMARY KEY NOT NULL, "
        "originator_version INTEGER NOT NULL, "
        "digest BLOB NOT NULL, "
        "format TEXT NOT NULL, "
        "state BLOB NOT NULL, "
        "seal BLOB NOT NULL)",
        "CREATE TABLE IF NOT EXISTS followers (name TEXT PRIMARY KEY NOT NULL, position INTEGER NOT NULL)",
        f"PRAGMA application_id = {APPLICATION_ID}",
        f"PRAGMA user_version = {SCHEMA_VERSION}",
    ]


def named(statement: str, table: str) -> str:
    """Return the statement with `@events` replaced by the name of the table, which is never a user's input."""
    return statement.replace("@events", table)


def check_header(connection: sqlite3.Connection, store: str) -> int:
    """Return the schema version of a store of ours; 0 when the database is empty.

    Raises `NotAStore` or `StoreTooNew` for anything else. Reads only.
    """
    application = _pragma(connection, "application_id")
    version = _pragma(connection, "user_version")
    if application == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            msg = f"the store {store} has schema version {version}, this Steptrail reads up to {SCHEMA_VERSION}: update"
            raise StoreTooNew(msg)
        return version
    if application or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        msg = f"{store} is a SQLite database of another application; it was left as it is"
        raise NotAStore(msg)
    return 0


def initialise(connection: sqlite3.Connection, store: str) -> None:
    """Make an empty database, or a store of an older version, a store of this one. Safe to race: the loser finds it.

    The header of a new file is written before the write-ahead log exists, so the mark always stands in the file itself.
    """
    # A step takes a little less than SQLite's usual page: with that, the rows of the next one would often begin a page
    # of their own and leave a quarter of the last one empty. A file that is there keeps its pages.
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    for setting in SYNC_ON_MACOS:
        connection.execute(setting)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if check_header(connection, store) < SCHEMA_VERSION:
            for statement in ddl():
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
