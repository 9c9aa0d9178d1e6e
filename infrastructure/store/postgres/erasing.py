"""Erases streams from a PostgreSQL store.

A writer that is at work on the same stream meets the erasure at a row: a commit at the key that its place takes, a
snapshot at the row of the stream, a blob at the blob. The rows that are gone stay in the files of the server until they
are vacuumed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, LiteralString, NamedTuple, cast
from uuid import uuid4

from steptrail.domain.errors import ConcurrencyConflict, StoreReadOnly
from steptrail.domain.kernel.erasure import Erased, Erasure
from steptrail.domain.kernel.record import CommitHead
from steptrail.infrastructure.store.core.contents import encoded_parts
from steptrail.infrastructure.store.core.digest import commit_digest
from steptrail.infrastructure.store.core.index import FORGOTTEN
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import Connection, Row, ServerFailure, attempt, together
from steptrail.infrastructure.store.postgres.errors import translate
from steptrail.infrastructure.store.postgres.schema import TAKE_OFF

if TYPE_CHECKING:
    import psycopg

_LOCK: LiteralString = "SELECT number FROM steptrail.streams WHERE id = ANY(%s) ORDER BY number FOR UPDATE"
_FOUND: LiteralString = (
    "SELECT s.number, (SELECT max(version) FROM steptrail.events WHERE stream = s.number), "
    "(SELECT count(*) FROM steptrail.events WHERE stream = s.number), "
    "(SELECT digest FROM steptrail.commits WHERE stream = s.number ORDER BY version DESC LIMIT 1) "
    "FROM steptrail.streams s WHERE id = %s AND status IS DISTINCT FROM 'erased'"
)
_SHARED: LiteralString = (
    # Two questions, each with its index: for one with OR all streams were read, as our connections take no bitmaps.
    "SELECT 1 FROM (SELECT id, version FROM steptrail.streams WHERE parent = ANY(%s) UNION ALL "
    "SELECT id, version FROM steptrail.streams WHERE fork_of = ANY(%s)) s "
    "WHERE version IS NOT NULL AND NOT id = ANY(%s) LIMIT 1"
)
_OF_BLOBS: LiteralString = "digest IN (SELECT digest FROM steptrail.blob_uses WHERE stream = %s)"
_DELETIONS: tuple[LiteralString, ...] = (
    "DELETE FROM steptrail.events WHERE stream = %s AND version <> %s",
    "DELETE FROM steptrail.commits WHERE stream = %s AND version <> %s",
)
_VACUUM: LiteralString = (
    "VACUUM steptrail.events, steptrail.commits, steptrail.blobs, steptrail.blob_uses, steptrail.snapshots, "
    "steptrail.waits, steptrail.streams"
)
_COPIES = "its log, archives of that and backups keep them as long as they are kept"
_REMAINS = (
    "the server keeps the rows in its files until they are vacuumed, which `steptrail erase --finish` does; " + _COPIES
)
_FREED = (
    "the server has freed the places of all rows that no older transaction still sees, and overwrites them when it "
    f"uses them again; {_COPIES}"
)


def erase_streams(
    connection: Connection, streams: Mapping[str, int], type_number: int, at: int, by: str, reason: str
) -> list[Erasure]:
    """Erase streams that end at these versions, in one transaction. Raises `ConcurrencyConflict`."""
    ids = list(streams)
    with together(connection):
        connection.execute(TAKE_OFF)
        # Their places in the order in which an append takes them: first that of the commit, then the row of the stream.
        ends = [_ended(connection, each, streams[each], type_number, at, by) for each in ids]
        connection.execute(_LOCK, (ids,))
        erased = [_erase(connection, end, at, by, reason) for end in ends]
        if connection.execute(_SHARED, (ids, ids, ids)).fetchone() is not None:
            raise ConcurrencyConflict(ids[0], streams[ids[0]], streams[ids[0]])
    return erased


class _WhatIsLeft(NamedTuple):
    """The event that is left of a stream, and what was there before it."""

    stream: str
    number: int
    version: int
    position: int
    events: int
    digest: bytes


def _ended(connection: Connection, stream: str, version: int, type_number: int, at: int, by: str) -> _WhatIsLeft:
    number, newest, events, digest = connection.execute(_FOUND, (stream,)).fetchone() or (None, None, 0, None)
    if number is None or newest != version:
        raise ConcurrencyConflict(stream, version, newest or 0)
    last: bytes = digest or b""
    head = CommitHead(commit_id=uuid4().hex, actor=by)
    state, content = encoded_parts(Erased())
    seal = commit_digest(last, stream, head, [(version + 1, Erased.TYPE, at, state, content)])
    (position,) = cast(Row, connection.execute("SELECT steptrail.draw(1)").fetchone())
    placed = connection.execute(
        "INSERT INTO steptrail.commits (stream, version, position, segment, size, commit_id, actor, digest) "
        "VALUES (%s, %s, %s, 0, 1, %s, %s, %s) ON CONFLICT DO NOTHING",
        (number, version + 1, position, head.commit_id, by, seal),
    )
    if not placed.rowcount:
        raise ConcurrencyConflict(stream, version, version + 1)
    connection.execute(
        "INSERT INTO steptrail.events VALUES (%s, %s, %s, %s, %s, %s, NULL)",
        (position, number, version + 1, at, type_number, state),
    )
    return _WhatIsLeft(stream, number, version + 1, position, events, last)


def _erase(connection: Connection, end: _WhatIsLeft, at: int, by: str, reason: str) -> Erasure:
    stream, number, version, position, events, last = end
    for deletion in _DELETIONS:
        connection.execute(deletion, (number, version))
    # Locked first: who has just said that it refers to one, too, is seen by the next statement.
    connection.execute(f"SELECT 1 FROM steptrail.blobs WHERE {_OF_BLOBS} ORDER BY digest FOR UPDATE", (number,))  # noqa: S608
    connection.execute(
        f"DELETE FROM steptrail.blobs b WHERE {_OF_BLOBS} AND NOT EXISTS "  # noqa: S608
        "(SELECT 1 FROM steptrail.blob_uses u WHERE u.digest = b.digest AND u.stream <> %s)",
        (number, number),
    )
    connection.execute("DELETE FROM steptrail.blob_uses WHERE stream = %s", (number,))
    connection.execute("DELETE FROM steptrail.snapshots WHERE stream = %s", (stream,))
    connection.execute("DELETE FROM steptrail.waits WHERE stream = %s", (number,))
    connection.execute(
        f"UPDATE steptrail.streams SET {FORGOTTEN}, damage = NULL, status = 'erased', updated_at = %s "  # noqa: S608
        "WHERE number = %s",
        (at, number),
    )
    connection.execute(
        "INSERT INTO steptrail.erasures VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (number, position, at, by, reason, events, last),
    )
    return Erasure(stream=stream, position=position, at=at, by=by, reason=reason, events=events, digest=last.hex())


def scrubbed(connections: PostgresConnections, *, thoroughly: bool) -> str:
    """Vacuum the tables, if asked to; return where bytes may remain: a server overwrites nothing at once."""
    if not thoroughly:
        return _REMAINS
    connection, passed_over = connections.open(), list[str]()

    def note(said: "psycopg.errors.Diagnostic") -> None:
        if said.severity_nonlocalized == "WARNING":
            passed_over.append(said.message_primary or "")

    connection.add_notice_handler(note)
    try:
        # As long as it takes: nobody waits for it.
        connection.patience = float("inf")
        attempt(connection, lambda c: c.execute("SET statement_timeout = 0"))
        attempt(connection, lambda c: c.execute(_VACUUM))
    except ServerFailure as failure:
        raise translate(failure, connections.address.name, is_writing=True) from failure
    finally:
        connection.close()
    if passed_over:
        name = connections.address.name
        raise StoreReadOnly(
            f"the server has not vacuumed all tables of the store {name}: let their owner do it ({passed_over[0]})"
        )
    return _FREED
