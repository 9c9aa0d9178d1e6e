"""Erases streams from a SQLite file, and then their bytes.

The event that takes the place of a stream is written before the others are deleted: SQLite gives out the position after
the largest one, and that must not fall. What is deleted is overwritten with zeros (`secure_delete`). SQLite may have
moved a row before, when it merged pages, and left a copy in a part of a page that is not in use; only `VACUUM` is sure
to remove that one.
"""

import json
import sqlite3
import time
from collections.abc import Mapping
from uuid import uuid4

from steptrail.domain.errors import ConcurrencyConflict
from steptrail.domain.kernel.erasure import Erased, Erasure
from steptrail.domain.kernel.record import CommitHead
from steptrail.infrastructure.store.core.contents import encoded_parts
from steptrail.infrastructure.store.core.index import FORGOTTEN
from steptrail.infrastructure.store.sqlite.append import insert_commit
from steptrail.infrastructure.store.sqlite.connections import Connections, fetch_all
from steptrail.infrastructure.store.sqlite.errors import primary_code
from steptrail.infrastructure.store.sqlite.events_of_stream import EVENTS_OF_COMMITS, LAST_VERSION, NEWEST_VERSION

_QUICKLY = 64 * 1024 * 1024
"""Bytes of a file that `VACUUM` writes anew in about a second, while nobody else can write."""
_LOOKS, _REST_SECONDS = 20, 0.05
_NOT_NOW = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
}
"""Why a file cannot be cleaned now: somebody is at it, or it may not grow. What was erased is erased all the same."""

_SHARED = (
    "SELECT id FROM streams WHERE version IS NOT NULL AND (parent = ? OR fork_of = ?) "
    "AND id NOT IN (SELECT value FROM json_each(?)) LIMIT 1"
)
_EVENTS = (
    f"DELETE FROM events WHERE position IN (SELECT e.position FROM {EVENTS_OF_COMMITS} "  # noqa: S608 - a text of ours
    "WHERE c.stream = ? AND c.version <= ?)"
)
_STRAYS = (
    "DELETE FROM events WHERE stream IN (SELECT stream FROM erasures) "
    "AND position NOT IN (SELECT position FROM erasures)"
)
"""Events of a damaged stream that no commit led to when it was erased. The whole table is gone through for them."""
_BLOBS = (
    "DELETE FROM blobs WHERE digest IN (SELECT digest FROM blob_uses WHERE stream = ?) AND NOT EXISTS "
    "(SELECT 1 FROM blob_uses WHERE digest = blobs.digest AND stream <> ?)"
)


def erase_streams(
    connection: sqlite3.Connection, streams: Mapping[str, int], at: int, by: str, reason: str
) -> list[Erasure]:
    """Erase streams that end at these versions. For a transaction. Raises `ConcurrencyConflict`."""
    erased = [_erase(connection, stream, version, at, by, reason) for stream, version in streams.items()]
    among = json.dumps(list(streams))
    for stream, version in streams.items():
        if connection.execute(_SHARED, (stream, stream, among)).fetchone() is not None:
            raise ConcurrencyConflict(stream, version, version)
    return erased


def _erase(connection: sqlite3.Connection, stream: str, version: int, at: int, by: str, reason: str) -> Erasure:
    def run(statement: str, *values: object) -> None:
        connection.execute(statement, values)

    found = fetch_all(
        connection,
        f"SELECT s.number, ({NEWEST_VERSION}), "  # noqa: S608 - a text of ours
        f"(SELECT count(*) FROM {EVENTS_OF_COMMITS} WHERE c.stream = s.number), "
        "(SELECT digest FROM commits WHERE stream = s.number AND version <= ? ORDER BY version DESC LIMIT 1) "
        "FROM streams s WHERE id = ? AND status IS NOT 'erased'",
        (stream, LAST_VERSION, LAST_VERSION, LAST_VERSION, stream),
    )
    number, newest, events, digest = found[0] if found else (None, None, 0, None)
    if newest != version:
        raise ConcurrencyConflict(stream, version, newest or 0)
    last = digest if isinstance(digest, bytes) else b""
    head = CommitHead(commit_id=uuid4().hex, actor=by)
    row = (version + 1, Erased.TYPE, at, *encoded_parts(Erased()))
    _, position, _ = insert_commit(connection, stream, head, last, [row], {}, number)
    run(_EVENTS, number, version)
    run("DELETE FROM commits WHERE stream = ? AND version <> ?", number, version + 1)
    run(_BLOBS, number, number)
    run("DELETE FROM blob_uses WHERE stream = ?", number)
    run("DELETE FROM snapshots WHERE stream = ?", stream)
    run("DELETE FROM waits WHERE stream = ?", number)
    forget = f"UPDATE streams SET {FORGOTTEN}, damage = NULL, status = 'erased', updated_at = ? WHERE number = ?"  # noqa: S608
    run(forget, at, number)
    run("INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?)", number, position, at, by, reason, events, last)
    return Erasure(stream=stream, position=position, at=at, by=by, reason=reason, events=events, digest=last.hex())


def scrubbed(connections: Connections, store: str, *, thoroughly: bool) -> str | None:
    """Write the file anew, if it is small or if asked to, and empty its log; return where bytes may remain, and why."""
    left: list[str] = []

    def vacuumed(connection: sqlite3.Connection) -> None:
        (pages,), (size,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
        if thoroughly or pages * size <= _QUICKLY:
            connection.execute(_STRAYS)
            connection.execute("VACUUM")
        else:
            left.append(f"copies of single rows may lie in parts of {store} that are not in use")

    def emptied(connection: sqlite3.Connection) -> bool:
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy

    try:
        connections.write(vacuumed)
    except sqlite3.OperationalError as error:
        if primary_code(error) not in _NOT_NOW:
            raise
        left.append(f"copies of single rows may lie in parts of {store} that are not in use ({error})")
    try:
        for _ in range(_LOOKS):
            if connections.write(emptied):
                break
            time.sleep(_REST_SECONDS)
        else:
            left.append(f"the log {store}-wal still holds them, as something has read it for a long time: end that")
    except sqlite3.OperationalError as error:
        if primary_code(error) not in _NOT_NOW:
            raise
        left.append(f"the log {store}-wal still holds them ({error})")
    return f"{'; '.join(left)}; `steptrail erase --finish` removes them" if left else None
