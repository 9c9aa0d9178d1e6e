"""The envelope of an event: its place, its time, and the commit that stored it."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from steptrail.domain.base import BoundedCount
from steptrail.domain.kernel.event import Event
from steptrail.domain.shared.summary import RunSummary

E_co = TypeVar("E_co", bound=Event, covariant=True)


class CommitHead(Struct, frozen=True, kw_only=True):
    """The data that all events of one commit share.

    `actor` names who caused the commit (`runner`, `user`, `operator:ana`, …). `causation` names the record or command
    that the commit answers. `segment` is the number of the segment that wrote it, 0 for none. `key_id` names the key
    that sealed the body.
    """

    commit_id: str
    actor: str
    causation: str | None = None
    segment: BoundedCount = 0
    key_id: str | None = None


class Recorded(Struct, Generic[E_co], frozen=True, gc=False):
    """One event with its place and time.

    `version` is the position in the stream, from 1. `at` is an instant in microseconds of UTC. Inside a segment it
    never runs backwards, and the difference of two instants is a duration by a monotonic clock.
    """

    version: int
    at: int
    event: E_co
    head: CommitHead | None = None


class StreamHead(NamedTuple):
    """The end of a stream: the version of its newest event and the digest of its newest commit."""

    version: int
    digest: bytes


class StreamVersion(NamedTuple):
    """A place in a stream: after its event `version`. `digest` is that of its commit in hex, empty if unknown."""

    stream: str
    version: int
    digest: str = ""


EMPTY_STREAM = StreamHead(0, b"")
"""The head of a stream with no events."""


class Snapshot(NamedTuple):
    """A cache of the state after the commit that ends at `head`. `format` is that of the codec that encoded it."""

    head: StreamHead
    format: str
    state: bytes


class Commit(Struct, frozen=True):
    """Events that are stored together or not at all; `events` pairs each with its instant.

    `summary` is the row of the stream in the index, where the standing is another one after these events; None where it
    is not. `files` are bytes that the events name by their SHA-256, in hexadecimal. Both are stored with them.
    """

    head: CommitHead
    events: tuple[tuple[int, Event], ...]
    summary: RunSummary | None = None
    files: Mapping[str, bytes] = {}


def base_of(expected: StreamHead, row: RunSummary | None) -> str | None:
    """Return the stream that a first commit opens a fork of, or that began its own; None for any other commit.

    `row` is the row of the index that comes with the commit. A stream is not begun on one that is erased.
    """
    if expected != EMPTY_STREAM or row is None:
        return None
    return row.fork_of or (None if row.parent is None else row.parent.stream)
