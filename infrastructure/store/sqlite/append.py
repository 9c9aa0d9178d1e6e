"""How commits enter the table: one statement each, after the version the writer saw, and never twice.

A stream only grows, so an expected head that was once the newest stays a fact: if it is the one we saw last, the UNIQUE
key alone tells a conflict, and else one query does. What stands in the place of a commit decides what a conflict means:
our own commit id there is a success whose reply was lost.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from steptrail.domain.errors import (
    AppendOutcomeUnknown,
    ConcurrencyConflict,
    CorruptRecord,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from steptrail.domain.kernel.record import EMPTY_STREAM, CommitHead, StreamHead
from steptrail.infrastructure.store.core.digest import commit_digest
from steptrail.infrastructure.store.core.recorder import PendingCommit
from steptrail.infrastructure.store.sqlite.connections import Connections
from steptrail.infrastructure.store.sqlite.errors import primary_code, translate
from steptrail.infrastructure.store.sqlite.schema import named

__all__ = [
    "LAST_VERSION",
    "CommitWriter",
    "checked_digest",
    "in_transaction",
    "insert_commit",
    "newest_head",
]

LAST_VERSION = 2**63 - 1
"""Above every number and below every text: a hand may have written one where a version stands."""

# 4 parameters a row and 7 for the first stay below 999, the smallest limit SQLite is built with.
_ROWS_PER_STATEMENT = 240
_REMEMBERED = 10_000
_SURELY_UNDONE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}

# What is there is left alone, unless it is damaged: then this is its repair.
_INSERT_BLOB = (
    "INSERT INTO blobs (digest, body) VALUES (?, ?) "
    "ON CONFLICT (digest) DO UPDATE SET body = excluded.body WHERE body IS NOT excluded.body"
)

T = TypeVar("T")


class CommitWriter:
    """Appends commits. One commit that conflicts does not keep the others of its transaction out."""

    def __init__(self, connections: Connections, table: str, store: str) -> None:
        self._connections, self._table, self._store = connections, table, store
        self._seen: dict[str, StreamHead] = {}

    def append(self, commits: Sequence[PendingCommit]) -> list[StreamHead | StoreError]:
        """Store each commit or say why not, in the order given; all that are stored share one transaction."""
        try:
            outcomes = self._connections.write(lambda connection: self._write(connection, commits))
        except sqlite3.Error as error:
            return self._after(error, commits)
        except StoreError as error:
            return [error for _ in commits]
        for commit, outcome in zip(commits, outcomes, strict=True):
            if isinstance(outcome, StreamHead):
                self._remember(commit.stream, outcome)
        return list(outcomes)

    def _write(self, connection: sqlite3.Connection, commits: Sequence[PendingCommit]) -> list[StreamHead | StoreError]:
        if len(commits) == 1 and len(commits[0].states) <= _ROWS_PER_STATEMENT and not commits[0].blobs:
            return [self._write_one(connection, commits[0])]
        return in_transaction(connection, lambda: [self._write_one(connection, commit) for commit in commits])

    def _write_one(self, connection: sqlite3.Connection, commit: PendingCommit) -> StreamHead | StoreError:
        try:
            return self._insert(connection, commit)
        except CorruptRecord as error:
            # One damaged stream keeps nobody else of the group out.
            return error

    def _insert(self, connection: sqlite3.Connection, commit: PendingCommit) -> StreamHead | ConcurrencyConflict:
        expected = commit.expected
        if (
            self._seen.get(commit.stream) != expected
            and newest_head(connection, self._table, commit.stream) != expected
        ):
            return self._what_stands(connection, commit)
        rows = [(expected.version + i, *typed) for i, typed in enumerate(commit.states, 1)]
        try:
            digest, _ = insert_commit(connection, self._table, commit.stream, commit.head, expected.digest, rows)
        except sqlite3.IntegrityError:
            return self._what_stands(connection, commit)
        if commit.blobs:
            # Behind the events: a commit that conflicts leaves nothing that nobody refers to.
            connection.executemany(_INSERT_BLOB, commit.blobs)
        return StreamHead(rows[-1][0], digest)

    def _what_stands(self, connection: sqlite3.Connection, commit: PendingCommit) -> StreamHead | ConcurrencyConflict:
        key = (commit.stream, commit.expected.version + 1)
        row = connection.execute(
            named(
                "SELECT commit_id, digest FROM @events WHERE originator_id = ? AND originator_version = ?", self._table
            ),
            key,
        ).fetchone()
        newest = newest_head(connection, self._table, commit.stream)
        if row is None or row[0] != commit.head.commit_id:
            return ConcurrencyConflict(commit.stream, commit.expected.version, newest.version)
        following = connection.execute(
            named(
                "SELECT MIN(originator_version) FROM @events "
                "WHERE originator_id = ? AND originator_version > ? AND commit_id IS NOT NULL",
                self._table,
            ),
            key,
        ).fetchone()[0]
        return StreamHead(newest.version if following is None else following - 1, row[1])

    def _after(self, error: sqlite3.Error, commits: Sequence[PendingCommit]) -> list[StreamHead | StoreError]:
        reason = translate(error, self._store)
        if isinstance(reason, StoreFull) and len(commits) > 1:
            # What the group could not find room for, a small commit of it may.
            return [outcome for commit in commits for outcome in self.append([commit])]
        if primary_code(error) in _SURELY_UNDONE:
            return [translate(error, self._store) for _ in commits]
        return [self._found_or_unknown(commit, error) for commit in commits]

    def _found_or_unknown(self, commit: PendingCommit, error: sqlite3.Error) -> StreamHead | StoreError:
        try:
            standing = self._connections.read(lambda connection: self._what_stands(connection, commit))
        except (sqlite3.Error, CorruptRecord, StoreUnavailable):
            standing = None
        if isinstance(standing, StreamHead):
            return standing
        unknown = AppendOutcomeUnknown(
            f"a write to stream {commit.stream!r} of {self._store} failed ({error}) and may or may not have happened: "
            "read the stream before trying again"
        )
        unknown.__cause__ = error
        return unknown

    def _remember(self, stream: str, head: StreamHead) -> None:
        self._seen.pop(stream, None)
        self._seen[stream] = head
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]


def in_transaction(connection: sqlite3.Connection, work: Callable[[], T]) -> T:
    """Return `work()` with all it writes stored together; an exception undoes all of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def newest_head(connection: sqlite3.Connection, table: str, stream: str, upto: int = LAST_VERSION) -> StreamHead:
    """Return the version of the newest event up to `upto` and the digest of its commit, as of one instant.

    Raises `CorruptRecord` when the digest is none.
    """
    statement = (
        "SELECT (SELECT MAX(originator_version) FROM @events WHERE originator_id = ? AND originator_version <= ?), "
        "(SELECT digest FROM @events WHERE originator_id = ? AND originator_version <= ? AND commit_id IS NOT NULL "
        "ORDER BY originator_version DESC LIMIT 1)"
    )
    version, digest = connection.execute(named(statement, table), (stream, upto) * 2).fetchone()
    return EMPTY_STREAM if version is None else StreamHead(version, checked_digest(stream, version, digest))


def checked_digest(stream: str, version: int, digest: object) -> bytes:
    """Return the digest of the commit that event `version` belongs to. Raises `CorruptRecord` when it is none."""
    if digest is None or isinstance(digest, bytes):
        return digest or b""
    raise CorruptRecord(stream, version, "unknown", f"the digest of its commit is {type(digest).__name__}, not bytes")


def insert_commit(
    connection: sqlite3.Connection,
    table: str,
    stream: str,
    head: CommitHead,
    previous: bytes,
    rows: Sequence[tuple[int, str, bytes]],
) -> tuple[bytes, int]:
    """Insert the (version, type, state) rows of one commit; return its digest and its last position.

    More rows than one statement holds need a transaction around them. Raises `sqlite3.IntegrityError` and leaves no row
    behind when a version is taken.
    """
    digest = commit_digest(previous, stream, head, rows)
    values: list[object] = [stream, *rows[0], head.commit_id, head.actor, head.causation]
    values += [head.segment, head.key_id, previous, digest]
    for row in rows[1:_ROWS_PER_STATEMENT]:
        values.append(stream)
        values += row
    if len(rows) <= _ROWS_PER_STATEMENT:
        return digest, _insert(connection, table, len(rows), values, first=True)
    connection.execute("SAVEPOINT steptrail_commit")
    try:
        position = _insert(connection, table, _ROWS_PER_STATEMENT, values, first=True)
        for start in range(_ROWS_PER_STATEMENT, len(rows), _ROWS_PER_STATEMENT):
            chunk = rows[start : start + _ROWS_PER_STATEMENT]
            more = [value for row in chunk for value in (stream, *row)]
            position = _insert(connection, table, len(chunk), more, first=False)
    except sqlite3.IntegrityError:
        connection.execute("ROLLBACK TO steptrail_commit")
        connection.execute("RELEASE steptrail_commit")
        raise
    connection.execute("RELEASE steptrail_commit")
    return digest, position


def _insert(connection: sqlite3.Connection, table: str, rows: int, values: Sequence[object], *, first: bool) -> int:
    position = connection.execute(_statement(table, rows, first), values).lastrowid
    return position or 0


@lru_cache(maxsize=512)
def _statement(table: str, rows: int, first: bool) -> str:
    plain = ["(?,?,?,?,NULL,NULL,NULL,NULL,NULL,NULL,NULL)"] * rows
    if first:
        plain[0] = "(?,?,?,?,?,?,?,?,?,?,?)"
    head = (
        "INSERT INTO @events (originator_id, originator_version, topic, state, "
        "commit_id, actor, causation, segment, key_id, previous_digest, digest) VALUES "
    )
    return named(head, table) + ",".join(plain)
