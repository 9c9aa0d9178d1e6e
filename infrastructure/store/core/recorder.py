"""The questions of the event store to a database: rows in, rows out, blocking; and the shapes of those rows.

A row of an answer holds the columns of its commit where it is the first event of one, and None on the others.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import LiteralString

from msgspec import Struct

from steptrail.domain.base import LARGEST, made
from steptrail.domain.errors import CorruptRecord, StoreError
from steptrail.domain.kernel.erasure import Erased, Erasure
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.record import CommitHead, StreamHead, base_of
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.core.auxiliary_tables import AuxiliaryTables
from steptrail.infrastructure.store.core.blobs import Blob, Encoded
from steptrail.infrastructure.store.core.digest import ChainRow
from steptrail.infrastructure.store.core.index import IndexRow, select, select_count
from steptrail.infrastructure.store.core.log_watch import LogWatch

STRAY = "#"
"""Begins what stands for the id of a stream that has lost it; its number follows. No stream of ours has such an id."""

_BYTES_AT_ONCE = 64 << 20
"""Of several commits no more go to a database together: a server takes no gigabyte at once, and all of it is in memory
several times meanwhile."""

CommitRow = tuple[str | None, str | None, str | None, int | None, str | None]
"""The head of a commit as columns: commit id, actor, causation, segment, key id."""


EventRow = tuple[int, str, int, bytes, bytes | None, *CommitRow, bytes | None]
"""An event: version, type, instant, state and content; and, on the first row of a commit only, its head and digest."""


LogRow = tuple[int, str, int, str, int, bytes, bytes | None, *tuple[str | int | None, ...]]
"""An event of any stream: position, stream, version, type, instant, state and content; and the head of its commit.

Where no heads are asked for, there is none.
"""


class PendingCommit(Struct, frozen=True):
    """A commit on its way in: its events, the blobs they refer to, and the head it follows.

    `summary` replaces the row of the stream in the index; None leaves that as it is.
    """

    stream: str
    expected: StreamHead
    head: CommitHead
    rows: Sequence[Encoded]
    blobs: tuple[Blob, ...] = ()
    summary: RunSummary | None = None

    @property
    def base(self) -> str | None:
        """The stream that this begins another one on, if it does; see `base_of`."""
        return base_of(self.expected, self.summary)

    @property
    def size(self) -> int:
        """How many bytes its events and its blobs have."""
        of_events = sum([len(state) + len(content or b"") for *_, state, content in self.rows])
        return of_events + sum([len(blob.body) for blob in self.blobs])


def going_together(commits: Iterable[PendingCommit], most: int) -> int:
    """Return how many of the first commits go to a database at once: at least one, and `most` at most."""
    count = size = 0
    for commit in commits:
        size += commit.size
        if count and (count == most or size > _BYTES_AT_ONCE):
            break
        count += 1
    return count


def parts_of(commits: Sequence[PendingCommit], most: int) -> Iterator[Sequence[PendingCommit]]:
    """Yield all commits in their order, as many at a time as go to a database at once, `most` at most."""
    while commits:
        count = going_together(commits, most)
        yield commits[:count]
        commits = commits[count:]


class Recorder(AuxiliaryTables):
    """The questions of the event store. All may be asked from several threads, and raise `StoreError`."""

    watch: LogWatch
    """Tells when the log has grown."""
    catch_up: Callable[[], None] | None = None
    """Does what an append may put off, to be called soon, and does not raise. None where nothing is put off."""

    @abstractmethod
    def append(self, commits: Sequence[PendingCommit], *, as_one: bool = False) -> list[StreamHead | StoreError]:
        """Store each commit or say why not, in the order given; all that are stored share one transaction.

        One commit that conflicts does not keep the others out, and where the database refuses them together, each is
        tried by itself, unless they are to be stored `as_one`. A commit whose id stands right after the head it
        follows has been stored before, and is answered with its head.
        """

    @abstractmethod
    def append_at_once(self, commit: PendingCommit) -> StreamHead | StoreError | None:
        """Store one commit as `append` does; None, with nothing stored, when that would have to wait for somebody."""

    @abstractmethod
    def select_head(self, stream: str, upto: int = LARGEST) -> StreamHead:
        """Return the end of a stream, or of its part up to version `upto`, at one instant. Raises `CorruptRecord`."""

    @abstractmethod
    def select_version(self, stream: str) -> int:
        """Return the newest version of a stream, 0 when it is unknown."""

    @abstractmethod
    def select_rows(self, stream: str, after: int, limit: int | None) -> list[EventRow]:
        """Return the events after version `after`, at most `limit`, in order."""

    @abstractmethod
    def select_commit(self, stream: str, version: int) -> tuple[CommitRow, bytes] | None:
        """Return the head and the digest of the commit that holds event `version`. Raises `CorruptRecord`."""

    @abstractmethod
    def select_all_streams(self) -> list[str]:
        """Return the ids of all streams, oldest first, and `STRAY` with its number for one that has lost its id."""

    @abstractmethod
    def select_log(
        self, after: int, limit: int, topics: Sequence[str], stream: str | None, *, heads: bool, until: int
    ) -> list[LogRow]:
        """Return the events of all streams, or of one, after position `after`, at most `limit`, as they were stored.

        Of all streams, those behind the position `until` are neither returned nor looked at. With `heads` False the
        heads of their commits may be left out. A row of a commit that is not there has None.
        """

    @abstractmethod
    def list_anew(self, row: RunSummary) -> None:
        """Write the row of a stream in the index, unless a newer one is there."""

    @abstractmethod
    def erase(self, streams: Mapping[str, int], at: int, by: str, reason: str) -> list[Erasure]:
        """Erase streams together or not at all; each must end at the version that is given with it.

        Raises `ConcurrencyConflict` when one does not, and when a stream of the index that is not among them shares the
        past of one, or was begun by one.
        """

    @abstractmethod
    def scrub(self, *, thoroughly: bool) -> str | None:
        """Remove the bytes of what was erased from the files of the database; return where some may remain, and why.

        With `thoroughly` the whole database is gone through, however large it is.
        """

    @abstractmethod
    def select_cut(self, stream: str) -> int | None:
        """Return the version where a commit begins whose events are gone from the end of a stream; None for none."""

    @abstractmethod
    def select_strays(self) -> list[tuple[str, int]]:
        """Return the id of each stream, or `STRAY` and its number, with events of no commit, and the first of them.

        All events are gone through.
        """

    @abstractmethod
    def select_last_position(self) -> int:
        """Return where the log ends, 0 when it is empty. No event ever appears later at or before it."""

    @abstractmethod
    def select_grown(self, after: int) -> tuple[int, Mapping[str, int]]:
        """Return the end of the log, and the newest version of each stream with events after position `after`.

        An end before `after` means that the log does not reach there.
        """

    @abstractmethod
    def select_chain(self, stream: str, after: int, limit: int | None) -> list[ChainRow]:
        """Return what the chain of a stream is made of, after version `after`, at most `limit` events of it."""

    @abstractmethod
    def hurry(self) -> None:
        """Have what is under way end within seconds, because `close` is to follow. May be called from any thread."""

    @abstractmethod
    def close(self) -> None:
        """Close the watch and every connection. Safe to call twice."""

    def select_streams(self, prefix: str) -> list[str]:
        """Return the ids of the streams that begin with `prefix`, oldest first."""
        within = self._sql("SELECT id FROM {schema}streams WHERE id >= {mark} AND id < {mark} ORDER BY number")
        return [row[0] for row in self._fetch(within, (prefix, prefix + "\U0010ffff"))]

    def select_types(self) -> list[str]:
        """Return the names of all types of events that were ever stored."""
        return [name for (name,) in self._fetch(self._sql("SELECT name FROM {schema}types"))]

    def select_index(self, asked: IndexQuery) -> list[IndexRow]:
        """Return the rows of the index that a query asks for."""
        statement, parameters = select(asked, self.DIALECT)
        return self._fetch(statement, parameters)

    def count_index(self, asked: IndexQuery) -> int:
        """Return how many rows of the index a query asks for, whatever its limit."""
        statement, parameters = select_count(asked, self.DIALECT)
        return int(self._fetch(statement, parameters)[0][0])

    def mark_damage(self, stream: str, why: str) -> None:
        """Say in the index why a stream cannot be read, unless something else is said already."""
        statement: LiteralString = (
            "UPDATE {schema}streams SET damage = {mark} WHERE id = {mark} AND damage IS NULL "
            "AND coalesce(status, '') <> 'erased'"
        )
        self._run(self._sql(statement), (why, stream))

    def select_erasure(self, stream: str) -> Erasure | None:
        """Return what is remembered of an erased stream; None for any other. Raises `CorruptRecord`."""
        statement: LiteralString = (
            "SELECT position, at, by, reason, events, digest FROM {schema}erasures "
            "WHERE stream = (SELECT number FROM {schema}streams WHERE id = {mark})"
        )
        found = self._fetch(self._sql(statement), (stream,))
        if not found:
            return None
        remembered = dict(zip(("position", "at", "by", "reason", "events", "digest"), found[0], strict=True))
        try:
            return made(Erasure, {**remembered, "stream": stream, "digest": remembered["digest"].hex()})
        except (AttributeError, ValueError) as error:
            # SQLite keeps whatever type a hand wrote into a column.
            why = "the table of erasures holds a value of the wrong type"
            raise CorruptRecord(stream, 0, Erased.TYPE, why) from error
