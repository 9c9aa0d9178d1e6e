"""The tables beside the events of a PostgreSQL store: blobs, snapshots and the places of followers."""

from collections.abc import Iterator, Sequence
from typing import Any, LiteralString

from steptrail.domain.errors import StoreReadOnly
from steptrail.domain.kernel.record import Snapshot
from steptrail.infrastructure.store.core.blobs import CONTENT_MARK, MARK, is_detached
from steptrail.infrastructure.store.core.codec import INSTANT_WIDTH
from steptrail.infrastructure.store.core.snapshots import SnapshotRow, seal
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import ServerFailure, fetch_all
from steptrail.infrastructure.store.postgres.errors import translate

__all__ = ["PostgresAuxiliaryTables"]

_PAGE = 100

_SNAPSHOT: LiteralString = (
    "SELECT s.version, s.digest, s.format, s.state, s.seal, "
    # The digest of the commit that holds the version, unless it goes on behind it.
    "(SELECT c.digest FROM steptrail.commits c JOIN steptrail.streams n ON n.number = c.stream WHERE n.id = s.stream "
    "AND c.version <= s.version "
    "AND EXISTS (SELECT 1 FROM steptrail.events WHERE stream = c.stream AND version = s.version) "
    "AND (EXISTS (SELECT 1 FROM steptrail.commits WHERE stream = c.stream AND version = s.version + 1) "
    "OR NOT EXISTS (SELECT 1 FROM steptrail.events WHERE stream = c.stream AND version = s.version + 1)) "
    "ORDER BY c.version DESC LIMIT 1) "
    "FROM steptrail.snapshots s WHERE s.stream = %s"
)
_KEEP: LiteralString = (
    # One that comes late must not bring an erased stream back: it waits for an erasure that is on its way.
    "WITH there AS (SELECT status FROM steptrail.streams WHERE id = %s FOR SHARE) "
    "INSERT INTO steptrail.snapshots (stream, version, digest, format, state, seal) "
    "SELECT %s, %s::bigint, %s::bytea, %s, %s::bytea, %s::bytea "
    "WHERE NOT EXISTS (SELECT 1 FROM there WHERE status = 'erased') "
    "ON CONFLICT (stream) DO UPDATE SET version = excluded.version, "
    "digest = excluded.digest, format = excluded.format, state = excluded.state, seal = excluded.seal"
)


class PostgresAuxiliaryTables:
    """The tables beside the table `steptrail.events`."""

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections

    def body(self, digest: bytes) -> bytes | None:
        """Return the blob of that digest, as it is stored; None when there is none."""
        rows = self._rows("SELECT body FROM steptrail.blobs WHERE digest = %s", (digest,))
        return rows[0][0] if rows else None

    def digests(self) -> Sequence[object]:
        """Return the digests that blobs are stored under."""
        return [row[0] for row in self._rows("SELECT digest FROM steptrail.blobs ORDER BY digest")]

    def states_with_blobs(self) -> Iterator[bytes]:
        """Yield the states and the contents that refer to blobs, a page at a time."""
        statement: LiteralString = (
            "SELECT position, state, content FROM steptrail.events WHERE position > %s::bigint "
            "AND (substring(state FROM %s::integer FOR %s::integer) = %s "
            "OR substring(content FROM 1 FOR %s::integer) = %s) ORDER BY position LIMIT %s::bigint"
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
        return [row[0] for row in self._rows("SELECT stream FROM steptrail.snapshots ORDER BY stream")]

    def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        """Store a snapshot in the place of the one before."""
        head, kind, state = snapshot
        self._write(_KEEP, (stream, stream, head.version, head.digest, kind, state, seal(stream, snapshot)))

    def place(self, follower: str) -> int:
        """Return the position that a follower has kept, 0 when it has kept none."""
        statement: LiteralString = "SELECT position FROM steptrail.followers WHERE name = %s"
        rows = self._rows(statement, (follower,))
        return rows[0][0] if rows else 0

    def keep_place(self, follower: str, position: int) -> None:
        """Store how far a follower has come; one that is further already stays there."""
        statement: LiteralString = (
            "INSERT INTO steptrail.followers AS kept VALUES (%s, %s) "
            "ON CONFLICT (name) DO UPDATE SET position = excluded.position WHERE excluded.position > kept.position"
        )
        self._write(statement, (follower, position))

    def _write(self, statement: LiteralString, row: Sequence[object]) -> None:
        name = self._connections.address.name
        if self._connections.is_read_only:
            raise StoreReadOnly(f"the store {name} was opened for reading only")
        try:
            self._connections.write(lambda connection: connection.execute(statement, row))
        except ServerFailure as failure:
            raise translate(failure, name, is_writing=not failure.is_lost) from failure

    def _rows(self, statement: LiteralString, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._connections.read(lambda connection: fetch_all(connection, statement, parameters))
