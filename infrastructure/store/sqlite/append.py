"""How commits enter the tables: each after the version the writer saw, and never twice.

A stream only grows, so an expected head that was once the newest stays a fact: if it is the one we saw last, the key of
the commits alone tells a conflict, and else one query does. What stands in the place of a commit decides what a
conflict means: our own commit id there is a success whose reply was lost.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TypeVar

from msgspec import Struct
from msgspec.json import encode

from steptrail.domain.errors import (
    AppendOutcomeUnknown,
    ConcurrencyConflict,
    CorruptRecord,
    StoreError,
    StoreFull,
    StoreSetBack,
    StoreUnavailable,
)
from steptrail.domain.kernel.record import EMPTY_STREAM, CommitHead, StreamHead
from steptrail.domain.newest import Newest
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.core.blobs import Encoded
from steptrail.infrastructure.store.core.digest import commit_digest
from steptrail.infrastructure.store.core.index import COLUMNS, WAIT_COLUMNS, columns, waits
from steptrail.infrastructure.store.core.recorder import PendingCommit
from steptrail.infrastructure.store.sqlite.connections import Connections, Work, fetch_all, in_transaction
from steptrail.infrastructure.store.sqlite.errors import HeldUp, largest_file, primary_code, translate
from steptrail.infrastructure.store.sqlite.events_of_stream import LAST_VERSION, NEWEST_VERSION, OF_STREAM

_IS_ERASED = "SELECT 1 FROM streams WHERE id = ? AND status = 'erased'"

# 6 parameters a row stay below 999, the smallest limit SQLite is built with.
_ROWS_PER_STATEMENT = 160
_REMEMBERED = 10_000
_SURELY_UNDONE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}

_INSERT_COMMIT = "INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# What is there is left alone, unless it is damaged: then this is its repair.
_INSERT_BLOB = (
    "INSERT INTO blobs (digest, body) VALUES (?, ?) "
    "ON CONFLICT (digest) DO UPDATE SET body = excluded.body WHERE body IS NOT excluded.body"
)
_INSERT_USE = "INSERT OR IGNORE INTO blob_uses VALUES (?, ?)"
_LIST = f"UPDATE streams SET {', '.join(f'{column} = ?' for column in COLUMNS)}, damage = NULL WHERE number = ?"  # noqa: S608
_WAITS = f"SELECT {', '.join(WAIT_COLUMNS)} FROM waits WHERE stream = ?"  # noqa: S608
_DROP_WAITS = "DELETE FROM waits WHERE stream = ? AND id NOT IN (SELECT value FROM json_each(?))"
_LIST_WAIT = f"INSERT INTO waits VALUES (?, {', '.join('?' * len(WAIT_COLUMNS))})"  # noqa: S608
_HEAD = (
    f"SELECT ({NEWEST_VERSION}), (SELECT digest FROM commits WHERE {OF_STREAM} AND version <= ? "  # noqa: S608 - ours
    "ORDER BY version DESC LIMIT 1)"
)

T = TypeVar("T")


class _Seen(Struct, frozen=True):
    """The end of a stream after a commit of ours, the number of the stream, and the end of the log."""

    head: StreamHead
    number: int | None
    position: int


_NOTHING_SEEN = _Seen(StreamHead(-1, b""), None, 0)
_Written = list[_Seen | StreamHead | StoreError]
_Write = Callable[[Work[_Written]], _Written]


class CommitWriter:
    """Appends commits. One commit that conflicts does not keep the others of its transaction out."""

    def __init__(self, connections: Connections, store: str) -> None:
        self._connections, self._store = connections, store
        self._forget()

    def _forget(self) -> None:
        self._seen = Newest[str, _Seen](_REMEMBERED)
        self._types: dict[str, int] = {}
        self._end = 0
        """Where the log ended after a commit of ours, at least."""

    def append(self, commits: Sequence[PendingCommit], *, as_one: bool = False) -> list[StreamHead | StoreError]:
        """Store each commit or say why not; see `Recorder.append`."""
        return self._append(commits, self._connections.write, as_one=as_one)

    def append_at_once(self, commit: PendingCommit) -> StreamHead | StoreError | None:
        """Store a commit or say why not; None, with nothing stored, when that would have to wait for somebody."""
        try:
            return self._append([commit], self._connections.write_at_once, as_one=True)[0]
        except HeldUp:
            return None

    def _append(
        self, commits: Sequence[PendingCommit], write: _Write, *, as_one: bool
    ) -> list[StreamHead | StoreError]:
        types: dict[str, int] = {}

        def written(connection: sqlite3.Connection) -> _Written:
            nonlocal types
            types = self._types.copy()
            return [self._write_one(connection, commit, types) for commit in commits]

        try:
            outcomes = write(partial(in_transaction, work=written))
        except sqlite3.Error as error:
            return self._after(error, commits, as_one=as_one)
        except StoreError as error:
            if isinstance(error, StoreSetBack):
                self._forget()
            return [error for _ in commits]
        # Only now are the numbers that were given in the transaction sure to stay.
        self._types = types
        for commit, outcome in zip(commits, outcomes, strict=True):
            if isinstance(outcome, _Seen):
                self._seen.keep(commit.stream, outcome)
                self._end = outcome.position
        return [outcome.head if isinstance(outcome, _Seen) else outcome for outcome in outcomes]

    def _write_one(
        self, connection: sqlite3.Connection, commit: PendingCommit, types: dict[str, int]
    ) -> "_Seen | StreamHead | StoreError":
        try:
            return self._insert(connection, commit, types)
        except CorruptRecord as error:
            # One damaged stream keeps nobody else of the group out.
            return error

    def _insert(
        self, connection: sqlite3.Connection, commit: PendingCommit, types: dict[str, int]
    ) -> "_Seen | StreamHead | ConcurrencyConflict":
        expected, seen = commit.expected, self._seen.get(commit.stream, _NOTHING_SEEN)
        if seen.head != expected:
            seen = _NOTHING_SEEN
            if newest_head(connection, commit.stream) != expected:
                return _what_stands(connection, commit)
        if (base := commit.base) is not None and connection.execute(_IS_ERASED, (base,)).fetchone() is not None:
            return ConcurrencyConflict(commit.stream, expected.version, expected.version)
        try:
            digest, last, number = insert_commit(
                connection, commit.stream, commit.head, expected.digest, commit.rows, types, seen.number
            )
        except sqlite3.IntegrityError:
            return _what_stands(connection, commit)
        if last - len(commit.rows) < self._end:
            # The file was restored in place: the numbers that we know of streams and types are those of others there.
            raise StoreSetBack(f"the log of {self._store}", self._end)
        if commit.blobs:
            # Behind the events: a commit that conflicts leaves nothing that nobody refers to.
            connection.executemany(_INSERT_BLOB, commit.blobs)
            connection.executemany(_INSERT_USE, [(blob.digest, number) for blob in commit.blobs])
        if commit.summary is not None:
            list_stream(connection, number, commit.summary)
        return _Seen(StreamHead(commit.rows[-1][0], digest), number, last)

    def _after(
        self, error: sqlite3.Error, commits: Sequence[PendingCommit], *, as_one: bool
    ) -> list[StreamHead | StoreError]:
        reason = translate(error, self._store)
        if isinstance(reason, StoreFull) and len(commits) > 1 and not as_one:
            # What the group could not find room for, a small commit of it may.
            return [outcome for commit in commits for outcome in self.append([commit])]
        if primary_code(error) in _SURELY_UNDONE:
            return [translate(error, self._store) for _ in commits]
        return [self._found_or_unknown(commit, error) for commit in commits]

    def _found_or_unknown(self, commit: PendingCommit, error: sqlite3.Error) -> StreamHead | StoreError:
        try:
            standing = self._connections.read(lambda connection: _what_stands(connection, commit))
        except (sqlite3.Error, CorruptRecord, StoreUnavailable):
            standing = None
        if isinstance(standing, StreamHead):
            return standing
        most = largest_file(error)
        beyond = "" if most is None else f"; a file may have {most:,} bytes at most, see `ulimit -f`"
        unknown = AppendOutcomeUnknown(
            f"a write to stream {commit.stream!r} of {self._store} failed ({error}{beyond}) and may or may not have "
            "happened: read the stream before trying again"
        )
        unknown.__cause__ = error
        return unknown


def newest_head(connection: sqlite3.Connection, stream: str, upto: int = LAST_VERSION) -> StreamHead:
    """Return the version of the newest event up to `upto` and the digest of its commit, as of one instant.

    Raises `CorruptRecord` when the digest is none.
    """
    ((version, digest),) = fetch_all(connection, _HEAD, (stream, upto, upto, stream, upto))
    return EMPTY_STREAM if version is None else StreamHead(version, checked_digest(stream, version, digest))


def checked_digest(stream: str, version: int, digest: object) -> bytes:
    """Return the digest of the commit that event `version` belongs to. Raises `CorruptRecord` when it is none."""
    if digest is None or isinstance(digest, bytes):
        return digest or b""
    raise CorruptRecord(stream, version, "unknown", f"the digest of its commit is {type(digest).__name__}, not bytes")


def insert_commit(
    connection: sqlite3.Connection,
    stream: str,
    head: CommitHead,
    previous: bytes,
    rows: Sequence[Encoded],
    types: dict[str, int],
    number: int | None = None,
) -> tuple[bytes, int, int]:
    """Insert a commit and its events.

    Returns its digest, its last position and the number of its stream. `types` holds the numbers of types that are
    known, and gets those that are not. `number` is that of the stream; None when it is not known. For a transaction
    that holds the write lock. Raises `sqlite3.IntegrityError` and leaves no row of the commit behind when a version is
    taken.
    """
    digest = commit_digest(previous, stream, head, rows)
    if number is None:
        number = _number(connection, "streams", "id", stream)
    first, before, last = rows[0][0], None, 0
    try:
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            values: list[object] = []
            for version, topic, at, state, content in rows[start : start + _ROWS_PER_STATEMENT]:
                if topic not in types:
                    types[topic] = _number(connection, "types", "name", topic)
                values += (number, version, types[topic], at, state, content)
            # SQLite gives each event the position after the last one, so the log need not be asked where it ends.
            last = connection.execute(_insert_events(len(values) // 6), values).lastrowid or 0
            before = last - len(values) // 6 if before is None else before
        position = (before or 0) + 1
        said = (head.commit_id, head.actor, head.causation, head.segment, head.key_id, digest)
        connection.execute(_INSERT_COMMIT, (number, first, position, len(rows), *said))
    except sqlite3.IntegrityError:
        if before is not None:
            connection.execute("DELETE FROM events WHERE position > ?", (before,))
        raise
    return digest, last, number


def list_stream(connection: sqlite3.Connection, number: int, row: RunSummary) -> None:
    """Replace the row of a stream in the index, and those of its waits that differ: a run may have thousands."""
    connection.execute(_LIST, (*columns(row), number))
    known, listed = fetch_all(connection, _WAITS, (number,)), set(waits(row))
    kept = listed.intersection(known)
    if len(kept) < len(known):
        connection.execute(_DROP_WAITS, (number, encode([each[0] for each in kept]).decode()))
    connection.executemany(_LIST_WAIT, [(number, *wait) for wait in listed - kept])


def _what_stands(connection: sqlite3.Connection, commit: PendingCommit) -> StreamHead | ConcurrencyConflict:
    first = commit.expected.version + 1
    standing = connection.execute(
        f"SELECT commit_id, digest FROM commits WHERE {OF_STREAM} AND version = ?",  # noqa: S608 - a text of ours
        (commit.stream, first),
    ).fetchone()
    newest = newest_head(connection, commit.stream)
    if standing is not None and newest.version < first:
        raise CorruptRecord(commit.stream, first, "unknown", "it is missing, and its commit is there")
    if standing is None or standing[0] != commit.head.commit_id:
        return ConcurrencyConflict(commit.stream, commit.expected.version, newest.version)
    following = connection.execute(
        f"SELECT min(version) FROM commits WHERE {OF_STREAM} AND version > ?",  # noqa: S608 - a text of ours
        (commit.stream, first),
    ).fetchone()[0]
    return StreamHead(newest.version if following is None else following - 1, standing[1])


def _number(connection: sqlite3.Connection, table: str, column: str, name: str) -> int:
    found = connection.execute(f"SELECT number FROM {table} WHERE {column} = ?", (name,)).fetchone()  # noqa: S608
    if found is not None:
        number: int = found[0]
        return number
    return connection.execute(f"INSERT INTO {table} ({column}) VALUES (?)", (name,)).lastrowid or 0  # noqa: S608


@lru_cache(maxsize=256)
def _insert_events(rows: int) -> str:
    return "INSERT INTO events VALUES " + ",".join(["(NULL,?,?,?,?,?,?)"] * rows)  # noqa: S608
