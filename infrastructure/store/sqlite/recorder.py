"""The questions of the event store, put to SQLite. The event-store library has no part in them."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from steptrail.domain.errors import StoreError
from steptrail.domain.kernel.erasure import Erasure
from steptrail.domain.kernel.record import StreamHead
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.core.digest import ChainRow
from steptrail.infrastructure.store.core.index import Dialect
from steptrail.infrastructure.store.core.log_watch import LogWatch
from steptrail.infrastructure.store.core.recorder import STRAY, CommitRow, EventRow, LogRow, PendingCommit, Recorder
from steptrail.infrastructure.store.sqlite.append import CommitWriter, checked_digest, list_stream, newest_head
from steptrail.infrastructure.store.sqlite.auxiliary_tables import AUXILIARY
from steptrail.infrastructure.store.sqlite.connections import Connections, fetch_all, in_transaction
from steptrail.infrastructure.store.sqlite.erasing import erase_streams, scrubbed
from steptrail.infrastructure.store.sqlite.errors import translated
from steptrail.infrastructure.store.sqlite.events_of_stream import (
    BEGIN_OF,
    COMMIT_OF_EVENT,
    EVENTS_OF_COMMITS,
    LAST_VERSION,
    NEWEST_VERSION,
    OF_STREAM,
)

_POLL_SECONDS = 0.05
"""How soon a commit of another process is noticed."""

_EVENTS_OF_ALL = "FROM events e LEFT JOIN types t ON t.number = e.type LEFT JOIN streams s ON s.number = e.stream "
_LOG = _EVENTS_OF_ALL + "LEFT JOIN commits c ON c.stream = e.stream AND c.version = e.version "
_SOME_OF_LOG = (
    # Each with the head of its commit, which stands beside the commit's first event: that one may not be asked for.
    _EVENTS_OF_ALL + "LEFT JOIN commits c ON c.stream = e.stream AND c.version = "  # noqa: S608
    "(SELECT max(version) FROM commits WHERE stream = e.stream AND version <= e.version) "
)
_OF_ONE = f"FROM {EVENTS_OF_COMMITS} LEFT JOIN types t ON t.number = e.type WHERE c.{OF_STREAM} "
_AFTER_VERSION = f"AND c.version >= {BEGIN_OF} AND e.version > ? ORDER BY c.version, e.position LIMIT ?"
_AFTER_POSITION = (
    # Whoever reads on from one of its events, a page after another, is spared the commits before it; so is who reads on
    # from where the log ended.
    f"AND c.version >= coalesce((SELECT max(version) FROM commits WHERE {OF_STREAM} AND version <= "  # noqa: S608 - ours
    f"(SELECT version FROM events WHERE position = ? AND {OF_STREAM})), (SELECT version FROM commits "
    f"WHERE {OF_STREAM} AND position <= ? AND ? > 0 ORDER BY version DESC LIMIT 1), 0) "
    # The plus keeps SQLite from looking for the events of each commit from that position on.
    "AND c.position + c.size > ? AND +e.position > ?"
)
_COMMIT = f"FROM commits c WHERE c.{OF_STREAM} AND c.version <= ? ORDER BY c.version DESC LIMIT 1"
DIALECT = Dialect(
    "",
    "?",
    array="json_array",
    all_of="json_group_array({})",
    each_of="SELECT value FROM json_each(?)",
    numbered="(SELECT * FROM streams WHERE number IN ({})) s",
    last_of_them="s.number DESC",
)
_ROW = "e.version, t.name, e.at, e.state, e.content"
_HEAD = "c.commit_id, c.actor, c.causation, c.segment, c.key_id"
_FIRST = "CASE e.version WHEN c.version THEN c.{} END"
"""A column of a commit, beside its first event only."""
_HEAD_OF_FIRST = ", ".join(map(_FIRST.format, ("commit_id", "actor", "causation", "segment", "key_id")))
_DIGEST_OF_FIRST = _FIRST.format("digest")
_PLACE_OF_FIRST = ", ".join(map(_FIRST.format, ("position", "size")))

_EventOfAny = tuple[int, str, int, str, int, bytes, bytes | None]
_NO_HEAD: CommitRow = (None, None, None, None, None)

T = TypeVar("T")


class SqliteRecorder(Recorder):
    """Rows in and out of the tables of a store. Takes ownership of the connections.

    `store` is what its user calls it. Without a `watch` it has one of its own, which looks for the commits of other
    processes unless `is_quiet` says that there are none.
    """

    DIALECT, AUXILIARY = DIALECT, AUXILIARY

    def __init__(
        self,
        connections: Connections,
        *,
        store: str,
        watch: LogWatch | None = None,
        is_quiet: Callable[[], bool] = lambda: False,
    ) -> None:
        self._connections, self._store = connections, store
        self._writer = CommitWriter(connections, store)
        self.watch = watch or LogWatch(self.select_last_position, poll=_POLL_SECONDS, is_quiet=is_quiet)

    def append(self, commits: Sequence[PendingCommit], *, as_one: bool = False) -> list[StreamHead | StoreError]:
        """Store each commit or say why not; see `CommitWriter.append`."""
        outcomes = self._writer.append(commits, as_one=as_one)
        self.watch.look()
        return outcomes

    def append_at_once(self, commit: PendingCommit) -> StreamHead | StoreError | None:
        """Store a commit or say why not; None, with nothing stored, when that would have to wait for somebody."""
        outcome = self._writer.append_at_once(commit)
        self.watch.look()
        return outcome

    def select_head(self, stream: str, upto: int = LAST_VERSION) -> StreamHead:
        """Return the end of a stream, or of its part up to version `upto`, at one instant. Raises `CorruptRecord`."""
        return self._read(lambda connection: newest_head(connection, stream, upto))

    def select_version(self, stream: str) -> int:
        """Return the newest version of a stream, 0 when it is unknown."""
        rows = self._fetch(NEWEST_VERSION, (stream, LAST_VERSION, LAST_VERSION))
        return rows[0][0] if rows else 0

    def select_rows(self, stream: str, after: int, limit: int | None) -> list[EventRow]:
        """Return the events after version `after`, at most `limit`, in order."""
        return self._fetch(
            f"SELECT {_ROW}, {_HEAD_OF_FIRST}, {_DIGEST_OF_FIRST} {_OF_ONE} {_AFTER_VERSION}",
            (stream, stream, after + 1, after, -1 if limit is None else limit),
        )

    def select_commit(self, stream: str, version: int) -> tuple[CommitRow, bytes] | None:
        """Return the head and the digest of the commit that holds event `version`. Raises `CorruptRecord`."""
        rows = self._fetch(f"SELECT {_HEAD}, c.digest {_COMMIT}", (stream, version))
        return (cast(CommitRow, tuple(rows[0][:5])), checked_digest(stream, version, rows[0][5])) if rows else None

    def select_all_streams(self) -> list[str]:
        """Return the ids of all streams, oldest first, and `STRAY` with its number for one that has lost its id."""
        named = self._fetch("SELECT id FROM streams ORDER BY number", ())
        strays = self._fetch("SELECT DISTINCT stream FROM commits WHERE stream NOT IN (SELECT number FROM streams)", ())
        return [str(row[0]) for row in named] + [f"{STRAY}{row[0]}" for row in strays]

    def select_log(
        self, after: int, limit: int, topics: Sequence[str], stream: str | None, *, heads: bool, until: int
    ) -> list[LogRow]:
        """Return the events of all streams, or of one, after position `after`, at most `limit`, as they were stored.

        With `heads` False those of all streams come without the heads of their commits.
        """
        wanted = f"AND t.name IN ({','.join('?' * len(topics))})" if topics else ""
        if stream is not None:
            return self._fetch(
                f"SELECT e.position, ?, {_ROW}, {_HEAD} {_OF_ONE} {_AFTER_POSITION} {wanted} "
                "ORDER BY c.version, e.position LIMIT ?",
                (stream, stream, stream, after, stream, stream, after, after, after, after, *topics, limit),
            )
        if not heads:
            found = f"{_ROW} {_EVENTS_OF_ALL}"
        elif topics:
            found = f"{_ROW}, {_HEAD} {_SOME_OF_LOG}"
        else:
            found = f"{_ROW}, {_HEAD}, c.version {_LOG}"
        rows = self._fetch(
            f"SELECT e.position, s.id, {found} WHERE e.position > ? AND e.position <= ? {wanted} "
            "ORDER BY e.position LIMIT ?",
            (after, until, *topics, limit),
        )
        return self._with_heads(rows) if heads and not topics else rows

    def _with_heads(self, rows: Sequence[Any]) -> list[LogRow]:
        """Return rows of which the first of each commit has its head, and each other that of the row before it.

        That costs less than a search for the commit of each. Where a commit began before all rows, it is looked up. The
        last column of `rows` tells that a commit begins there.
        """
        found: list[LogRow] = []
        heads: dict[str, CommitRow] = {}
        for row in rows:
            stream, begun = row[1], row[12]
            if begun is not None:
                heads[stream] = row[7:12]
            elif stream not in heads:
                before = self._fetch(f"SELECT {_HEAD} {_COMMIT}", (stream, row[2]))
                heads[stream] = before[0] if before else _NO_HEAD
            event: _EventOfAny = row[:7]
            found.append((*event, *heads[stream]))
        return found

    def list_anew(self, row: RunSummary) -> None:
        """Write the row of a stream in the index, unless a newer one is there."""
        older = (
            "SELECT number FROM streams WHERE id = ? AND (version IS NULL OR version <= ?) AND status IS NOT 'erased'"
        )

        def written(connection: sqlite3.Connection) -> None:
            for (number,) in connection.execute(older, (row.stream, row.version)).fetchall():
                list_stream(connection, number, row)

        self._write(lambda connection: in_transaction(connection, written))

    def erase(self, streams: Mapping[str, int], at: int, by: str, reason: str) -> list[Erasure]:
        """Erase streams together or not at all. Raises `ConcurrencyConflict`; see the port."""
        erased = self._write(
            lambda connection: in_transaction(connection, lambda c: erase_streams(c, streams, at, by, reason))
        )
        self.watch.look()
        return erased

    def scrub(self, *, thoroughly: bool) -> str | None:
        """Remove the bytes of what was erased from the file and its log; return where some may remain, and why."""
        return translated(lambda: scrubbed(self._connections, self._store, thoroughly=thoroughly), self._store)

    def select_cut(self, stream: str) -> int | None:
        """Return the version where a commit begins whose events are gone from the end of a stream; None for none."""
        # In one question: a commit between two would be one whose events are gone.
        rows = self._fetch(
            f"SELECT min(version) FROM commits WHERE {OF_STREAM} AND version > coalesce(({NEWEST_VERSION}), 0)",  # noqa: S608
            (stream, stream, LAST_VERSION, LAST_VERSION),
        )
        found: int | None = rows[0][0]
        return found

    def select_strays(self) -> list[tuple[str, int]]:
        """Return the id of each stream, or `STRAY` and its number, with events of no commit, and the first of them."""
        found = self._fetch(
            f"SELECT coalesce(s.id, '{STRAY}' || e.stream), min(e.version) FROM events e "  # noqa: S608 - a text of ours
            f"LEFT JOIN streams s ON s.number = e.stream LEFT JOIN commits c ON {COMMIT_OF_EVENT} "
            "WHERE (e.version < c.version + c.size AND e.position = c.position + e.version - c.version) IS NOT TRUE "
            "GROUP BY e.stream",
            (),
        )
        # SQLite keeps whatever a hand wrote, also where a version or an id stands.
        return [(str(stream), version if isinstance(version, int) else 0) for stream, version in found]

    def select_last_position(self) -> int:
        """Return where the log ends, 0 when it is empty. No event ever appears later at or before it."""
        return self._fetch("SELECT max(position) FROM events", ())[0][0] or 0

    def select_grown(self, after: int) -> tuple[int, Mapping[str, int]]:
        """Return where the log ends, and the newest version of each stream with events after position `after`."""
        rows = self._fetch(
            "SELECT s.id, max(e.version), max(e.position) FROM events e LEFT JOIN streams s ON s.number = e.stream "
            # The plus keeps SQLite from walking through all streams in the order in which they are grouped.
            "WHERE e.position > ? GROUP BY +e.stream",
            (after,),
        )
        # SQLite keeps whatever a hand wrote. What is no version, or no stream, is for the reader of the stream to tell.
        grown = {row[0]: row[1] if isinstance(row[1], int) else LAST_VERSION for row in rows if isinstance(row[0], str)}
        return max(row[2] for row in rows) if rows else min(after, self.select_last_position()), grown

    def select_chain(self, stream: str, after: int, limit: int | None) -> list[ChainRow]:
        """Return what the chain of a stream is made of, after version `after`, at most `limit` events of it."""
        rows = self._fetch(
            f"SELECT {_ROW}, e.position, {_HEAD_OF_FIRST}, {_PLACE_OF_FIRST}, {_DIGEST_OF_FIRST} "
            f"{_OF_ONE} {_AFTER_VERSION}",
            (stream, stream, after + 1, after, -1 if limit is None else limit),
        )
        return [ChainRow(*row) for row in rows]

    def hurry(self) -> None:
        """Do nothing: a file is waited for no longer than its patience."""

    def close(self) -> None:
        """Close the watch and every connection. Safe to call twice."""
        self.watch.close()
        self._connections.close()

    def _fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return self._read(lambda connection: fetch_all(connection, statement, parameters))

    def _run(self, statement: str, parameters: Sequence[Any]) -> None:
        self._write(lambda connection: connection.execute(statement, parameters))

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return translated(lambda: self._connections.write(work), self._store)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return translated(lambda: self._connections.read(work), self._store)
