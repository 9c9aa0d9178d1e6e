"""The library's recorder over our SQLite table, for its projections and notification logs, and its subscriptions.

What the library inserts is sealed like any other commit: actor `library`, one commit for each run of events of one
stream. A database in memory lives in the pool of the library, so that both see the same one.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar
from uuid import UUID, uuid4

from eventsourcing.persistence import IntegrityError, OperationalError, ProcessRecorder, StoredEvent, Tracking
from eventsourcing.sqlite import (
    SQLiteApplicationRecorder,
    SQLiteCursor,
    SQLiteDatastore,
    SQLiteFactory,
    SQLiteTrackingRecorder,
)

from steptrail.domain.errors import StoreError, StoreUnavailable
from steptrail.domain.kernel.record import EMPTY_STREAM, CommitHead
from steptrail.infrastructure.store.core.contents import joined
from steptrail.infrastructure.store.core.log_watch import LogWatch
from steptrail.infrastructure.store.library.log_recorder import LogRecorder
from steptrail.infrastructure.store.sqlite.append import insert_commit, newest_head
from steptrail.infrastructure.store.sqlite.connections import Connections, FileConnections, Work, in_transaction
from steptrail.infrastructure.store.sqlite.errors import HeldUp, until_free
from steptrail.infrastructure.store.sqlite.events_of_stream import BEGIN_OF, EVENTS_OF_COMMITS, LAST_VERSION, OF_STREAM
from steptrail.infrastructure.store.sqlite.forking import INSIDE
from steptrail.infrastructure.store.sqlite.recorder import SqliteRecorder
from steptrail.infrastructure.store.sqlite.schema import ddl, initialise_in_memory

_PATIENCE = 5.0
_TABLES = "events"
"""The name that the library asks for. Our tables have names of their own."""

T = TypeVar("T")


class SQLiteEventRecorder(LogRecorder, SQLiteApplicationRecorder, SqliteRecorder):
    """An application recorder of the library with commits, digests and subscriptions."""

    def __init__(
        self,
        datastore: SQLiteDatastore,
        events_table_name: str = _TABLES,
        *,
        connections: Connections | None = None,
        store: str | None = None,
    ) -> None:
        super().__init__(datastore, events_table_name)
        pool, used = datastore.pool, connections or _connections(datastore)
        watch = LogWatch(self.select_last_position, poll=None) if pool.is_sqlite_memory_mode else None
        SqliteRecorder.__init__(self, used, store=store or pool.db_name, watch=watch)

    def construct_create_table_statements(self) -> list[str]:
        """Return what makes an empty database a store."""
        return ddl()

    def close(self) -> None:
        """Close every connection and end every subscription. Safe to call twice."""
        super().close()
        self.datastore.close()

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Store the events together; return their positions. Raises the library's errors."""
        if not stored_events and not kwargs:
            return []
        positions = self._in_its_words(
            lambda: self._connections.write(
                lambda connection: in_transaction(
                    connection, lambda c: self._insert_events(SQLiteCursor(c.cursor()), stored_events, **kwargs)
                )
            )
        )
        self.watch.look()
        return positions

    def _insert_events(self, c: SQLiteCursor, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        connection = c.sqlite_cursor.connection
        positions: list[int] = []
        types: dict[str, int] = {}
        for stream, run in groupby(stored_events, key=lambda event: _text_id(event.originator_id)):
            rows = [(event.originator_version, event.topic, 0, event.state, None) for event in run]
            head = CommitHead(commit_id=uuid4().hex, actor="library")
            newest = newest_head(connection, stream)
            if newest != EMPTY_STREAM and rows[0][0] <= newest.version:
                raise IntegrityError(f"version {rows[0][0]} of stream {stream!r} is taken")
            last = insert_commit(connection, stream, head, newest.digest, rows, types)[1]
            positions += range(last - len(rows) + 1, last + 1)
        return positions

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return the events of a stream between two versions, the newest first if `desc`, at most `limit`."""
        stream, order = _text_id(originator_id), "DESC" if desc else "ASC"
        statement = (
            f"SELECT e.version, t.name, e.state, e.content FROM {EVENTS_OF_COMMITS} "  # noqa: S608 - a text of ours
            f"JOIN types t ON t.number = e.type WHERE c.{OF_STREAM} AND c.version >= {BEGIN_OF} AND c.version <= ? "
            f"AND e.version > ? AND e.version <= ? ORDER BY c.version {order}, e.position {order} LIMIT ?"
        )
        first, last = -1 if gt is None else gt, LAST_VERSION if lte is None else lte
        bounds = (stream, stream, first, last, first, last, -1 if limit is None else limit)
        rows = self._in_its_words(lambda: self._fetch(statement, bounds))
        return [
            StoredEvent(self._shown_id(stream), version, topic, joined(topic, state, content))
            for version, topic, state, content in rows
        ]

    def _shown_id(self, stream: str) -> UUID | str:
        return self.convert_originator_id(stream)

    def _in_its_words(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.IntegrityError as error:
            raise IntegrityError(error) from error
        except (sqlite3.Error, StoreError) as error:
            raise OperationalError(error) from error


class SQLiteEventProcessRecorder(SQLiteTrackingRecorder, SQLiteEventRecorder, ProcessRecorder):
    """Stores events together with how far a projection has read."""

    def __init__(self, datastore: SQLiteDatastore, *, events_table_name: str = _TABLES) -> None:
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


def recorder_in_memory(patience: float) -> SQLiteEventRecorder:
    """Return the recorder of an empty store that is gone when it is closed."""
    database = f"file:steptrail-{uuid4().hex}?mode=memory&cache=shared"
    datastore = SQLiteDatastore(database, originator_id_type="text")
    connections = PooledConnections(datastore, patience=patience)
    connections.write(initialise_in_memory)
    return SQLiteEventRecorder(datastore, connections=connections, store=":memory:")


class PooledConnections:
    """The connections of the library's pool, one at a time: closing one that is in use would crash the process."""

    def __init__(self, datastore: SQLiteDatastore, *, patience: float) -> None:
        self._datastore, self._patience = datastore, patience
        self._lock = threading.Lock()

    def read(self, work: Work[T]) -> T:
        """Return `work(connection)` while nobody writes."""
        return self._run(work, commit=False)

    def write(self, work: Work[T]) -> T:
        """Return `work(connection)` while nobody else reads or writes."""
        return self._run(work, commit=True)

    def write_at_once(self, work: Work[T]) -> T:
        """Raise `HeldUp`: a write may have to wait for those who read."""
        raise HeldUp

    def close(self) -> None:
        """Close the pool, and with it the database. Safe to call twice."""
        with self._lock, INSIDE:
            self._datastore.close()

    def _run(self, work: Work[T], *, commit: bool) -> T:
        # The pool opens, commits and closes as well, which is inside SQLite too.
        with self._lock, INSIDE:
            if self._datastore.pool.closed:
                raise StoreUnavailable("the store is closed")
            with self._datastore.get_connection(commit=commit) as pooled:
                connection = pooled.cursor().sqlite_cursor.connection
                return until_free(lambda: work(connection), self._patience)


def _connections(datastore: SQLiteDatastore) -> Connections:
    if datastore.pool.is_sqlite_memory_mode:
        return PooledConnections(datastore, patience=_PATIENCE)
    return FileConnections(datastore.pool.db_name, durability="full", patience=_PATIENCE)


def _text_id(originator_id: UUID | str) -> str:
    return originator_id.hex if isinstance(originator_id, UUID) else originator_id
