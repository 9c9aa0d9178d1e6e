"""The questions of the event store, put to PostgreSQL.

A group of commits is one call of a function on the server: one round trip, one transaction, one flush to the disk. The
log is read up to where it is complete, which is asked for in a statement before the one that reads.
What a failure means follows from where it struck. While the connection holds, the server has undone the transaction;
when it is lost, the commit id of what stands in the log tells, or nobody can.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, LiteralString, cast

from steptrail.domain.base import LARGEST
from steptrail.domain.errors import (
    AppendOutcomeUnknown,
    StoreError,
    StoreIsStandby,
    StoreReadOnly,
    StoreUnavailable,
)
from steptrail.domain.kernel.erasure import Erased, Erasure
from steptrail.domain.kernel.record import EMPTY_STREAM, StreamHead
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.core.digest import ChainRow
from steptrail.infrastructure.store.core.index import Dialect, as_json
from steptrail.infrastructure.store.core.log_watch import LogWatch
from steptrail.infrastructure.store.core.recorder import (
    STRAY,
    CommitRow,
    EventRow,
    LogRow,
    PendingCommit,
    Recorder,
    parts_of,
)
from steptrail.infrastructure.store.postgres.append import NOT_STORED, AnswerRow, appended, outcome
from steptrail.infrastructure.store.postgres.auxiliary_tables import AUXILIARY
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import (
    ONLY_READS,
    Connection,
    ServerFailure,
    fetch_all,
    send_unasked,
    together,
)
from steptrail.infrastructure.store.postgres.erasing import erase_streams, scrubbed
from steptrail.infrastructure.store.postgres.errors import translate
from steptrail.infrastructure.store.postgres.notifications import NotificationListener
from steptrail.infrastructure.store.postgres.schema import ANNOUNCE, SETTLED

_BASES: LiteralString = "SELECT id, status FROM steptrail.streams WHERE id = ANY(%s) ORDER BY number FOR KEY SHARE"
_EVENTS: LiteralString = (
    "FROM steptrail.events e LEFT JOIN steptrail.types t ON t.number = e.type "
    # The commit of each event is looked up. Joined, those of the whole stream would be sorted for each page of it.
    "LEFT JOIN LATERAL ("
    "SELECT * FROM steptrail.commits b WHERE b.stream = e.stream AND b.version = e.version OFFSET 0) c ON true "
)
_OF_STREAM: LiteralString = "stream = (SELECT number FROM steptrail.streams WHERE id = %s)"
_IN_ORDER: LiteralString = f"WHERE e.{_OF_STREAM} AND e.version > %s::bigint ORDER BY e.version LIMIT %s::bigint"
_ROW: LiteralString = "e.version, t.name, e.at, e.state, e.content"
_HEAD: LiteralString = "c.commit_id, c.actor, c.causation, c.segment, c.key_id"
_OF_ALL: LiteralString = (
    "FROM steptrail.events e LEFT JOIN steptrail.types t ON t.number = e.type "
    "LEFT JOIN steptrail.streams s ON s.number = e.stream "
)
_OF_TYPES: LiteralString = "AND (%s::text[] IS NULL OR t.name = ANY(%s::text[])) "
_BETWEEN: LiteralString = f"WHERE e.position > %s::bigint AND e.position <= %s::bigint {_OF_TYPES}"
_WITH_HEADS: LiteralString = (
    # Each with the head of its commit, which stands beside the commit's first event: that one may not be asked for.
    f"SELECT e.position, s.id, {_ROW}, {_HEAD} {_OF_ALL}"  # noqa: S608
    "LEFT JOIN steptrail.commits c ON c.stream = e.stream AND c.version = "
    "(SELECT max(b.version) FROM steptrail.commits b WHERE b.stream = e.stream AND b.version <= e.version) "
)
_LOG: LiteralString = _WITH_HEADS + _BETWEEN
_LOG_WITHOUT_HEADS: LiteralString = f"SELECT e.position, s.id, {_ROW} {_OF_ALL}{_BETWEEN}"
_LOG_OF_ONE: LiteralString = (
    # The versions of one stream stand in the order of their positions. Whoever reads on from one of its events, a page
    # after another, is spared all that stand before it; so is who reads on from where the log ended. The sums keep the
    # server from the index of positions: a plan for any parameters took few events for behind any, and read them all.
    f"{_WITH_HEADS}WHERE e.{_OF_STREAM} AND e.version > coalesce("  # noqa: S608
    f"(SELECT before.version FROM steptrail.events before WHERE before.position = %s::bigint AND before.{_OF_STREAM}), "
    f"(SELECT before.version FROM steptrail.events before WHERE before.{_OF_STREAM} AND before.position + 0 <= "
    "%s::bigint AND %s::bigint > 0 ORDER BY before.version DESC LIMIT 1), 0) AND e.position + 0 > %s::bigint "
    f"{_OF_TYPES}ORDER BY e.version LIMIT %s::bigint"
)
_NEWEST: LiteralString = "SELECT coalesce(max(position), 0) FROM steptrail.events"
_GROWN: LiteralString = (
    "SELECT s.id, max(e.version) FROM steptrail.events e JOIN steptrail.streams s ON s.number = e.stream "
    "WHERE e.position > %s::bigint AND e.position <= %s::bigint GROUP BY s.id"
)
_STRAYS: LiteralString = (
    f"SELECT coalesce((SELECT id FROM steptrail.streams WHERE number = e.stream), '{STRAY}' || e.stream), "  # noqa: S608
    "min(e.version) FROM steptrail.events e LEFT JOIN LATERAL (SELECT version, position, size FROM steptrail.commits "
    "WHERE stream = e.stream AND version <= e.version ORDER BY version DESC LIMIT 1) c ON true "
    "WHERE e.position > %s::bigint AND e.position <= %s::bigint "
    "AND (e.version < c.version + c.size AND e.position = c.position + e.version - c.version) IS NOT TRUE "
    "GROUP BY e.stream"
)
DIALECT = Dialect(
    "steptrail.",
    "%s",
    array="jsonb_build_array",
    all_of="jsonb_agg({})::text",
    each_of="SELECT jsonb_array_elements_text(%s::jsonb)",
    # By OFFSET it is a question for each number, and no join, for which all streams might be read.
    numbered="(SELECT DISTINCT number FROM ({}) found ORDER BY number DESC) one CROSS JOIN LATERAL "
    "(SELECT * FROM steptrail.streams WHERE number = one.number OFFSET 0) s",
    last_of_them="one.number DESC",
)
_IS_BEHIND: LiteralString = (
    "SELECT CASE WHEN is_called THEN last_value ELSE 0 END < coalesce((SELECT max(position) FROM steptrail.events), 0) "
    "FROM steptrail.positions"
)
_TYPES: LiteralString = "SELECT name, number, 'steptrail.types'::regclass::bigint FROM steptrail.types"
"""The numbers of the types, and of the table that has them."""
_SET_POSITIONS = "SELECT setval('steptrail.positions', (SELECT max(position) FROM steptrail.events))"

_AT_ONCE = 32
"""How many commits of a transaction that may have any number of them go to the server in one call."""

_POLL_SECONDS = 1.0
"""How soon a commit is noticed that was not announced."""

_NEVER = float("-inf")
"""Before every instant of a clock that may have begun just now."""

_ANNOUNCE_SECONDS = 0.005
"""How much later than a commit it may be announced, where one was announced just before it."""

_STANDING_IN_THE_WAY = {"55P03", "57014", ONLY_READS, "42501"}
"""Locked, too slow, read-only, no right: a smaller group would meet the same."""


class PostgresRecorder(Recorder):
    """Rows in and out of the schema `steptrail`. Takes ownership of the connections."""

    DIALECT, AUXILIARY = DIALECT, AUXILIARY

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._name = connections.address.name
        self._announced, self._is_to_announce, self.catch_up = _NEVER, False, self._announce_now
        self._telling, self._told = threading.Lock(), ("", 0)
        self.watch = LogWatch(self.select_last_position, poll=_POLL_SECONDS, begin=lambda: self._listener.begin())
        self._listener = NotificationListener(connections, self.watch.look)

    def append(self, commits: Sequence[PendingCommit], *, as_one: bool = False) -> list[StreamHead | StoreError]:
        """Store each commit or say why not; see `Recorder.append`."""
        if self._connections.is_read_only:
            return [self._refused() for _ in commits]
        try:
            rows = self._connections.write(lambda connection: self._sent(connection, commits, as_one=as_one))
        except ServerFailure as failure:
            return self._after(failure, commits, as_one=as_one)
        except StoreError as error:
            return [error for _ in commits]
        self.watch.look()
        return [outcome(commit, row) for commit, row in zip(commits, rows, strict=True)]

    def append_at_once(self, commit: PendingCommit) -> None:
        """Store nothing: the server has to be waited for."""

    def _sent(self, connection: Connection, commits: Sequence[PendingCommit], *, as_one: bool) -> list[AnswerRow]:
        self._number_types(connection, {topic for commit in commits for _, topic, *_ in commit.rows})
        bases = [base for commit in commits if (base := commit.base) is not None]
        try:
            if not bases and not as_one:
                return appended(connection, commits)
            with together(connection):
                # Locked until what stands on them is there: an erasure waits, and finds it.
                erased = {row[0] for row in connection.execute(_BASES, (bases,)).fetchall() if row[1] == "erased"}
                kept = [commit for commit in commits if commit.base not in erased]
                parts = parts_of(kept, _AT_ONCE)
                rows = (row for part in parts for row in appended(connection, part))
                return [next(rows) if commit.base not in erased else NOT_STORED for commit in commits]
        finally:
            # Behind a failure too: readers may have stood before what was in flight.
            self._announce(connection)

    def _announce(self, connection: Connection) -> None:
        """Announce what was stored, unless something was announced just now: then it is put off."""
        now = time.monotonic()
        self._is_to_announce = now < self._announced + _ANNOUNCE_SECONDS
        if not self._is_to_announce:
            self._announced = now
            send_unasked(connection, ANNOUNCE)

    def _announce_now(self) -> None:
        """Announce what was stored and not announced. One that is lost costs a look a second."""
        if self._is_to_announce:
            self._announced = _NEVER
            with suppress(StoreError, ServerFailure):
                self._connections.write(self._announce)

    def _number_types(self, connection: Connection, names: set[str]) -> None:
        if not connection.types and fetch_all(connection, _IS_BEHIND) != [(False,)]:
            raise StoreUnavailable(
                f"the sequence steptrail.positions of the store {self._name} stands before the end of its log, as in a "
                f"copy that was made by logical replication: nothing was written; set it first, by {_SET_POSITIONS}"
            )
        # Known for as long as the connection lasts: a server that crashed or was replaced may have lost a number.
        if not names <= connection.types.keys():
            # A transaction of its own, so that the numbers stay and nobody waits for the append that needs one first.
            connection.execute(
                "INSERT INTO steptrail.types (name) SELECT unnest(%s::text[]) ON CONFLICT (name) DO NOTHING",
                (sorted(names),),
            )
            found = fetch_all(connection, _TYPES)
            connection.types, connection.types_of = {name: number for name, number, _ in found}, found[0][2]

    def _after(
        self, failure: ServerFailure, commits: Sequence[PendingCommit], *, as_one: bool
    ) -> list[StreamHead | StoreError]:
        if failure.is_lost:
            return [self._found_or_unknown(commit, failure) for commit in commits]
        if len(commits) > 1 and not as_one and failure.state not in _STANDING_IN_THE_WAY:
            # What one of them did to the group must not be done to the others.
            return [each for commit in commits for each in self.append([commit])]
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

    def select_head(self, stream: str, upto: int = LARGEST) -> StreamHead:
        """Return the end of a stream, or of its part up to version `upto`, at one instant."""
        return self._connections.read(lambda connection: newest_head(connection, stream, upto))

    def select_version(self, stream: str) -> int:
        """Return the newest version of a stream, 0 when it is unknown."""
        rows = self._fetch(
            f"SELECT version FROM steptrail.events WHERE {_OF_STREAM} ORDER BY version DESC LIMIT 1",  # noqa: S608
            (stream,),
        )
        return rows[0][0] if rows else 0

    def select_rows(self, stream: str, after: int, limit: int | None) -> list[EventRow]:
        """Return the events after version `after`, at most `limit`, in order."""
        return self._fetch(f"SELECT {_ROW}, {_HEAD}, c.digest {_EVENTS} {_IN_ORDER}", (stream, after, limit))

    def select_commit(self, stream: str, version: int) -> tuple[CommitRow, bytes] | None:
        """Return the head and the digest of the commit that holds event `version`."""
        rows = self._fetch(
            f"SELECT {_HEAD}, c.digest FROM steptrail.commits c WHERE c.{_OF_STREAM} AND c.version <= %s::bigint "  # noqa: S608
            "ORDER BY c.version DESC LIMIT 1",
            (stream, version),
        )
        return (cast(CommitRow, rows[0][:5]), rows[0][5]) if rows else None

    def select_all_streams(self) -> list[str]:
        """Return the ids of all streams, oldest first, and `STRAY` with its number for one that has lost its id."""
        named = self._fetch("SELECT id FROM steptrail.streams ORDER BY number")
        strays = self._fetch(
            "SELECT DISTINCT stream FROM steptrail.events e "
            "WHERE NOT EXISTS (SELECT 1 FROM steptrail.streams WHERE number = e.stream)"
        )
        return [row[0] for row in named] + [f"{STRAY}{row[0]}" for row in strays]

    def select_log(
        self, after: int, limit: int, topics: Sequence[str], stream: str | None, *, heads: bool, until: int
    ) -> list[LogRow]:
        """Return the events of all streams, or of one, after position `after`, at most `limit`, as they were stored.

        With `heads` False those of all streams come without the heads of their commits.
        """
        wanted = list(topics) or None
        if stream is not None:
            # Its commits wait for each other, so it is complete as it is seen, whatever of others is in flight.
            begin = (stream, after, stream, stream, after, after, after)
            return self._fetch(_LOG_OF_ONE, (*begin, wanted, wanted, limit))
        page = f"{_LOG if heads else _LOG_WITHOUT_HEADS}ORDER BY e.position LIMIT %s::bigint"

        def read(connection: Connection) -> list[LogRow]:
            def upto(end: int, after: int, limit: int) -> list[LogRow]:
                return fetch_all(connection, page, (after, end, wanted, wanted, limit))

            known = min(self._known_to_be_settled(connection), until)
            rows: list[LogRow] = upto(known, after, limit) if after < known else []
            # A page that ends at the place that we know ends the log only if that place is the end.
            if len(rows) < limit and known < until and (end := min(self._settled(connection), until)) > known:
                rows += upto(end, rows[-1][0] if rows else after, limit - len(rows))
            return rows

        return self._connections.read(read)

    def list_anew(self, row: RunSummary) -> None:
        """Write the row of a stream in the index, unless a newer one is there."""
        self._run(
            # Locked first: a row that another transaction is changing is to be looked at as that leaves it.
            "WITH older AS (SELECT number FROM steptrail.streams WHERE id = %s "
            "AND (version IS NULL OR version <= %s::bigint) AND status IS DISTINCT FROM 'erased' FOR UPDATE) "
            "SELECT steptrail.list_stream(number, %s::jsonb) FROM older",
            (row.stream, row.version, as_json(row)),
        )

    def erase(self, streams: Mapping[str, int], at: int, by: str, reason: str) -> list[Erasure]:
        """Erase streams together or not at all. Raises `ConcurrencyConflict`; see the port."""
        if self._connections.is_read_only:
            raise self._refused()

        def work(connection: Connection) -> list[Erasure]:
            connection.types.clear()  # asked anew: the tables may be others by now, and an append alone would notice
            self._number_types(connection, {Erased.TYPE})
            try:
                return erase_streams(connection, streams, connection.types[Erased.TYPE], at, by, reason)
            finally:
                self._announce(connection)

        try:
            erased = self._connections.write(work)
        except ServerFailure as failure:
            raise translate(failure, self._name, is_writing=True) from failure
        self.watch.look()
        return erased

    def scrub(self, *, thoroughly: bool) -> str:
        """Have the server reuse the places of what was erased, if asked to; say where bytes remain."""
        return scrubbed(self._connections, thoroughly=thoroughly)

    def select_cut(self, stream: str) -> int | None:
        """Return the version where a commit begins whose events are gone from the end of a stream; None for none."""
        rows = self._fetch(
            f"SELECT min(version) FROM steptrail.commits WHERE {_OF_STREAM} "  # noqa: S608
            f"AND version > coalesce((SELECT max(version) FROM steptrail.events WHERE {_OF_STREAM}), 0)",
            (stream, stream),
        )
        found: int | None = rows[0][0]
        return found

    def select_strays(self) -> list[tuple[str, int]]:
        """Return the id of each stream, or `STRAY` and its number, with events of no commit, and the first of them."""
        first = dict[str, int]()
        for piece in self._pieces():
            for stream, version in self._fetch(_STRAYS, piece):
                first[stream] = min(version, first.get(stream, version))
        return list(first.items())

    def select_last_position(self) -> int:
        """Return up to where the log is complete, 0 when it is empty. No event ever appears later at or before it.

        What a statement reads up to there must begin after this. Raises `StoreIsStandby`.
        """
        return self._connections.read(self._settled)

    def _settled(self, connection: Connection) -> int:
        found: int | None = fetch_all(connection, SETTLED)[0][0]
        if found is None:
            raise StoreIsStandby(self._name, fetch_all(connection, _NEWEST)[0][0])
        with self._telling:
            known = self._known_to_be_settled(connection)
            if found < known <= fetch_all(connection, _NEWEST)[0][0]:
                # An append that was held up between its look at the sequence and its lock has the number of a place
                # that was told meanwhile. What it will store stands behind that.
                found = known
            self._told = connection.server, found
        return found

    def _known_to_be_settled(self, connection: Connection) -> int:
        """Return up to where the log of the server of a connection was said to be complete; 0 where nothing was."""
        server, told = self._told
        return told if server == connection.server else 0

    def select_grown(self, after: int) -> tuple[int, Mapping[str, int]]:
        """Return up to where the log is complete, and the newest version of each stream with events after `after`."""

        def read(connection: Connection) -> tuple[int, Mapping[str, int]]:
            settled = self._settled(connection)
            if settled <= after:
                # Another process may know more; and the newest event stands behind all that anybody was told.
                return min(after, fetch_all(connection, _NEWEST)[0][0]), {}
            return settled, dict(fetch_all(connection, _GROWN, (after, settled)))

        return self._connections.read(read)

    def select_chain(self, stream: str, after: int, limit: int | None) -> list[ChainRow]:
        """Return what the chain of a stream is made of, after version `after`, at most `limit` events of it."""
        rows = self._fetch(
            f"SELECT {_ROW}, e.position, {_HEAD}, c.position, c.size, c.digest {_EVENTS} {_IN_ORDER}",
            (stream, after, limit),
        )
        return [ChainRow(*row) for row in rows]

    def hurry(self) -> None:
        """Wait for the server a few seconds more and then no longer."""
        self._connections.hurry()

    def close(self) -> None:
        """Close every connection and end every subscription. Safe to call twice."""
        self._announce_now()
        self.watch.close()
        self._listener.close()
        self._connections.close()

    def _refused(self) -> StoreReadOnly:
        return StoreReadOnly(f"the store {self._name} was opened for reading only")

    def _run(self, statement: LiteralString, parameters: Sequence[object]) -> None:
        if self._connections.is_read_only:
            raise self._refused()
        try:
            self._connections.write(lambda connection: connection.execute(statement, parameters))
        except ServerFailure as failure:
            raise translate(failure, self._name, is_writing=True) from failure

    def _fetch(self, statement: LiteralString, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._connections.read(lambda connection: fetch_all(connection, statement, parameters))


def newest_head(connection: Connection, stream: str, upto: int = LARGEST) -> StreamHead:
    """Return the version of the newest event up to `upto` and the digest of its commit, as of one instant."""
    statement: LiteralString = (
        f"SELECT (SELECT version FROM steptrail.events WHERE {_OF_STREAM} AND version <= %s::bigint "  # noqa: S608
        f"ORDER BY version DESC LIMIT 1), (SELECT digest FROM steptrail.commits WHERE {_OF_STREAM} "
        "AND version <= %s::bigint ORDER BY version DESC LIMIT 1)"
    )
    version, digest = fetch_all(connection, statement, (stream, upto, stream, upto))[0]
    return EMPTY_STREAM if version is None else StreamHead(version, digest or b"")


def _found(connection: Connection, commit: PendingCommit) -> StreamHead | None:
    statement: LiteralString = (
        "SELECT standing.digest, coalesce((SELECT min(version) - 1 FROM steptrail.commits "  # noqa: S608
        "WHERE stream = standing.stream AND version > standing.version), "
        "(SELECT max(version) FROM steptrail.events WHERE stream = standing.stream)) "
        f"FROM steptrail.commits standing WHERE {_OF_STREAM} AND version = %s::bigint AND commit_id = %s"
    )
    rows = fetch_all(connection, statement, (commit.stream, commit.expected.version + 1, commit.head.commit_id))
    return StreamHead(rows[0][1], rows[0][0]) if rows else None
