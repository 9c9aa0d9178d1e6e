"""The ports through which the runtime reaches the outside, as protocols. Their adapters are in `infrastructure`."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.inference import ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.kernel.erasure import Erasure
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.log_page import LogEntry, LogPage
from steptrail.domain.kernel.record import Commit, Recorded, Snapshot, StreamHead
from steptrail.domain.shared.summary import RunSummary


class StoredStream(Protocol):
    """A stream as it was read: its records in order, and the head of the last of them."""

    @property
    def records(self) -> Sequence[Recorded[Event]]:
        """The records, oldest first."""
        ...

    @property
    def head(self) -> StreamHead:
        """The head of the last record; if there are no records, the head after which they were asked for.

        It is computed from these records alone. So an append after this head has seen all the events before it.
        """
        ...

    @property
    def is_end(self) -> bool:
        """Whether there were no more records when the stream was read."""
        ...


class Lease(Protocol):
    """Advisory ownership of a stream. The lease is freed when the process dies."""

    @property
    def is_held(self) -> bool:
        """Whether nobody else has got it since, as far as is known here: one that ends by a clock may have run out."""
        ...

    async def release(self) -> None:
        """Give the stream up. Safe to call twice."""
        ...


class EventStore(Protocol):
    """Streams of events with optimistic concurrency. `stream` is a typed id such as `agent:triage-7`."""

    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        """Store all events of `commit` after `expected`, or none of them.

        Raises `ConcurrencyConflict` when the stream is not at `expected`, or is begun on an erased one (see `base_of`),
        `StoreUnavailable` when no event was written, and `AppendOutcomeUnknown` when that cannot be known. A commit
        that is stored already is found by its commit id: appending it again returns its head.
        """
        ...

    async def file(self, digest: str) -> bytes | None:
        """Return the bytes of a file that was stored with a commit, by its SHA-256; None when there are none."""
        ...

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        """Return the records after a version, at most `limit`; an unknown stream is empty.

        With a limit they may be fewer, so that large ones are not all held at once: `is_end` says whether more follow.
        If `after` is a head, whole commits are returned, at most `limit` records of them or one commit that is longer.
        Their digests are verified from that head on; everything that leads to an effect is read in this way. Raises
        `CorruptRecord`, and `StoreSetBack` where the stream is sound and has no such head.
        """
        ...

    async def proven(
        self, stream: str, upto: StreamHead, types: Mapping[str, bytes]
    ) -> Sequence[Recorded[Event]] | None:
        """Return some of the records up to a head, in order, if the digests prove that all up to it can be read.

        `types` maps stored types to bytes: of each type come the newest record and those whose stored state holds the
        bytes: JSON without blanks, of all fields but those in its `CONTENT`. No other event is decoded, which makes
        this much quicker than `read`. The records come without the heads of their commits. None when something is not
        what was appended, which `read` may name, and when there is an event of a type that is not in use.
        """
        ...

    async def newest_of(self, stream: str, upto: StreamHead, types: Mapping[str, bytes]) -> Sequence[Recorded[Event]]:
        """Return what `proven` returns, of events that nothing is proven of. Raises `CorruptRecord` for one of them."""
        ...

    async def snapshot(self, stream: str) -> Snapshot | None:
        """Return the snapshot of the stream, which is a cache: losing it costs time only.

        None when there is no snapshot, when it is damaged, and when no commit of the stream ends at its head.
        """
        ...

    async def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        """Store a snapshot of the stream. It replaces the one before."""
        ...

    async def head(self, stream: str) -> StreamHead:
        """Return the present head of the stream, for an append that is right whatever comes before it."""
        ...

    async def digest(self, stream: str, version: int) -> bytes:
        """Return the digest of the commit that holds event `version` of the stream; empty when there is none."""
        ...

    async def version(self, stream: str) -> int:
        """Return the newest version of the stream; 0 when it is unknown. Must be quick: it is asked during effects."""
        ...

    async def streams(self, prefix: str) -> Sequence[str]:
        """Return the ids of the streams that begin with `prefix`, oldest first."""
        ...

    async def index(self, asked: IndexQuery) -> Sequence[RunSummary]:
        """Return the rows of the index that a query asks for, the stream that began last first.

        Each says what its last commit has made of the standing: the row is stored with the commit, or not at all. Of a
        text 500 characters are kept, with U+FFFD for NUL.
        """
        ...

    async def count(self, asked: IndexQuery) -> int:
        """Return how many rows of the index a query asks for, whatever its limit."""
        ...

    async def erase(self, streams: Mapping[str, int], *, at: int, by: str, reason: str) -> Sequence[Erasure]:
        """Erase streams with all that stands of them in the store, together or not at all.

        Each must end at the version that is given with it. An `Erased` event of a commit by `by` takes the place of its
        events, behind the end of the log. From then on `read` and `head` raise `SessionErased`, and `append` that or
        `ConcurrencyConflict`; no snapshot is kept, and of its row only `updated_at`, `parent` and `is_erased` are left,
        for a query that asks for `erased`. `at` is in microseconds of UTC. Raises `ConcurrencyConflict` when a stream
        has grown or is not there any more, and when one that is not erased shares its past or was begun by it.
        """
        ...

    async def erasure(self, stream: str) -> Erasure | None:
        """Return what is remembered of an erased stream; None for any other."""
        ...

    async def scrub(self, *, thoroughly: bool = False) -> str | None:
        """Remove the bytes of erased streams from the files of the store; return where some may remain, else None.

        Without `thoroughly` it does only what takes no longer than a moment.
        """
        ...

    def log(
        self,
        *,
        after: int = 0,
        types: Sequence[str] = (),
        stream: str | None = None,
        limit: int | None = None,
        on_corrupt: Callable[[CorruptRecord], None] | None = None,
    ) -> AsyncIterator[LogEntry]:
        """Yield the entries of all streams, or of one, after `after`, in the order they were stored.

        A record that cannot be read raises `CorruptRecord` with its position. With `on_corrupt`, that is called with
        the error in the record's turn, and the record is left out. `limit` counts such records too. No record ever
        appears later at or before a position that was yielded.
        """
        ...

    async def log_page(
        self,
        after: int,
        limit: int,
        *,
        types: Sequence[str] = (),
        stream: str | None = None,
        heads: bool = True,
        is_lazy: bool = False,
    ) -> LogPage:
        """Return what `log` yields after `after`, at most `limit` records, in one piece; fewer when they are large.

        With `heads` False records may come without the heads of their commits, which is quicker. A lazy page reads each
        record when it is asked for, in that thread, and may block.
        """
        ...

    async def last_position(self) -> int:
        """Return the last position of the log; 0 when it is empty. No record ever appears later at or before it."""
        ...

    async def grown(self, after: int) -> tuple[int, Mapping[str, int]]:
        """Return the last position of the log, and the newest version of each stream that has records after `after`.

        Records of these streams up to that position can be read from now on. Decodes nothing, so damage is not noticed.
        A position before `after` means that the log does not reach there: an older one has taken its place.
        """
        ...

    async def wait_past(self, position: int, *, timeout: float) -> None:
        """Return as soon as the log may have records after `position`, at the latest after `timeout` seconds.

        Raises `StoreUnavailable` when the store is closed meanwhile.
        """
        ...

    async def place(self, follower: str) -> int:
        """Return the position that a follower of the log has kept; 0 when it has kept none."""
        ...

    async def keep_place(self, follower: str, position: int) -> None:
        """Store the position of a follower. A position before the stored one is ignored."""
        ...

    async def acquire(self, stream: str, *, owner: str, take_over: bool = False) -> Lease:
        """Take the lease of a stream, or raise `SessionBusy`. `take_over` takes it from a live owner."""
        ...

    async def is_leased(self, stream: str) -> bool | None:
        """Tell whether some process holds the lease of a stream, without taking it; None when that cannot be known."""
        ...

    async def leased(self) -> frozenset[str] | None:
        """Return the streams whose lease some process holds, without taking any; None when that cannot be known."""
        ...

    async def close(self) -> None:
        """Release every resource. Safe to call twice."""
        ...


class ModelDriver(Protocol):
    """Speaks to one model. A driver does not retry: it raises, and the error policy decides."""

    def describe(self) -> ModelInfo:
        """Return the description of the model that is recorded with each execution."""
        ...

    async def infer(self, request: ModelRequest) -> ModelReply:
        """Send the request and return the reply. Raises what the provider's client raises."""
        ...

    async def close(self) -> None:
        """Release connections or processes. Safe to call twice."""
        ...


@runtime_checkable
class StreamingModelDriver(ModelDriver, Protocol):
    """A driver that can also show a reply while it is written. `stream` is called only when somebody watches."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """Send the request; yield the text piece by piece, and at the end the whole reply that `infer` would return.

        The pieces hold no part of a tool call. Raises what `infer` raises, also for a stream that breaks off.
        """
        ...
