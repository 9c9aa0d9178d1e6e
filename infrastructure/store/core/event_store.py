"""The event store of the port over a database: async outside, threads inside.

One thread writes and others read; a database in memory has one for both. A caller that is cancelled while its append
runs waits for the end and is then cancelled, so that it always learns the outcome. Several event loops and threads may
use a store, but no forked process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from steptrail.domain.base import LARGEST
from steptrail.domain.errors import CorruptRecord, RecordTooNew, StoreError
from steptrail.domain.kernel.erasure import Erasure
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.log_page import LogEntry, LogPage
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, Recorded, Snapshot, StreamHead
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.core.blobs import (
    LIMIT,
    Blob,
    BlobFault,
    blob_faults,
    detach_all,
    encode_commit,
    files_of,
)
from steptrail.infrastructure.store.core.codec import stored_names
from steptrail.infrastructure.store.core.digest import ChainFault, commit_digest
from steptrail.infrastructure.store.core.index import summary_of
from steptrail.infrastructure.store.core.lease import StoreLease, give_back
from steptrail.infrastructure.store.core.lease_looking import SeenLease
from steptrail.infrastructure.store.core.origin import Origin
from steptrail.infrastructure.store.core.reading import (
    StreamRead,
    check_not_erased,
    read_log,
    read_newest_of,
    read_proven,
    read_sound,
    read_stream,
    verify_stream,
)
from steptrail.infrastructure.store.core.recorder import LogRow, PendingCommit
from steptrail.infrastructure.store.core.snapshots import unsealed
from steptrail.infrastructure.store.core.store_threads import StoreThreads

_LARGE = 1 << 20
"""How many bytes of a commit are too many for the thread of an event loop."""
_PAGE = 500
_LOOKED_THROUGH = 100_000
"""How many positions one question for some types looks through. Such events may be few, and what asks for them in one
question would hold up others, and with a large log take longer than a server is waited for, each time anew."""


class RecorderEventStore(StoreThreads):
    """Implements the port `EventStore`. The arguments are those of `StoreThreads`."""

    origin: Origin | None = None
    """The address that the store was opened at; None for one that was put together otherwise."""
    _types_there: frozenset[str] = frozenset()
    """The names of the types that were stored when the log was last asked for some."""

    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        """Store the whole commit after `expected`, or none of it. Raises `ValueError` for one that cannot be encoded.

        A commit whose id already stands right after `expected` has been stored before; its head is returned.
        """
        if not commit.events:
            raise ValueError(f"a commit to stream {stream!r} needs at least one event")
        rows = encode_commit(commit, expected.version)
        blobs: tuple[Blob, ...] = ()
        # What is large takes a while to look through, and the loop has others to serve.
        size = sum([len(state) + len(content or b"") for _, _, _, state, content in rows])
        is_large = size + sum(map(len, commit.files.values())) > _LARGE
        if size > LIMIT:
            rows, blobs = await self._ask(partial(detach_all, rows)) if is_large else detach_all(rows)
        if commit.files:
            blobs += await self._ask(partial(files_of, commit)) if is_large else files_of(commit)
        pending = PendingCommit(stream, expected, commit.head, rows, blobs, commit.summary)
        return await self._append(pending, is_large=is_large)

    async def file(self, digest: str) -> bytes | None:
        """Return the bytes of a file that was stored with a commit, by its SHA-256; None when there are none."""
        return await self._ask(partial(self.recorder.body, bytes.fromhex(digest)))

    async def append_all(self, stream: str, commits: Sequence[Commit]) -> None:
        """Store a stream from its first commit to its last, whole or not at all.

        What is there already of these commits stays as it is. Raises `ConcurrencyConflict` where others stand.
        """

        def stored() -> Sequence[StreamHead | StoreError]:
            head, pending = EMPTY_STREAM, list[PendingCommit]()
            for commit in commits:
                rows, blobs = detach_all(encode_commit(commit, head.version))
                pending.append(PendingCommit(stream, head, commit.head, rows, blobs + files_of(commit)))
                head = StreamHead(rows[-1][0], commit_digest(head.digest, stream, commit.head, rows))
            with self._writing:
                return self.recorder.append(pending, as_one=True)

        for outcome in await self._write(stored):
            if isinstance(outcome, StoreError):
                raise outcome

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StreamRead:
        """Return the records after a version and the head of the last of them.

        After a head they are whole commits whose digests follow it. Raises `CorruptRecord` for the first that cannot be
        read, or is not what was appended.
        """
        try:
            if isinstance(after, int):
                return await self._read(stream, after, partial(read_stream, self.recorder, stream, after, limit))
            sound = partial(read_sound, self.recorder, stream, after, limit)
            return await self._read(stream, after.version, sound, nothing=lambda: StreamRead([], after, True))
        except CorruptRecord as error:
            with suppress(StoreError):
                await self._write(partial(self._mark, error))
            raise

    async def proven(
        self, stream: str, upto: StreamHead, types: Mapping[str, bytes]
    ) -> Sequence[Recorded[Event]] | None:
        """Return some of the records up to a head, if the digest chain proves that all up to it can be read."""
        return await self._ask(lambda: read_proven(self.recorder, stream, upto, types))

    async def newest_of(self, stream: str, upto: StreamHead, types: Mapping[str, bytes]) -> Sequence[Recorded[Event]]:
        """Return what `proven` returns, of events that nothing is proven of."""
        return await self._ask(lambda: read_newest_of(self.recorder, stream, upto, types))

    async def head(self, stream: str) -> StreamHead:
        """Return where the stream ends now. Raises `SessionErased`."""

        def found() -> StreamHead:
            check_not_erased(self.recorder, stream)
            return self.recorder.select_head(stream)

        return await self._ask(found)

    async def version(self, stream: str) -> int:
        """Return the newest version of the stream, 0 when it is unknown."""
        return await self._answer(lambda: self.recorder.select_version(stream), is_short=self._asks_here())

    async def digest(self, stream: str, version: int) -> bytes:
        """Return the digest of the commit that holds event `version` of the stream; empty when there is none."""
        found = await self._ask(lambda: self.recorder.select_commit(stream, version))
        return found[1] if found is not None else b""

    async def streams(self, prefix: str) -> Sequence[str]:
        """Return the ids of the streams that begin with `prefix`, oldest first."""
        return await self._ask(lambda: self.recorder.select_streams(prefix))

    async def index(self, asked: IndexQuery) -> Sequence[RunSummary]:
        """Return the rows of the index that a query asks for, the stream that began last first."""
        return await self._ask(lambda: [summary_of(row) for row in self.recorder.select_index(asked)])

    async def count(self, asked: IndexQuery) -> int:
        """Return how many rows of the index a query asks for, whatever its limit."""
        return await self._ask(lambda: self.recorder.count_index(asked))

    async def list_anew(self, row: RunSummary) -> None:
        """Write the row of a stream in the index, unless a newer one is there."""
        await self._write(lambda: self.recorder.list_anew(row))

    async def erase(self, streams: Mapping[str, int], *, at: int, by: str, reason: str) -> Sequence[Erasure]:
        """Erase streams that end at these versions, together or not at all. See the port."""
        return await self._write(lambda: self.recorder.erase(streams, at, by, reason))

    async def erasure(self, stream: str) -> Erasure | None:
        """Return what is remembered of an erased stream; None for any other."""
        return await self._ask(lambda: self.recorder.select_erasure(stream))

    async def scrub(self, *, thoroughly: bool = False) -> str | None:
        """Remove the bytes of what was erased from the files; return where some may remain. See the port."""
        erasure = self.recorder.select_erasure
        await self._ask(lambda: give_back(self._leases, lambda stream: erasure(stream) is not None), self._keeper)
        return await self._write(lambda: self.recorder.scrub(thoroughly=thoroughly))

    def _mark(self, error: CorruptRecord) -> None:
        """Have lists say that a stream is damaged. A store that cannot be written now says so another time."""
        if not isinstance(error, RecordTooNew):
            with suppress(StoreError):
                self.recorder.mark_damage(error.stream, str(error))

    async def all_streams(self) -> Sequence[str]:
        """Return the ids of all streams, those that have lost their first events included, oldest first."""
        return await self._ask(self.recorder.select_all_streams)

    async def strays(self) -> Sequence[tuple[str, int]]:
        """Return the id of each stream with events that belong to no commit, and the version of the first of them."""
        return await self._ask(self.recorder.select_strays)

    async def log(
        self,
        *,
        after: int = 0,
        types: Sequence[str] = (),
        stream: str | None = None,
        limit: int | None = None,
        on_corrupt: Callable[[CorruptRecord], None] | None = None,
    ) -> AsyncIterator[LogEntry]:
        """Yield the entries in the order they were stored, and end where the log ends now.

        `types` are names in use; what was stored under a name that is read as one of them by now comes along, and so
        does what a newer version stored, which cannot be read. Raises `CorruptRecord` for the first that cannot be
        read, or tells `on_corrupt` and leaves it out.
        """
        left = LARGEST if limit is None else limit
        while left > 0:
            page = await self.log_page(after, min(left, _PAGE), types=types, stream=stream)
            for item in page.items:
                if isinstance(item, LogEntry):
                    yield item
                elif on_corrupt is None:
                    raise item
                else:
                    on_corrupt(item)
            if page.is_end:
                return
            after, left = page.reached, left - page.size

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
        """Return at most `limit` records of the log after a position, with errors in place of what cannot be read."""

        def read(after: int) -> LogPage:
            until = after + _LOOKED_THROUGH
            is_part = bool(types) and stream is None and self.recorder.select_last_position() > until
            rows = self._select_log(after, limit, types, stream, heads=heads, until=until if is_part else LARGEST)
            page = read_log(self.recorder, rows, after, limit, is_lazy=is_lazy, on_damage=self._mark)
            return page._replace(reached=page.reached if rows else until, is_end=False) if is_part else page

        page = await self._ask(partial(read, after))
        while limit and not (page.size or page.is_end):
            page = await self._ask(partial(read, page.reached))
        return page

    def _select_log(
        self, after: int, limit: int, types: Sequence[str], stream: str | None, *, heads: bool, until: int
    ) -> list[LogRow]:
        """Return the rows of some types, or of all without any, with what a newer version stored under other names.

        That cannot be read here, and who asks for a type is to be told so: passed over, it would be missing from what
        is made of the log, and nobody would know.
        """
        if not types:
            return self.recorder.select_log(after, limit, (), stream, heads=heads, until=until)
        while True:
            known = self._types_there
            rows = self.recorder.select_log(after, limit, stored_names(types, known), stream, heads=heads, until=until)
            # Asked behind the rows, so that they can hold no type that is not among these.
            there = frozenset(self.recorder.select_types())
            if there == known:
                return rows
            self._types_there = there

    async def last_position(self) -> int:
        """Return where the log ends now, 0 when it is empty."""
        return await self._ask(self.recorder.select_last_position)

    async def grown(self, after: int) -> tuple[int, Mapping[str, int]]:
        """Return where the log ends now, and the newest version of each stream that has grown after a position."""
        return await self._ask(lambda: self.recorder.select_grown(after))

    async def wait_past(self, position: int, *, timeout: float) -> None:
        """Return as soon as something may stand after `position`, at the latest after `timeout` seconds.

        A commit of this process is noticed at once, one of another process within a twentieth of a second on SQLite,
        and on PostgreSQL when the server announces it, at the latest within a second.
        """
        self._check_process()
        with self._lock:
            self._check_open()
            coming = self.recorder.watch.past(position)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.wrap_future(coming)

    async def verify(self, stream: str) -> ChainFault | None:
        """Return the first commit of the stream that is not what was appended, or None."""
        return await self._ask(lambda: verify_stream(self.recorder, stream))

    async def snapshot(self, stream: str, *, on_damage: Callable[[str], None] | None = None) -> Snapshot | None:
        """Return the snapshot that was kept of the stream, if it may be used; otherwise tell `on_damage` why not."""

        def looked() -> Snapshot | None:
            row = self.recorder.snapshot(stream)
            return None if row is None else unsealed(stream, row)

        try:
            return await self._read(stream, 0, looked, nothing=lambda: None)
        except ValueError as error:
            if on_damage is not None:
                on_damage(str(error))
            return None

    async def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        """Store a snapshot of the stream in the place of the one before."""
        await self._write(lambda: self.recorder.keep_snapshot(stream, snapshot))

    async def place(self, follower: str) -> int:
        """Return the position that a follower has kept, 0 when it has kept none."""
        return await self._ask(lambda: self.recorder.place(follower))

    async def keep_place(self, follower: str, position: int) -> None:
        """Store how far a follower has come; one that is further already stays there."""
        await self._write(lambda: self.recorder.keep_place(follower, position))

    async def streams_with_snapshots(self) -> Sequence[str]:
        """Return the ids of the streams that a snapshot is stored of, also of those that are not there."""
        return await self._ask(self.recorder.streams_with_snapshots)

    async def blob_faults(self) -> Sequence[BlobFault]:
        """Return the blobs that are damaged, and those that no event refers to."""
        rows = self.recorder
        return await self._ask(lambda: blob_faults(rows.digests(), rows.body, rows.states_with_blobs()))

    async def acquire(self, stream: str, *, owner: str, take_over: bool = False) -> StoreLease:
        """Take the lease of a stream or raise `SessionBusy`; `take_over` takes it beside a live owner."""
        return await self._take_lease(stream, owner, take_over=take_over)

    async def is_leased(self, stream: str) -> bool | None:
        """Tell whether some process holds the lease of a stream, without taking one; None when that cannot be known."""
        seen = await self.leases(stream)
        return None if seen is None else any(lease.is_live for lease in seen)

    async def leased(self) -> frozenset[str] | None:
        """Return the streams whose lease some process holds; None when that cannot be known."""
        seen = await self.leases()
        return None if seen is None else frozenset(each.stream for each in seen if each.is_live and each.stream)

    async def leases(self, stream: str | None = None) -> Sequence[SeenLease] | None:
        """Return every lease, of a stream or all, that is held or was left behind; None when that cannot be known."""
        await self._free_left()
        return await self._ask(lambda: self._leases.seen(stream), self._keeper)
