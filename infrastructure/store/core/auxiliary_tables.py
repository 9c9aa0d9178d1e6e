"""The tables beside the events of a store: blobs, snapshots and the places of followers, whatever the database."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, LiteralString, NamedTuple

from steptrail.domain.kernel.record import Snapshot
from steptrail.infrastructure.store.core.blobs import MARK, is_detached
from steptrail.infrastructure.store.core.snapshots import SnapshotRow, seal

_PAGE = 100


class AuxiliaryStatements(NamedTuple):
    """The statements of a database for these tables. Those of all have their parameters in the same order."""

    body: LiteralString
    digests: LiteralString
    states_with_blobs: LiteralString
    snapshot: LiteralString
    streams_with_snapshots: LiteralString
    keep_snapshot: LiteralString
    place: LiteralString
    keep_place: LiteralString


class AuxiliaryTables(ABC):
    """The tables beside the events. A database says how its statements are run."""

    STATEMENTS: ClassVar[AuxiliaryStatements]

    @abstractmethod
    def _rows(self, statement: LiteralString, parameters: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a question."""

    @abstractmethod
    def _write(self, statement: LiteralString, parameters: Sequence[object]) -> None:
        """Run a statement that writes."""

    def body(self, digest: bytes) -> bytes | None:
        """Return the blob of that digest, as it is stored; None when there is none."""
        rows = self._rows(self.STATEMENTS.body, (digest,))
        return rows[0][0] if rows else None

    def digests(self) -> Sequence[object]:
        """Return the digests that blobs are stored under."""
        return [row[0] for row in self._rows(self.STATEMENTS.digests)]

    def states_with_blobs(self) -> Iterator[bytes]:
        """Yield the states and the contents that refer to blobs, a page at a time."""
        after = 0
        while rows := self._rows(self.STATEMENTS.states_with_blobs, (after, *(len(MARK), MARK) * 2, _PAGE)):
            yield from (part for row in rows for part in row[1:] if is_detached(part))
            after = rows[-1][0]

    def snapshot(self, stream: str) -> SnapshotRow | None:
        """Return the snapshot of a stream as it is stored."""
        rows = self._rows(self.STATEMENTS.snapshot, (stream,))
        return SnapshotRow(*rows[0]) if rows else None

    def streams_with_snapshots(self) -> Sequence[str]:
        """Return the ids of the streams that snapshots are stored under."""
        return [str(row[0]) for row in self._rows(self.STATEMENTS.streams_with_snapshots)]

    def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        """Store a snapshot in the place of the one before. One of a stream that is erased by then is not stored."""
        head, kind, state = snapshot
        row = (stream, head.version, head.digest, kind, state, seal(stream, snapshot))
        self._write(self.STATEMENTS.keep_snapshot, (stream, *row))

    def place(self, follower: str) -> int:
        """Return the position that a follower has kept, 0 when it has kept none."""
        rows = self._rows(self.STATEMENTS.place, (follower,))
        return int(rows[0][0]) if rows else 0

    def keep_place(self, follower: str, position: int) -> None:
        """Store how far a follower has come; one that is further already stays there."""
        self._write(self.STATEMENTS.keep_place, (follower, position))
