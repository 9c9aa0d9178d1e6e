"""The ports of the runner to the outside, as protocols. Adapters live in `infrastructure`."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Protocol, runtime_checkable

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.inference import ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Commit, Recorded, Snapshot, StreamHead

__all__ = ["EventStore", "Lease", "ModelDriver", "SnapshotStore", "StoredStream", "StreamingModelDriver"]


class StoredStream(Protocol):
    """A stream as it was read: its records in order, and the head of the last of them."""

    @property
    def records(self) -> Sequence[Recorded[Event]]:
        """The records, oldest first."""
        ...

    @property
    def head(self) -> StreamHead:
        """The head of the last record; without records that of the event they were to come after.

        It is made of these records alone, so an append after it has seen all the events that it follows.
        """
        ...

    @property
    def is_end(self) -> bool:
        """Whether no record stood behind it when it was read."""
        ...


class Lease(Protocol):
    """Advisory ownership of a session while this process runs it. Freed when the process dies."""

    async def release(self) -> None:
        """Give the session up. Safe to call twice."""
        ...


class SnapshotStore(Protocol):
    """Keeps one snapshot of a stream. Snapshots are caches: losing them costs time only."""

    async def snapshot(self, stream: str) -> Snapshot | None:
        """Return the snapshot that was kept of the stream.

        None when there is none, when it is damaged, and when no commit of the stream ends at its head.
        """
        ...

    async def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        """Store a snapshot of the stream in the place of the one before."""
        ...


class EventStore(SnapshotStore, Protocol):
    """Streams of events with optimistic concurrency. `stream` is a typed id such as `agent:triage-7`."""

    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        """Store all events of `commit` after `expected`, or none of them.

        Raises `ConcurrencyConflict` when the stream is not at `expected`, a `StoreUnavailable` when no event was
        written, `AppendOutcomeUnknown` when that cannot be known. A commit that is stored already is found by its
        commit id: appending it again returns its head.
        """
        ...

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        """Return the records after a version, at most `limit`; an unknown stream is empty.

        After a head they are whole commits, at most `limit` records of them or one commit that is longer, and their
        digests have been verified from that head on: what leads to an effect is read so. Raises `CorruptRecord`.
        """
        ...

    async def head(self, stream: str) -> StreamHead:
        """Return where the stream ends now: for an append that holds whatever stands before it."""
        ...

    async def digest(self, stream: str, version: int) -> bytes:
        """Return the digest of the commit that holds event `version` of the stream; empty when there is none."""
        ...

    async def version(self, stream: str) -> int:
        """Return the newest version of the stream, 0 when it is unknown. Cheap: asked while an effect runs."""
        ...

    async def streams(self, prefix: str) -> Sequence[str]:
        """Return the ids of the streams that begin with `prefix`, oldest first."""
        ...

    def log(
        self,
        *,
        after: int = 0,
        types: Sequence[str] = (),
        stream: str | None = None,
        limit: int | None = None,
        on_corrupt: Callable[[CorruptRecord], None] | None = None,
    ) -> AsyncIterator[tuple[int, str, Recorded[Event]]]:
        """Yield (position, stream, record) of every stream, or of one, after `after`, in the order they were stored.

        A record that cannot be read raises `CorruptRecord` with its position, or is told to `on_corrupt` in its turn
        and left out. `limit` counts those too. No record ever appears later at or before a position that was yielded.
        """
        ...

    async def last_position(self) -> int:
        """Return where the log ends now, 0 when it is empty. No record ever appears later at or before it."""
        ...

    async def wait_past(self, position: int, *, timeout: float) -> None:
        """Return as soon as something may stand after `position` in the log, at the latest after `timeout` seconds.

        Raises `StoreUnavailable` when the store is closed meanwhile.
        """
        ...

    async def place(self, follower: str) -> int:
        """Return the position that a follower of the log has kept, 0 when it has kept none."""
        ...

    async def keep_place(self, follower: str, position: int) -> None:
        """Store how far a follower has come; one that is further already stays there."""
        ...

    async def acquire(self, stream: str, *, owner: str, take_over: bool = False) -> Lease:
        """Take the lease of a stream or raise `SessionBusy`. `take_over` takes it from a live owner."""
        ...

    async def is_leased(self, stream: str) -> bool | None:
        """Tell whether some process holds the lease of a stream, without taking it; None when that cannot be known."""
        ...

    async def close(self) -> None:
        """Release every resource. Safe to call twice."""
        ...


class ModelDriver(Protocol):
    """Speaks to one model. Retries are not its business: it raises, and the error policy decides."""

    def describe(self) -> ModelInfo:
        """Return what is recorded about the model."""
        ...

    async def infer(self, request: ModelRequest) -> ModelReply:
        """Send the request and return the reply. Raises what the provider's client raises."""
        ...

    async def close(self) -> None:
        """Release connections or processes. Safe to call twice."""
        ...


@runtime_checkable
class StreamingModelDriver(ModelDriver, Protocol):
    """A driver that can also show a reply while it is written. Only asked to when somebody watches."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """Send the request and yield what is written, piece by piece, and last the whole reply, which `infer` returns.

        No piece holds anything of a tool call. Raises what `infer` raises, also for a stream that breaks off.
        """
        ...
