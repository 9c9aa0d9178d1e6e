"""The envelope: what is known about an event beside the event itself."""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from steptrail.domain.kernel.event import Event

__all__ = ["EMPTY_STREAM", "Commit", "CommitHead", "Recorded", "Snapshot", "StreamHead", "StreamVersion"]

E_co = TypeVar("E_co", bound=Event, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHead:
    """What all events of one commit share.

    `actor` says who caused it (`runner`, `user`, `operator:ana`, …), `causation` names the record or command it
    answers, `segment` is the stretch of the run that wrote it (0: none), `key_id` names the key that sealed the body.
    """

    commit_id: str
    actor: str
    causation: str | None = None
    segment: int = 0
    key_id: str | None = None


class Recorded(NamedTuple, Generic[E_co]):
    """One event with its place and time.

    `version` is the position in the stream, from 1. `at` is an instant in microseconds of UTC that never runs
    backwards inside a segment: differences inside a segment are durations by a monotonic clock.
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
    """A place in a stream: after its event `version`; `digest` is that of its commit, in hex, where it is known."""

    stream: str
    version: int
    digest: str = ""


EMPTY_STREAM = StreamHead(0, b"")
"""The head of a stream with no events."""


class Snapshot(NamedTuple):
    """A cache of the state after the commit that ends at `head`; `format` says which fold made it, written how."""

    head: StreamHead
    format: str
    state: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """Events that are stored together or not at all; `events` pairs each with its instant."""

    head: CommitHead
    events: tuple[tuple[int, Event], ...]
