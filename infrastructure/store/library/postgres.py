"""The library's recorder over our PostgreSQL table, for its projections and notification logs.

It is an own recorder on the library's contract and not a subclass of its PostgreSQL one, which brings other tables, a
pool of connections, and writes that are tried again unseen. What it inserts is sealed like any other commit: actor
`library`, one commit for each run of events of one stream.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, LiteralString, TypeVar, cast
from uuid import uuid4

from eventsourcing.persistence import IntegrityError, OperationalError, StoredEvent

from steptrail.domain.errors import StoreError
from steptrail.domain.kernel.erasure import ERASED
from steptrail.domain.kernel.record import CommitHead
from steptrail.infrastructure.store.core.contents import joined
from steptrail.infrastructure.store.core.digest import commit_digest
from steptrail.infrastructure.store.library.log_recorder import LogRecorder
from steptrail.infrastructure.store.postgres.driver import Connection, Row, ServerFailure, send_unasked, together
from steptrail.infrastructure.store.postgres.recorder import PostgresRecorder, newest_head
from steptrail.infrastructure.store.postgres.schema import ANNOUNCE, TAKE_OFF

_UNIQUE_VIOLATION = "23505"

T = TypeVar("T")

_INSERT_COMMIT = (
    "INSERT INTO steptrail.commits (stream, version, position, size, commit_id, actor, segment, digest) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
_INSERT_EVENT = (
    "INSERT INTO steptrail.events (position, stream, version, at, type, state) VALUES (%s, %s, %s, %s, %s, %s)"
)


class PostgresEventRecorder(LogRecorder, PostgresRecorder):
    """An application recorder of the library with commits, digests and subscriptions. Ids are text."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Store the events together; return their positions. Raises the library's errors."""
        positions = self._in_its_words(lambda: self._connections.write(lambda c: self._inserted(c, stored_events)))
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
        order: LiteralString = "DESC" if desc else "ASC"
        statement: LiteralString = (
            "SELECT s.id, e.version, t.name, e.state, e.content FROM steptrail.events e "  # noqa: S608 - a text of ours
            "JOIN steptrail.types t ON t.number = e.type JOIN steptrail.streams s ON s.number = e.stream "
            "WHERE s.id = %s AND e.version > coalesce(%s::bigint, -1) "
            "AND e.version <= coalesce(%s::bigint, 9223372036854775807) "
            f"ORDER BY e.version {order} LIMIT %s::bigint"
        )
        rows = self._in_its_words(lambda: self._fetch(statement, (str(originator_id), gt, lte, limit)))
        return [StoredEvent(row[0], row[1], row[2], joined(row[2], row[3], row[4])) for row in rows]

    def _inserted(self, connection: Connection, stored_events: Sequence[StoredEvent]) -> list[int]:
        self._number_types(connection, {event.topic for event in stored_events})
        try:
            return _insert(connection, stored_events, connection.types)
        finally:
            send_unasked(connection, ANNOUNCE)

    def _in_its_words(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except ServerFailure as failure:
            kind = IntegrityError if failure.state == _UNIQUE_VIOLATION else OperationalError
            raise kind(failure.text) from failure
        except StoreError as error:
            raise OperationalError(error) from error


def _insert(connection: Connection, stored_events: Sequence[StoredEvent], types: Mapping[str, int]) -> list[int]:
    with together(connection), connection.cursor() as cursor:
        cursor.execute(TAKE_OFF)
        (first,) = cast(Row, cursor.execute("SELECT steptrail.draw(%s)", (len(stored_events),)).fetchone())
        positions = list(range(first, first + len(stored_events)))
        left = iter(positions)
        for stream, run in groupby(stored_events, key=lambda event: str(event.originator_id)):
            rows = [(event.originator_version, event.topic, 0, event.state, None) for event in run]
            head = CommitHead(commit_id=uuid4().hex, actor="library")
            seal = commit_digest(newest_head(connection, stream).digest, stream, head, rows)
            cursor.execute("INSERT INTO steptrail.streams (id) VALUES (%s) ON CONFLICT DO NOTHING", (stream,))
            cursor.execute("SELECT number, status FROM steptrail.streams WHERE id = %s", (stream,))
            number, status = cast(Row, cursor.fetchone())
            if status == ERASED:
                raise IntegrityError(f"stream {stream!r} was erased")
            places = [next(left) for _ in rows]
            cursor.execute(
                _INSERT_COMMIT,
                (number, rows[0][0], places[0], len(rows), head.commit_id, head.actor, head.segment, seal),
            )
            cursor.executemany(
                _INSERT_EVENT,
                [
                    (place, number, version, at, types[topic], state)
                    for place, (version, topic, at, state, _) in zip(places, rows, strict=True)
                ],
            )
    return positions
