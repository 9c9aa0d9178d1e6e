"""What the event store asks of a database: rows in, rows out, blocking; and the shapes of those rows.

Every database keeps the same columns. What belongs to a commit stands on its first row and is NULL on the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from eventsourcing.persistence import ApplicationRecorder, Subscription

from steptrail.domain.errors import StoreError
from steptrail.domain.record import CommitHead, StreamHead
from steptrail.infrastructure.store.digest import ChainRow

__all__ = ["CommitRow", "EventRow", "LogRow", "PendingCommit", "Recorder"]

CommitRow = tuple[str | None, str | None, str | None, int | None, str | None]
"""The head of a commit as columns: commit id, actor, causation, segment, key id."""


class EventRow(NamedTuple):
    """A stored event; `commit` holds its commit's columns, filled on the first row of a commit only."""

    version: int
    topic: str
    state: bytes
    commit: CommitRow


class LogRow(NamedTuple):
    """A stored event with its place in the order of all streams."""

    position: int
    stream: str
    version: int
    topic: str
    state: bytes
    commit: CommitRow


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """A commit on its way in: its (type, state) pairs and the head it follows."""

    stream: str
    expected: StreamHead
    head: CommitHead
    states: tuple[tuple[str, bytes], ...]


class Recorder(Protocol):
    """The questions of the event store. All may be asked from several threads, and raise `StoreError`."""

    def append(self, commits: Sequence[PendingCommit]) -> list[StreamHead | StoreError]:
        """Store each commit or say why not, in the order given; all that are stored share one transaction.

        One commit that conflicts does not keep the others out. A commit whose id stands right after the head it
        follows has been stored before, and is answered with its head.
        """
        ...

    def select_head(self, stream: str) -> StreamHead:
        """Return the end of a stream."""
        ...

    def select_version(self, stream: str) -> int:
        """Return the newest version of a stream, 0 when it is unknown."""
        ...

    def select_rows(self, stream: str, after: int, limit: int | None) -> list[EventRow]:
        """Return the events after version `after`, at most `limit`, in order."""
        ...

    def select_commit(self, stream: str, version: int) -> tuple[CommitRow, bytes] | None:
        """Return the head and the digest of the commit that holds event `version`."""
        ...

    def select_streams(self, prefix: str) -> list[str]:
        """Return the ids of the streams that begin with `prefix`, in the order of their first events."""
        ...

    def select_all_streams(self) -> list[str]:
        """Return the ids of all streams, also of those without a first event, in the order of what is left of them."""
        ...

    def select_log(self, after: int, limit: int, topics: Sequence[str] = ()) -> list[LogRow]:
        """Return the events of all streams after position `after`, at most `limit`, in the order they were stored."""
        ...

    def select_chain(self, stream: str, after: int, limit: int) -> list[ChainRow]:
        """Return what the chain of a stream is made of, after version `after`."""
        ...

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Return a subscription of the library to the events after position `gt`."""
        ...

    def close(self) -> None:
        """Close every connection and end every subscription. Safe to call twice."""
        ...
