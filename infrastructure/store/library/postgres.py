"""The library's recorder over our PostgreSQL table, for its projections and notification logs.

It is an own recorder on the library's contract and not a subclass of its PostgreSQL one, which brings other tables, a
pool of connections, and writes that are tried again unseen. What it inserts is sealed like any other commit: actor
`library`, one commit for each run of events of one stream.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar
from uuid import uuid4

from eventsourcing.persistence import (
    ApplicationRecorder,
    IntegrityError,
    Notification,
    OperationalError,
    StoredEvent,
    Subscription,
)

from steptrail.domain.errors import StoreError
from steptrail.domain.kernel.record import CommitHead
from steptrail.infrastructure.store.core.digest import commit_digest
from steptrail.infrastructure.store.library.watched_subscription import WatchedSubscription
from steptrail.infrastructure.store.postgres.driver import Connection, ServerFailure
from steptrail.infrastructure.store.postgres.recorder import PostgresRecorder, newest_head
from steptrail.infrastructure.store.postgres.schema import ANNOUNCE, LOCK_APPENDS

__all__ = ["PostgresEventRecorder"]

_UNIQUE_VIOLATION = "23505"

T = TypeVar("T")

_INSERT = (
    "INSERT INTO steptrail.events (originator_id, originator_version, topic, state, "
    "commit_id, actor, segment, previous_digest, digest) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING position"
)


class PostgresEventRecorder(PostgresRecorder, ApplicationRecorder):
    """An application recorder of the library with commits, digests and subscriptions. Ids are text."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Store the events together; return their positions. Raises the library's errors."""
        positions = self._in_its_words(lambda: self._connections.write(lambda c: _insert(c, stored_events)))
        self.watch.look()
        return positions

    def select_events(
        self,
        originator_id: Any,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return the events of a stream between two versions, the newest first if `desc`, at most `limit`."""
        statement = (
            "SELECT originator_id, originator_version, topic, state FROM steptrail.events WHERE originator_id = %s "
            "AND originator_version > coalesce(%s::bigint, -1) "
            "AND originator_version <= coalesce(%s::bigint, 9223372036854775807) ORDER BY originator_version "
        )
        parameters = (str(originator_id), gt, lte, limit)
        if desc:
            rows = self._in_its_words(lambda: self._fetch(statement + "DESC LIMIT %s::bigint", parameters))
        else:
            rows = self._in_its_words(lambda: self._fetch(statement + "ASC LIMIT %s::bigint", parameters))
        return [StoredEvent(*row) for row in rows]

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
        rows = self._in_its_words(lambda: self.select_log(after, limit, topics))
        return [
            Notification(row.stream, row.version, row.topic, row.state, id=row.position)
            for row in rows
            if stop is None or row.position <= stop
        ]

    def max_notification_id(self) -> int | None:
        """Return the newest position; None when there is none."""
        return self._in_its_words(self.select_last_position) or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Return a subscription to the events after position `gt`, of this process and of others."""
        return WatchedSubscription(self, gt=gt, topics=topics, watch=self.watch)

    def _in_its_words(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except ServerFailure as failure:
            kind = IntegrityError if failure.state == _UNIQUE_VIOLATION else OperationalError
            raise kind(failure.text) from failure
        except StoreError as error:
            raise OperationalError(error) from error


def _insert(connection: Connection, stored_events: Sequence[StoredEvent]) -> list[int]:
    positions: list[int] = []
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(LOCK_APPENDS)
        for stream, run in groupby(stored_events, key=lambda event: str(event.originator_id)):
            rows = [(event.originator_version, event.topic, event.state) for event in run]
            head = CommitHead(commit_id=uuid4().hex, actor="library")
            previous = newest_head(connection, stream).digest
            seal = commit_digest(previous, stream, head, rows)
            sealed = (head.commit_id, head.actor, head.segment, previous, seal)
            values = [(stream, *row, *(sealed if not i else [None] * 5)) for i, row in enumerate(rows)]
            cursor.executemany(_INSERT, values, returning=True)
            while True:
                positions += [row[0] for row in cursor.fetchall()]
                if not cursor.nextset():
                    break
        cursor.execute(ANNOUNCE)
    return positions
