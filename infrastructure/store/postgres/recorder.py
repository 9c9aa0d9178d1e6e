"""The questions of the event store, put to PostgreSQL.

A group of commits is one call of a function on the server: one round trip, one transaction, one flush to the disk.
What a failure means follows from where it struck. While the connection holds, the server has undone the transaction;
when it is lost, the commit id of what stands in the log tells, or nobody can.
"""

from collections.abc import Sequence
from typing import Any, LiteralString, cast

from steptrail.domain.errors import AppendOutcomeUnknown, ConcurrencyConflict, StoreError, StoreReadOnly
from steptrail.domain.kernel.record import EMPTY_STREAM, StreamHead
from steptrail.infrastructure.store.core.digest import ChainRow, commit_digest
from steptrail.infrastructure.store.core.log_watch import LogWatch
from steptrail.infrastructure.store.core.recorder import CommitRow, EventRow, LogRow, PendingCommit
from steptrail.infrastructure.store.postgres.auxiliary_tables import PostgresAuxiliaryTables
from steptrail.infrastructure.store.postgres.call import Call, byte_strings, integers, texts
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import Connection, ServerFailure, fetch_all
from steptrail.infrastructure.store.postgres.errors import translate
from steptrail.infrastructure.store.postgres.notifications import NotificationListener

__all__ = ["PostgresRecorder", "newest_head"]

_APPEND = Call(
    "steptrail_append",
    "SELECT is_stored, version, seal FROM steptrail.append_commits("
    "$1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::text[], "
    "$7::bigint[], $8::text[], $9::bytea[], $10::bigint[], $11::text[], $12::bytea[], "
    "$13::bigint[], $14::bytea[], $15::bytea[])",
)
_TRUE = b"\1"
_LOG: LiteralString = (
    "SELECT position, originator_id, originator_version, topic, state, "
    "commit_id, actor, causation, segment, key_id FROM steptrail.events "
    "WHERE position > %s::bigint AND (%s::text[] IS NULL OR topic = ANY(%s::text[])) "
)
_OF_ONE: LiteralString = (
    # The versions of one stream stand in the order of their positions. Whoever reads on from one of its events, a page
    # after another, is spared all that stand before it.
    "AND originator_id = %s AND originator_version > coalesce((SELECT originator_version FROM steptrail.events "
    "WHERE position = %s::bigint AND originator_id = %s), 0) ORDER BY originator_version LIMIT %s::bigint"
)
_LAST_VERSION = 2**63 - 1
_POLL_SECONDS = 1.0
"""How soon a commit is noticed that was not announced."""

_STANDING_IN_THE_WAY = {"55P03", "57014", "25006", "42501"}
"""Locked, too slow, read-only, no right: a smaller group would meet the same."""


class PostgresRecorder:
    """Rows in and out of the schema `steptrail`. Takes ownership of the connections."""

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._name = connections.address.name
        self.auxiliary = PostgresAuxiliaryTables(connections)
        self.watch = LogWatch(self.select_last_position, poll=_POLL_SECONDS, begin=lambda: self._listener.start())
        self._listener = NotificationListener(connections, self.watch.look)

    def append(self, commits: Sequence[PendingCommit]) -> list[StreamHead | StoreError]:
        """Store each commit or say why not, in the order given; all that are stored share one transaction."""
        if self._connections.is_read_only:
            return [StoreReadOnly(f"the store {self._name} was opened for reading only") for _ in commits]
        try:
            parameters = _parameters(commits)
            rows = self._connections.write(lambda connection: _APPEND.rows(connection, parameters))
        except ServerFailure as failure:
            return self._after(failure, commits)
        except StoreError as error:
            return [error for _ in commits]
        self.watch.look()
        return [_outcome(commit, row) for commit, row in zip(commits, rows, strict=True)]

    def _after(self, failure: ServerFailure, commits: Sequence[PendingCommit]) -> list[StreamHead | StoreError]:
        if failure.is_lost:
            return [self._found_or_unknown(commit, failure) for commit in commits]
        if len(commits) > 1 and failure.state not in _STANDING_IN_THE_WAY:
            # What one of them did to the group must not be done to the others.
            return [outcome for commit in commits for outcome in self.append([commit])]
        return [translate(failure, self._name, is_writing=True) for _ in commits]

    def _found_or_unknown(self, commit: PendingCommit, failure: ServerFailure) -> StreamHead | StoreError:
        try:
            found = self._connections.read(lambda connection: _found(connection, commit))
        except StoreError:
            found = None
        if found is not None:
            return found
        # That it is not there now proves nothing: the server may still be about to store it.
        unknown = AppendOutcomeUnknown(
            f"the connection failed while stream {commit.stream!r} of {self._name} was written "
            f"({' '.join(failure.text.split())}), which may or may not have happened: read the stream before trying "
            "again, or append the same commit again, which stores it once"
        )
        unknown.__cause__ = failure
        return unknown

    def select_head(self, stream: str, at: int | None = None) -> StreamHead:
        """Return the end of a stream, or of its first `at` events, as of one instant."""
        upto = _LAST_VERSION if at is None else at
        return self._connections.read(lambda connection: newest_head(connection, stream, upto))

    def select_version(self, stream: str) -> int:
        """Return the newest version of a stream, 0 when it is unknown."""
        rows = self._fetch("SELECT max(originator_version) FROM steptrail.events WHERE originator_id = %s", (stream,))
        return rows[0][0] or 0

    def select_rows(self, stream: str, after: int, limit: int | None) -> list[EventRow]:
        """Return the events after version `after`, at most `limit`, in order."""
        rows = self._fetch(
            "SELECT originator_version, topic, state, commit_id, actor, causation, segment, key_id "
            "FROM steptrail.events WHERE originator_id = %s AND originator_version > %s::bigint "
            "ORDER BY originator_version LIMIT %s::bigint",
            (stream, after, limit),
        )
        return [EventRow(row[0], row[1], row[2], cast(CommitRow, row[3:])) for row in rows]

    def select_commit(self, stream: str, version: int) -> tuple[CommitRow, bytes] | None:
        """Return the head and the digest of the commit that holds event `version`."""
        rows = self._fetch(
            "SELECT commit_id, actor, causation, segment, key_id, digest FROM steptrail.events "
            "WHERE originator_id = %s AND originator_version <= %s::bigint AND commit_id IS NOT NULL "
            "ORDER BY originator_version DESC LIMIT 1",
            (stream, version),
        )
        return (cast(CommitRow, rows[0][:5]), rows[0][5] or b"") if rows else None

    def select_streams(self, prefix: str) -> list[str]:
        """Return the ids of the streams that begin with `prefix`, in the order of their first events."""
        rows = self._fetch(
            "SELECT originator_id FROM steptrail.events WHERE originator_version = 1 "
            "AND originator_id >= %s AND originator_id < %s ORDER BY position",
            (prefix, prefix + "\U0010ffff"),
        )
        return [row[0] for row in rows]

    def select_all_streams(self) -> list[str]:
        """Return the ids of all streams, also of those without a first event, in the order of what is left of them."""
        rows = self._fetch("SELECT originator_id FROM steptrail.events GROUP BY originator_id ORDER BY min(position)")
        return [row[0] for row in rows]

    def select_log(self, after: int, limit: int, topics: Sequence[str] = (), stream: str | None = None) -> list[LogRow]:
        """Return the events of all streams, or of one, after position `after`, at most `limit`, as they were stored."""
        wanted = list(topics) or None
        if stream is None:
            rows = self._fetch(_LOG + "ORDER BY position LIMIT %s::bigint", (after, wanted, wanted, limit))
        else:
            rows = self._fetch(_LOG + _OF_ONE, (after, wanted, wanted, stream, after, stream, limit))
        return [LogRow(row[0], row[1], row[2], row[3], row[4], cast(CommitRow, row[5:])) for row in rows]

    def select_counter(self) -> int | None:
        """Return None: the counter runs ahead of what is stored."""
        return None

    def select_last_position(self) -> int:
        """Return where the log ends, 0 when it is empty. No event ever appears later at or before it."""
        return self._fetch("SELECT max(position) FROM steptrail.events")[0][0] or 0

    def select_chain(self, stream: str, after: int, limit: int | None) -> list[ChainRow]:
        """Return what the chain of a stream is made of, after version `after`, at most `limit` events of it."""
        rows = self._fetch(
            "SELECT originator_version, topic, state, position, "
            "commit_id, actor, causation, segment, key_id, previous_digest, digest FROM steptrail.events "
            "WHERE originator_id = %s AND originator_version > %s::bigint "
            "ORDER BY originator_version LIMIT %s::bigint",
            (stream, after, limit),
        )
        return [ChainRow(*row) for row in rows]

    def close(self) -> None:
        """Close every connection and end every subscription. Safe to call twice."""
        self.watch.close()
        self._listener.close()
        self._connections.close()

    def _fetch(self, statement: LiteralString, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._connections.read(lambda connection: fetch_all(connection, statement, parameters))


def newest_head(connection: Connection, stream: str, upto: int = _LAST_VERSION) -> StreamHead:
    """Return the version of the newest event up to `upto` and the digest of its commit, as of one instant."""
    statement: LiteralString = (
        "SELECT (SELECT originator_version FROM steptrail.events WHERE originator_id = %s "
        "AND originator_version <= %s::bigint ORDER BY originator_version DESC LIMIT 1), "
        "(SELECT digest FROM steptrail.events WHERE originator_id = %s AND originator_version <= %s::bigint "
        "AND commit_id IS NOT NULL ORDER BY originator_version DESC LIMIT 1)"
    )
    version, digest = fetch_all(connection, statement, (stream, upto, stream, upto))[0]
    return EMPTY_STREAM if version is None else StreamHead(version, digest or b"")


def _parameters(commits: Sequence[PendingCommit]) -> tuple[bytes, ...]:
    seals: list[bytes] = []
    for commit in commits:
        rows = [(commit.expected.version + i, *typed) for i, typed in enumerate(commit.states, 1)]
        seals.append(commit_digest(commit.expected.digest, commit.stream, commit.head, rows))
    heads = [commit.head for commit in commits]
    states = [state for commit in commits for state in commit.states]
    blobs = [blob for commit in commits for blob in commit.blobs]
    return (
        texts([commit.stream for commit in commits]),
        integers([commit.expected.version for commit in commits]),
        byte_strings([commit.expected.digest for commit in commits]),
        texts([head.commit_id for head in heads]),
        texts([head.actor for head in heads]),
        texts([head.causation for head in heads]),
        integers([head.segment for head in heads]),
        texts([head.key_id for head in heads]),
        byte_strings(seals),
        integers([len(commit.states) for commit in commits]),
        texts([topic for topic, _ in states]),
        byte_strings([state for _, state in states]),
        integers([len(commit.blobs) for commit in commits]),
        byte_strings([blob.digest for blob in blobs]),
        byte_strings([blob.body for blob in blobs]),
    )


def _outcome(commit: PendingCommit, row: tuple[bytes | None, ...]) -> StreamHead | ConcurrencyConflict:
    is_stored, version, seal = row
    newest = int.from_bytes(version or b"", "big")
    if is_stored == _TRUE:
        return StreamHead(newest, seal or b"")
    return ConcurrencyConflict(commit.stream, commit.expected.version, newest)


def _found(connection: Connection, commit: PendingCommit) -> StreamHead | None:
    statement: LiteralString = (
        "SELECT standing.digest, coalesce("
        "(SELECT min(originator_version) - 1 FROM steptrail.events WHERE originator_id = standing.originator_id "
        "AND originator_version > standing.originator_version AND commit_id IS NOT NULL), "
        "(SELECT max(originator_version) FROM steptrail.events WHERE originator_id = standing.originator_id)) "
        "FROM steptrail.events standing "
        "WHERE originator_id = %s AND originator_version = %s::bigint AND commit_id = %s"
    )
    rows = fetch_all(connection, statement, (commit.stream, commit.expected.version + 1, commit.head.commit_id))
    return StreamHead(rows[0][1], rows[0][0]) if rows else None
