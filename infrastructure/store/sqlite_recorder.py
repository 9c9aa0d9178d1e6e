"""The library's recorder over our table, and the questions that the store asks.

What the library inserts is sealed like any other commit: actor `library`, one commit for each run of events of one
stream. Our own hot path goes past its pool, its row objects and its `StoredEvent`.
"""

import sqlite3
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

from eventsourcing.persistence import (
    ApplicationRecorder,
    IntegrityError,
    Notification,
    OperationalError,
    ProcessRecorder,
    StoredEvent,
    Subscription,
    Tracking,
)
from eventsourcing.sqlite import (
    SQLiteApplicationRecorder,
    SQLiteCursor,
    SQLiteDatastore,
    SQLiteFactory,
    SQLiteTrackingRecorder,
)

from steptrail.domain.errors import StoreError
from steptrail.domain.record import CommitHead, StreamHead
from steptrail.infrastructure.store.connections import Connections, FileConnections, PooledConnections, fetch_all
from steptrail.infrastructure.store.digest import ChainRow
from steptrail.infrastructure.store.log_watch import LogWatch
from steptrail.infrastructure.store.recorder import CommitRow, EventRow, LogRow, PendingCommit
from steptrail.infrastructure.store.schema import TABLE, ddl, named
from steptrail.infrastructure.store.sqlite_append import (
    LAST_VERSION,
    CommitWriter,
    checked_digest,
    in_transaction,
    insert_commit,
    newest_head,
)
from steptrail.infrastructure.store.sqlite_errors import translated
from steptrail.infrastructure.store.sqlite_side import SqliteSide
from steptrail.infrastructure.store.watched_subscription import WatchedSubscription

__all__ = ["SQLiteEventFactory", "SQLiteEventProcessRecorder", "SQLiteEventRecorder"]

_PATIENCE = 5.0
_POLL_SECONDS = 0.05
"""How soon a commit of another process is noticed."""

T = TypeVar("T")


class SQLiteEventRecorder(SQLiteApplicationRecorder):
    """An application recorder of the library with commits, digests and subscriptions."""

    def __init__(
        self,
        datastore: SQLiteDatastore,
        events_table_name: str = TABLE,
        *,
        connections: Connections | None = None,
        store: str | None = None,
    ) -> None:
        super().__init__(datastore, events_table_name)
        self.select_events_statement = named(
            "SELECT originator_id, originator_version, topic, state FROM @events WHERE originator_id=? ",
            events_table_name,
        )
        self._connections = connections or _connections(datastore)
        self._store = store or datastore.pool.db_name
        self._writer = CommitWriter(self._connections, events_table_name, self._store)
        self.side = SqliteSide(self._connections, events_table_name, self._store)
        in_memory = datastore.pool.is_sqlite_memory_mode
        self.watch = LogWatch(self.select_last_position, poll=None if in_memory else _POLL_SECONDS)

    def construct_create_table_statements(self) -> list[str]:
        """Return what makes an empty database a store."""
        return ddl(self.events_table_name)

    # The store's own questions.

    def append(self, commits: Sequence[PendingCommit]) -> list[StreamHead | StoreError]:
        """Store each commit or say why not; see `CommitWriter.append`."""
        outcomes = self._writer.append(commits)
        self.watch.look()
        return outcomes

    def select_head(self, stream: str) -> StreamHead:
        """Return the end of a stream."""
        return self._read(lambda connection: newest_head(connection, self.events_table_name, stream))

    def select_version(self, stream: str) -> int:
        """Return the newest version of a stream, 0 when it is unknown."""
        rows = self._fetch(
            "SELECT MAX(originator_version) FROM @events WHERE originator_id = ? AND originator_version <= ?",
            (stream, LAST_VERSION),
        )
        return rows[0][0] or 0

    def select_rows(self, stream: str, after: int, limit: int | None) -> list[EventRow]:
        """Return the events after version `after`, at most `limit`, in order."""
        rows = self._fetch(
            "SELECT originator_version, topic, state, commit_id, actor, causation, segment, key_id FROM @events "
            "WHERE originator_id = ? AND originator_version > ? ORDER BY originator_version LIMIT ?",
            (stream, after, -1 if limit is None else limit),
        )
        return [EventRow(row[0], row[1], row[2], cast(CommitRow, tuple(row[3:]))) for row in rows]

    def select_commit(self, stream: str, version: int) -> tuple[CommitRow, bytes] | None:
        """Return the head and the digest of the commit that holds event `version`. Raises `CorruptRecord`."""
        rows = self._fetch(
            "SELECT commit_id, actor, causation, segment, key_id, digest FROM @events WHERE originator_id = ? "
            "AND originator_version <= ? AND commit_id IS NOT NULL ORDER BY originator_version DESC LIMIT 1",
            (stream, version),
        )
        return (cast(CommitRow, tuple(rows[0][:5])), checked_digest(stream, version, rows[0][5])) if rows else None

    def select_streams(self, prefix: str) -> list[str]:
        """Return the ids of the streams that begin with `prefix`, in the order of their first events."""
        rows = self._fetch(
            "SELECT originator_id FROM @events WHERE originator_version = 1 "
            "AND originator_id >= ? AND originator_id < ? ORDER BY position",
            (prefix, prefix + "\U0010ffff"),
        )
        return [row[0] for row in rows]

    def select_all_streams(self) -> list[str]:
        """Return the ids of all streams, also of those without a first event, in the order of what is left of them."""
        rows = self._fetch("SELECT originator_id FROM @events GROUP BY originator_id ORDER BY MIN(position)", ())
        return [str(row[0]) for row in rows]

    def select_log(self, after: int, limit: int, topics: Sequence[str] = (), stream: str | None = None) -> list[LogRow]:
        """Return the events of all streams, or of one, after position `after`, at most `limit`, as they were stored."""
        wanted = ",".join("?" * len(topics)).join(("AND topic IN (", ") ")) if topics else ""
        # The versions of one stream stand in the order of their positions, and one index has them both.
        place = "position > ?" if stream is None else "+position > ? AND originator_id = ?"
        order = "position" if stream is None else "originator_version"
        statement = (
            "SELECT position, originator_id, originator_version, topic, state, "
            "commit_id, actor, causation, segment, key_id FROM @events WHERE @place @wanted ORDER BY @order LIMIT ?"
        )
        statement = statement.replace("@place", place).replace("@wanted", wanted).replace("@order", order)
        rows = self._fetch(statement, (after, *(() if stream is None else (stream,)), *topics, limit))
        return [LogRow(row[0], row[1], row[2], row[3], row[4], cast(CommitRow, tuple(row[5:]))) for row in rows]

    def select_last_position(self) -> int:
        """Return where the log ends, 0 when it is empty. Nothing ever appears later at or before it."""
        return self._fetch("SELECT MAX(position) FROM @events", ())[0][0] or 0

    def select_chain(self, stream: str, after: int, limit: int) -> list[ChainRow]:
        """Return what the chain of a stream is made of, after version `after`."""
        rows = self._fetch(
            "SELECT originator_version, topic, state, "
            "commit_id, actor, causation, segment, key_id, previous_digest, digest FROM @events "
            "WHERE originator_id = ? AND originator_version > ? ORDER BY originator_version LIMIT ?",
            (stream, after, limit),
        )
        return [ChainRow(*row) for row in rows]

    def close(self) -> None:
        """Close every connection and end every subscription. Safe to call twice."""
        self.watch.close()
        self._connections.close()
        self.datastore.close()

    def _fetch(self, statement: str, parameters: Sequence[str | int]) -> list[Any]:
        sql = named(statement, self.events_table_name)
        return self._read(lambda connection: fetch_all(connection, sql, parameters))

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return translated(lambda: self._connections.read(work), self._store)

    # The library's questions.

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Store the events together; return their positions. Raises the library's errors."""
        if not stored_events and not kwargs:
            return []
        positions = self._translated(
            lambda: self._connections.write(
                lambda connection: in_transaction(
                    connection, lambda: self._insert_events(SQLiteCursor(connection.cursor()), stored_events, **kwargs)
                )
            )
        )
        self.watch.look()
        return positions

    def _insert_events(self, c: SQLiteCursor, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        connection = c.sqlite_cursor.connection
        positions: list[int] = []
        for stream, run in groupby(stored_events, key=lambda event: _text_id(event.originator_id)):
            rows = [(event.originator_version, event.topic, event.state) for event in run]
            head = CommitHead(commit_id=uuid4().hex, actor="library")
            previous = newest_head(connection, self.events_table_name, stream).digest
            last = insert_commit(connection, self.events_table_name, stream, head, previous, rows)[1]
            positions += range(last - len(rows) + 1, last + 1)
        return positions

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Return the events from position `start` to `stop`, at most `limit`, as the library's notifications."""
        after = 0 if start is None else start - 1 if inclusive_of_start else start
        rows = self._translated(lambda: self.select_log(after, limit, topics))
        return [
            Notification(
                id=row.position,
                originator_id=self.convert_originator_id(row.stream),
                originator_version=row.version,
                topic=row.topic,
                state=row.state,
            )
            for row in rows
            if stop is None or row.position <= stop
        ]

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Return a subscription to the events after position `gt`, of this process and of others."""
        return WatchedSubscription(self, gt=gt, topics=topics, watch=self.watch)

    def _translated(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.IntegrityError as error:
            raise IntegrityError(error) from error
        except (sqlite3.Error, StoreError) as error:
            raise OperationalError(error) from error


class SQLiteEventProcessRecorder(SQLiteTrackingRecorder, SQLiteEventRecorder, ProcessRecorder):
    """Stores events together with how far a projection has read."""

    def __init__(self, datastore: SQLiteDatastore, *, events_table_name: str = TABLE) -> None:
        super().__init__(datastore, events_table_name=events_table_name)

    def _insert_events(
        self, c: SQLiteCursor, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        positions = super()._insert_events(c, stored_events, **kwargs)
        tracking: Tracking | None = kwargs.get("tracking")
        if tracking is not None:
            self._insert_tracking(c, tracking)
        return positions


class SQLiteEventFactory(SQLiteFactory):
    """The library's factory, which builds our recorders."""

    application_recorder_class = SQLiteEventRecorder
    process_recorder_class = SQLiteEventProcessRecorder  # type: ignore[assignment] # the library names its own class


def _connections(datastore: SQLiteDatastore) -> Connections:
    if datastore.pool.is_sqlite_memory_mode:
        return PooledConnections(datastore, patience=_PATIENCE)
    return FileConnections(datastore.pool.db_name, durability="full", patience=_PATIENCE)


def _text_id(originator_id: UUID | str) -> str:
    return originator_id.hex if isinstance(originator_id, UUID) else originator_id
