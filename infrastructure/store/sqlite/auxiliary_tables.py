"""The tables beside the events of a SQLite store: blobs, snapshots and the places of followers."""

from collections.abc import Iterator, Sequence
from typing import Any

from steptrail.domain.kernel.record import Snapshot
from steptrail.infrastructure.store.core.blobs import CONTENT_MARK, MARK, is_detached
from steptrail.infrastructure.store.core.codec import INSTANT_WIDTH
from steptrail.infrastructure.store.core.snapshots import SnapshotRow, seal
from steptrail.infrastructure.store.sqlite.connections import Connections, fetch_all
from steptrail.infrastructure.store.sqlite.errors import translated

__all__ = ["SqliteAuxiliaryTables"]

_PAGE = 100

_SNAPSHOT = (
    "SELECT s.version, s.digest, s.format, s.state, s.seal, "
    # The digest of the commit that holds the version, unless it goes on behind it.
    "(SELECT c.digest FROM commits c JOIN streams n ON n.number = c.stream WHERE n.id = s.stream "
    "AND c.version <= s.version AND EXISTS (SELECT 1 FROM events WHERE stream = c.stream AND version = s.version) "
    "AND (EXISTS (SELECT 1 FROM commits WHERE stream = c.stream AND version = s.version + 1) "
    "OR NOT EXISTS (SELECT 1 FROM events WHERE stream = c.stream AND version = s.version + 1)) "
    "ORDER BY c.version DESC LIMIT 1) "
    "FROM snapshots s WHERE s.stream = ?"
)


class SqliteAuxiliaryTables:
    """The tables beside the table `events`."""

    def __init__(self, connections: Connections, store: str) -> None:
        self._connections, self._store = connections, store

    def body(self, digest: bytes) -> bytes | None:
        """Return the blob of that digest, as it is stored; None when there is none."""
        rows = self._rows("SELECT body FROM blobs WHERE digest = ?", (digest,))
        return rows[0][0] if rows else None

    def digests(self) -> Sequence[object]:
        """Return the digests that blobs are stored under."""
        return [row[0] for row in self._rows("SELECT digest FROM blobs ORDER BY rowid", ())]

    def states_with_blobs(self) -> Iterator[bytes]:
        """Yield the states and the contents that refer to blobs, a page at a time."""
        statement = (
            "SELECT position, state, content FROM events WHERE position > ? AND "
            "(substr(state, ?, ?) = ? AND typeof(state) = 'blob' OR substr(content, 1, ?) = ? AND "
            "typeof(content) = 'blob') ORDER BY position LIMIT ?"
        )
        after = 0
        marks = (INSTANT_WIDTH + 1, len(MARK), MARK, len(CONTENT_MARK), CONTENT_MARK)
        while rows := self._rows(statement, (after, *marks, _PAGE)):
            yield from (part for row in rows for part in row[1:] if is_detached(part))
            after = rows[-1][0]

    def snapshot(self, stream: str) -> SnapshotRow | None:
        """Return the snapshot of a stream as it is stored."""
        rows = self._rows(_SNAPSHOT, (stream,))
        return SnapshotRow(*rows[0]) if rows else None

    def streams_with_snapshots(self) -> Sequence[str]:
        """Return the ids of the streams that snapshots are stored under."""
        return [str(row[0]) for row in self._rows("SELECT stream FROM snapshots ORDER BY rowid", ())]

    def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        """Store a snapshot in the place of the one before."""
        head, kind, state = snapshot
        row = (stream, head.version, head.digest, kind, state, seal(stream, snapshot))
        # One that comes late must not bring an erased stream back.
        statement = (
            "INSERT OR REPLACE INTO snapshots SELECT ?, ?, ?, ?, ?, ? "
            "WHERE NOT EXISTS (SELECT 1 FROM streams WHERE id = ? AND status = 'erased')"
        )
        translated(lambda: self._connections.write(lambda c: c.execute(statement, (*row, stream))), self._store)

    def place(self, follower: str) -> int:
        """Return the position that a follower has kept, 0 when it has kept none."""
        statement = "SELECT position FROM followers WHERE name = ?"
        rows = self._rows(statement, (follower,))
        return int(rows[0][0]) if rows else 0

    def keep_place(self, follower: str, position: int) -> None:
        """Store how far a follower has come; one that is further already stays there."""
        statement = (
            "INSERT INTO followers VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET position = excluded.position WHERE excluded.position > position"
        )
        translated(lambda: self._connections.write(lambda c: c.execute(statement, (follower, position))), self._store)

    def _rows(self, statement: str, parameters: Sequence[str | int | bytes]) -> list[Any]:
        return translated(
            lambda: self._connections.read(lambda connection: fetch_all(connection, statement, parameters)), self._store
        )
