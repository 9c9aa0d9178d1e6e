"""The tables beside the events of a store: blobs, snapshots and the places of followers, whatever the database."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, LiteralString, NamedTuple

from steptrail.domain.kernel.record import Snapshot
from steptrail.infrastructure.store.core.blobs import MARK, is_detached
from steptrail.infrastructure.store.core.index import Dialect
from steptrail.infrastructure.store.core.snapshots import SnapshotRow, seal

_PAGE = 100


class AuxiliaryStatements(NamedTuple):
    """The statements that each database says its own way. Those of all have their parameters in the same order."""

    states_with_blobs: LiteralString
    snapshot: LiteralString
    keep_snapshot: LiteralString


class AuxiliaryTables:
    """The tables beside the events. `fetch` returns the rows of a statement, and `run` runs one that writes."""

    def __init__(
        self,
        dialect: Dialect,
        statements: AuxiliaryStatements,
        fetch: Callable[[LiteralString, Sequence[Any]], list[Any]],
        run: Callable[[LiteralString, Sequence[Any]], None],
    ) -> None:
        self._schema: LiteralString = dialect.schema
        self._mark: LiteralString = dialect.mark
        self._statements, self._fetch, self._run = statements, fetch, run

    def body(self, digest: bytes) -> bytes | None:
        """Return the blob of that digest, as it is stored; None when there is none."""
        rows = self._fetch(f"SELECT body FROM {self._schema}blobs WHERE digest = {self._mark}", (digest,))  # noqa: S608 - ours
        return rows[0][0] if rows else None

    def digests(self) -> Sequence[object]:
        """Return the digests that blobs are stored under."""
        found = self._fetch(f"SELECT digest FROM {self._schema}blobs ORDER BY digest", ())  # noqa: S608 - ours
        return [row[0] for row in found]

    def states_with_blobs(self) -> Iterator[bytes]:
        """Yield the states and the contents that refer to blobs, a page at a time."""
        after = 0
        while rows := self._fetch(self._statements.states_with_blobs, (after, *(len(MARK), MARK) * 2, _PAGE)):
            yield from (part for row in rows for part in row[1:] if is_detached(part))
            after = rows[-1][0]

    def snapshot(self, stream: str) -> SnapshotRow | None:
        """Return the snapshot of a stream as it is stored."""
        rows = self._fetch(self._statements.snapshot, (stream,))
        return SnapshotRow(*rows[0]) if rows else None

    def streams_with_snapshots(self) -> Sequence[str]:
        """Return the ids of the streams that snapshots are stored under."""
        found = self._fetch(f"SELECT stream FROM {self._schema}snapshots ORDER BY stream", ())  # noqa: S608 - ours
        return [str(row[0]) for row in found]

    def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        """Store a snapshot in the place of the one before. One of a stream that is erased by then is not stored."""
        head, kind, state = snapshot
        row = (stream, head.version, head.digest, kind, state, seal(stream, snapshot))
        self._run(self._statements.keep_snapshot, (stream, *row))

    def place(self, follower: str) -> int:
        """Return the position that a follower has kept, 0 when it has kept none."""
        rows = self._fetch(f"SELECT position FROM {self._schema}followers WHERE name = {self._mark}", (follower,))  # noqa: S608
        return int(rows[0][0]) if rows else 0

    def keep_place(self, follower: str, position: int) -> None:
        """Store how far a follower has come; one that is further already stays there."""
        self._run(
            f"INSERT INTO {self._schema}followers AS kept VALUES ({self._mark}, {self._mark}) ON CONFLICT (name) "  # noqa: S608
            "DO UPDATE SET position = excluded.position WHERE excluded.position > kept.position",
            (follower, position),
        )
