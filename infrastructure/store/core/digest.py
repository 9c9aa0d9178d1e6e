"""The tamper-evident chain: one SHA-256 per commit, over the commit before it and everything the commit says.

It is made of numbers (8 bytes each, big endian) and then of texts and bytes, one after another. The numbers are the
segment, how many events there are, the version and the instant of each, and the length of each text that follows, -1
for one that is absent: so no two different commits feed the same bytes. The texts are the previous digest, stream,
commit id, actor, causation and key id, and of each event its type, its state and the SHA-256 of its content: a content
that is sealed or erased leaves the chain whole.
A chain shows a change anywhere but a cut at its very end: for that, compare with a digest that was kept elsewhere.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import itemgetter
from struct import error as StructError, pack
from typing import Any, NamedTuple

from steptrail.domain.kernel.record import EMPTY_STREAM, CommitHead, StreamHead
from steptrail.infrastructure.store.core.blobs import Encoded, FetchBody, blob_fault, is_detached, no_blobs

_CommitColumns = tuple[str | None, str | None, str | None, int | None, str | None]


class ChainRow(NamedTuple):
    """One stored event as the chain sees it; the fields from `commit_id` on stand on the first row of a commit only.

    The position in the log is in no digest. It grows, by one inside of a commit, and that of the first event stands in
    the row of the commit as well (`first_position`), with the number of events (`size`): that much can be verified.
    """

    version: int
    topic: str
    at: int
    state: bytes
    content: bytes | None
    position: int
    commit_id: str | None
    actor: str | None
    causation: str | None
    segment: int | None
    key_id: str | None
    first_position: int | None
    size: int | None
    digest: bytes | None

    @property
    def commit(self) -> _CommitColumns:
        """The columns of the head of its commit."""
        return self.commit_id, self.actor, self.causation, self.segment, self.key_id


_version_of, _instant_of = itemgetter(0), itemgetter(2)
_HEAD = ChainRow._fields.index("commit_id")
_NO_HEAD = (None,) * (len(ChainRow._fields) - _HEAD)


class ChainFault(NamedTuple):
    """The first commit that is not what was appended: its first version, its id, and what is wrong with it."""

    version: int
    commit_id: str | None
    why: str


def commit_digest(previous: bytes, stream: str, head: CommitHead, rows: Sequence[Encoded]) -> bytes:
    """Return the digest of a commit; `rows` are its events in order."""
    return _digest(previous, stream, (head.commit_id, head.actor, head.causation, head.segment, head.key_id), rows)


def _digest(previous: bytes, stream: str, head: _CommitColumns, rows: Sequence[Sequence[Any]]) -> bytes:
    commit_id, actor, causation, segment, key_id = head
    texts = [previous, _known_text(stream), _text(commit_id), *map(_known_text, (actor, causation, key_id))]
    numbers = [segment or 0, len(rows), *map(_version_of, rows), *map(_instant_of, rows)]
    for row in rows:
        content = row[4]
        texts += (_known_text(row[1]), row[3], None if content is None else sha256(content).digest())
    numbers += [-1 if text is None else len(text) for text in texts]
    return sha256(pack(f">{len(numbers)}q", *numbers) + b"".join(filter(None, texts))).digest()


def verify_chain(
    stream: str, rows: Iterable[ChainRow], fetch: FetchBody | None = no_blobs, *, after: StreamHead = EMPTY_STREAM
) -> ChainFault | None:
    """Return the first bad commit of the stream, or None. `rows` follow `after` and are in order.

    `fetch` returns the blobs that the events refer to; without one they are not looked at.
    """
    version, previous = after
    position = 0
    commit: list[ChainRow] = []
    for row in rows:
        if row.version != version + 1:
            place = _place(row.version, version + 1)
            what = f"event {version + 1} is missing: {row.version} stands in its place"
            return _fault(commit or [row._replace(version=place)], what)
        version = row.version
        if row.commit_id is not None and commit:
            if why := _check(stream, previous, commit, fetch):
                return _fault(commit, why)
            previous = commit[0].digest or b""
            commit = []
        commit.append(row)
        if not _goes_on(row.position, position, is_first=row.commit_id is not None):
            return _fault(commit, f"event {version} is out of order: it has position {row.position!r} in the log")
        position = row.position
    if commit and (why := _check(stream, previous, commit, fetch)):
        return _fault(commit, why)
    return None


def _check(stream: str, previous: bytes, commit: Sequence[ChainRow], fetch: FetchBody | None) -> str | None:
    first = commit[0]
    if first.commit_id is None or first.actor is None or first.digest is None:
        return "it has no head"
    try:
        digest = _digest(previous, stream, first.commit, commit)
    except (AttributeError, TypeError, StructError):
        return "it holds a value of the wrong type"
    if digest != first.digest:
        return "its content does not match its digest"
    if first.first_position != first.position:
        return f"it has been moved in the log, from position {first.first_position!r} to {first.position!r}"
    if first.size != len(commit):
        return f"it has {len(commit)} events and says that they are {first.size!r}"
    if len(commit) > 1 and any(row[_HEAD:] != _NO_HEAD for row in commit[1:]):
        return "an event inside of it has a head of its own"
    if fetch is None:
        return None
    heavy = [row for row in commit if is_detached(row.state) or is_detached(row.content)]
    faults = ((row.version, blob_fault(part, fetch)) for row in heavy for part in (row.state, row.content))
    return next((f"event {version}: {why}" for version, why in faults if why is not None), None)


def _goes_on(found: object, position: object, *, is_first: bool) -> bool:
    # SQLite keeps whatever type a hand wrote into a column.
    if not isinstance(found, int) or not isinstance(position, int):
        return False
    return found > position if is_first or not position else found == position + 1


def _fault(commit: Sequence[ChainRow], why: str) -> ChainFault:
    return ChainFault(commit[0].version, commit[0].commit_id, why)


def _text(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


_known_text = lru_cache(maxsize=1024)(_text)


def _place(found: object, expected: int) -> int:
    # SQLite keeps whatever type a hand wrote into a column.
    return found if isinstance(found, int) else expected
