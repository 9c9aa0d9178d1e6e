"""The tables beside the events of a store: blobs, snapshots and the places of followers, whatever the database."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, LiteralString, NamedTuple

from steptrail.domain.kernel.record import Snapshot
from steptrail.infrastructure.store.core.blobs import MARK, is_detached
from steptrail.infrastructure.store.core.index import Dialect
from steptrail.infrastructure.store.core.snapshots import SnapshotRow, seal

_PIECE = 2_000


class AuxiliaryStatements(NamedTuple):
    """The statements that each database says its own way. Those of all have their parameters in the same order."""

    states_with_blobs: LiteralString
    snapshot: LiteralString
    keep_snapshot: LiteralString


class AuxiliaryTables(ABC):
    """The questions about the tables beside the events."""

    DIALECT: ClassVar[Dialect]
    AUXILIARY: ClassVar[AuxiliaryStatements]

    def body(self, digest: bytes) -> bytes | None:
        """Return the blob of that digest, as it is stored; None when there is none."""
        rows = self._fetch(self._sql("SELECT body FROM {schema}blobs WHERE digest = {mark}"), (digest,))
        return rows[0][0] if rows else None

    def has_bodies(self, stream: str) -> bool:
        """Tell whether an event of a stream refers to a blob."""
        one: LiteralString = (
            "SELECT 1 FROM {schema}blob_uses WHERE stream = "
            "(SELECT number FROM {schema}streams WHERE id = {mark}) LIMIT 1"
        )
        return bool(self._fetch(self._sql(one), (stream,)))

    def digests(self) -> Sequence[object]:
        """Return the digests that blobs are stored under."""
        return [row[0] for row in self._fetch(self._sql("SELECT digest FROM {schema}blobs ORDER BY digest"))]

    def states_with_blobs(self) -> Iterator[bytes]:
        """Yield the states and the contents that refer to blobs."""
        for piece in self._pieces():
            rows = self._fetch(self.AUXILIARY.states_with_blobs, (*piece, *(len(MARK), MARK) * 2))
            yield from (part for row in rows for part in row if is_detached(part))

    def snapshot(self, stream: str) -> SnapshotRow | None:
        """Return the snapshot of a stream as it is stored."""
        rows = self._fetch(self.AUXILIARY.snapshot, (stream,))
        return SnapshotRow(*rows[0]) if rows else None

    def streams_with_snapshots(self) -> Sequence[str]:
        """Return the ids of the streams that snapshots are stored under."""
        return [str(row[0]) for row in self._fetch(self._sql("SELECT stream FROM {schema}snapshots ORDER BY stream"))]

    def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        """Store a snapshot in the place of the one before. One of a stream that is erased by then is not stored."""
        head, kind, state = snapshot
        row = (stream, head.version, head.digest, kind, state, seal(stream, snapshot))
        self._run(self.AUXILIARY.keep_snapshot, (stream, *row))

    def place(self, follower: str) -> int:
        """Return the position that a follower has kept, 0 when it has kept none."""
        rows = self._fetch(self._sql("SELECT position FROM {schema}followers WHERE name = {mark}"), (follower,))
        return int(rows[0][0]) if rows else 0

    def keep_place(self, follower: str, position: int) -> None:
        """Store how far a follower has come; one that is further already stays there."""
        statement: LiteralString = (
            "INSERT INTO {schema}followers AS kept VALUES ({mark}, {mark}) ON CONFLICT (name) "
            "DO UPDATE SET position = excluded.position WHERE excluded.position > kept.position"
        )
        self._run(self._sql(statement), (follower, position))

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yield pieces of the log, each as the positions that it lies behind and ends with.

        A server has half a minute for a question, so none is about the whole log.
        """
        after: int = 0
        end: LiteralString = (
            "SELECT max(position) FROM "
            "(SELECT position FROM {schema}events WHERE position > {mark} ORDER BY position LIMIT {mark}) piece"
        )
        while (upto := self._fetch(self._sql(end), (after, _PIECE))[0][0]) is not None:
            yield after, upto
            after = upto

    def _sql(self, statement: LiteralString) -> LiteralString:
        """Return a statement in the words of the database."""
        return statement.format(schema=self.DIALECT.schema, mark=self.DIALECT.mark)

    @abstractmethod
    def _fetch(self, statement: LiteralString, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a statement."""

    @abstractmethod
    def _run(self, statement: LiteralString, parameters: Sequence[Any]) -> None:
        """Run a statement that writes."""
