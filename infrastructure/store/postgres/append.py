"""The call that stores a group of commits in PostgreSQL: one statement, and one row of the answer for each commit."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from steptrail.domain.errors import ConcurrencyConflict
from steptrail.domain.kernel.record import StreamHead
from steptrail.infrastructure.store.core.digest import commit_digest
from steptrail.infrastructure.store.core.index import as_json
from steptrail.infrastructure.store.core.recorder import PendingCommit
from steptrail.infrastructure.store.postgres.call import Call, byte_strings, integer, integers, json_object
from steptrail.infrastructure.store.postgres.driver import Connection, undone

AnswerRow: TypeAlias = tuple[bytes | None, ...]
"""Whether a commit is stored, the newest version of its stream, and the digest of the commit."""

NOT_STORED: AnswerRow = (b"\0", None, None)
_APPEND = Call(
    "steptrail_append",
    # Nothing is stored where the tables are others than those that the numbers of the types were asked of.
    "SELECT is_stored, newest, seal FROM steptrail.append_commits("
    "CASE WHEN $10::bigint = 'steptrail.types'::regclass::bigint THEN $1::jsonb ELSE '[]'::jsonb END, "
    "$2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[])",
)
_TRUE = b"\1"


def appended(connection: Connection, commits: Sequence[PendingCommit]) -> list[AnswerRow]:
    """Return what came of each of the commits. For work of `attempt`: it is undone where the tables were made anew."""
    given = _parameters(commits, connection.types)
    rows = _APPEND.rows(connection, (*given, integer(connection.types_of)))
    if len(rows) < len(commits):
        connection.types.clear()
        raise undone("the tables were made anew")
    return rows


def _parameters(commits: Sequence[PendingCommit], types: Mapping[str, int]) -> tuple[bytes, ...]:
    seals = [commit_digest(commit.expected.digest, commit.stream, commit.head, commit.rows) for commit in commits]
    rows = [row for commit in commits for row in commit.rows]
    blobs = [blob for commit in commits for blob in commit.blobs]
    return (
        json_object(list(map(_head, commits))),
        byte_strings([commit.expected.digest for commit in commits]),
        byte_strings(seals),
        integers([types[topic] for _, topic, _, _, _ in rows]),
        integers([at for _, _, at, _, _ in rows]),
        byte_strings([state for _, _, _, state, _ in rows]),
        byte_strings([content for _, _, _, _, content in rows]),
        byte_strings([blob.digest for blob in blobs]),
        byte_strings([blob.body for blob in blobs]),
    )


def _head(commit: PendingCommit) -> dict[str, object]:
    head = commit.head
    return {
        "stream": commit.stream,
        "expected": commit.expected.version,
        "commit_id": head.commit_id,
        "actor": head.actor,
        "causation": head.causation,
        "segment": head.segment,
        "key_id": head.key_id,
        "size": len(commit.rows),
        "blobs": len(commit.blobs),
        "summary": None if commit.summary is None else msgspec.Raw(as_json(commit.summary).encode()),
    }


def outcome(commit: PendingCommit, row: AnswerRow) -> StreamHead | ConcurrencyConflict:
    """Return where the stream stands behind a commit, or the conflict that it met."""
    is_stored, version, seal = row
    newest = int.from_bytes(version or b"", "big")
    if is_stored == _TRUE:
        return StreamHead(newest, seal or b"")
    return ConcurrencyConflict(commit.stream, commit.expected.version, newest)
