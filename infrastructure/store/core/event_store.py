"""The event store of the port over a database: async outside, threads inside.

One thread writes and others read; a database in memory has one for both. Appends that arrive while a commit is on its
way to the disk share the next one. A caller that is cancelled while its append runs waits for the end and is then
cancelled, so that it always learns the outcome. Several event loops and threads may use a store, but no forked process.

To hand a commit to a thread and back costs more than to write it. So the only run of a process writes in the thread of
its event loop, as long as the disk is quick and nobody else writes.
"""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

from steptrail.domain.errors import CorruptRecord, RecordTooNew, StoreError, StoreUnavailable
from steptrail.domain.kernel.erasure import Erasure
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.log_page import LogEntry, LogPage
from steptrail.domain.kernel.record import Commit, Recorded, Snapshot, StreamHead
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.core.blobs import (
    LIMIT,
    Blob,
    BlobFault,
    Parts,
    blob_faults,
    detach_all,
    encode_commit,
)
from steptrail.infrastructure.store.core.codec import stored_names
from steptrail.infrastructure.store.core.digest import ChainFault
from steptrail.infrastructure.store.core.index import summary_of
from steptrail.infrastructure.store.core.lease import HeldLease, Leases, StoreLease, give_back
from steptrail.infrastructure.store.core.lease_looking import SeenLease
from steptrail.infrastructure.store.core.origin import Origin
from steptrail.infrastructure.store.core.reading import (
    StreamRead,
    check_not_erased,
    entries_of,
    read_log,
    read_newest_of,
    read_proven,
    read_sound,
    read_stream,
    verify_stream,
)
from steptrail.infrastructure.store.core.recorder import PendingCommit, Recorder
from steptrail.infrastructure.store.core.snapshots import unsealed
from steptrail.infrastructure.store.core.work_threads import WorkThreads, finished, tell_all
from steptrail.runtime.kernel.cancellation import Uncancellable
from steptrail.runtime.kernel.live_bus import LiveBus

_COMMITS_PER_GROUP = 256
_LARGE, _FEW = 1 << 20, 32
"""Bytes of a commit, and how many events are read in the time of one."""
_QUICK_SECONDS = 0.002
"""How long an event loop may be held by one write. It is not much longer than other things that a loop does."""
_REST_SECONDS = 0.005
"""After how long without a write the recorder does what it has put off."""

T = TypeVar("T")


class RecorderEventStore:
    """Implements the port `EventStore`. Takes ownership of the recorder, the leases and the bus.

    `readers` is how many questions are asked at once; without any, reading waits for writing. Leases are taken and
    freed one after another, so that closing finds all that were granted. `quick` is how many seconds the last write, or
    the last question, may have taken for the next to be made in the caller's thread; 0 where no loop may wait.
    `live_bus` carries live updates between the processes that have this store; None when the database cannot.
    """

    def __init__(
        self,
        recorder: Recorder,
        leases: Leases,
        *,
        name: str,
        readers: int = 1,
        quick: float = _QUICK_SECONDS,
        live_bus: LiveBus | None = None,
    ) -> None:
        self.recorder, self.live_bus = recorder, live_bus
        self.origin: Origin | None = None
        """The address that the store was opened at; None for one that was put together otherwise."""
        self._leases, self._name = leases, name
        self._writer = WorkThreads("steptrail-writer", at_rest=recorder.catch_up, rest=_REST_SECONDS)
        self._reader = WorkThreads("steptrail-reader", readers) if readers else self._writer
        self._keeper = WorkThreads("steptrail-keeper") if readers > 1 else self._reader
        self._waiting: deque[tuple[PendingCommit, Uncancellable[StreamHead]]] = deque()
        self._draining = False
        self._closing: Future[None] | None = None
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held by the thread that writes commits now. It may be taken under the other lock, and not the other way."""
        self._quick, self._took, self._read_took = quick, inf, inf
        self._leases_held = self._asked = 0
        self._process = os.getpid()

    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        """Store the whole commit after `expected`, or none of it. Raises `ValueError` for one that cannot be encoded.

        A commit whose id already stands right after `expected` has been stored before; its head is returned.
        """
        if not commit.events:
            raise ValueError(f"a commit to stream {stream!r} needs at least one event")
        encoded = encode_commit(commit)
        # What is large takes a while to look through, and the loop has others to serve.
        size = sum([len(state) + len(content or b"") for _, _, state, content in encoded])
        is_large = size > _LARGE
        states: tuple[Parts, ...] = tuple(encoded)
        blobs: tuple[Blob, ...] = ()
        if size > LIMIT:
            states, blobs = await self._ask(lambda: detach_all(encoded)) if is_large else detach_all(encoded)
        pending = PendingCommit(stream, expected, commit.head, states, blobs, commit.summary)
        if not is_large and (outcome := self._written_here(pending)) is not None:
            if isinstance(outcome, StoreError):
                raise outcome
            return outcome
        stored = self._enqueue(pending)
        try:
            return await stored
        except asyncio.CancelledError:
            stored.exception()  # looked at, so that nobody is warned of an error that went unseen
            raise

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StreamRead:
        """Return the records after a version and the head of the last of them.

        After a head they are whole commits whose digests follow it. Raises `CorruptRecord` for the first that cannot be
        read, or is not what was appended.
        """
        try:
            if isinstance(after, int):
                return await self._read(stream, after, lambda: read_stream(self.recorder, stream, after, limit))
            return await self._read(stream, after.version, lambda: read_sound(self.recorder, stream, after, limit))
        except CorruptRecord as error:
            with suppress(StoreError):
                await finished(self._submit(self._writer, partial(self._mark, error)))
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
        await finished(self._submit(self._writer, lambda: self.recorder.list_anew(row)))

    async def erase(self, streams: Mapping[str, int], *, at: int, by: str, reason: str) -> Sequence[Erasure]:
        """Erase streams that end at these versions, together or not at all. See the port."""
        return await finished(self._submit(self._writer, lambda: self.recorder.erase(streams, at, by, reason)))

    async def erasure(self, stream: str) -> Erasure | None:
        """Return what is remembered of an erased stream; None for any other."""
        return await self._ask(lambda: self.recorder.select_erasure(stream))

    async def scrub(self, *, thoroughly: bool = False) -> str | None:
        """Remove the bytes of what was erased from the files; return where some may remain. See the port."""
        erasure = self.recorder.select_erasure
        await self._ask(lambda: give_back(self._leases, lambda stream: erasure(stream) is not None), self._keeper)
        return await finished(self._submit(self._writer, lambda: self.recorder.scrub(thoroughly=thoroughly)))

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

    def log(
        self,
        *,
        after: int = 0,
        types: Sequence[str] = (),
        stream: str | None = None,
        limit: int | None = None,
        on_corrupt: Callable[[CorruptRecord], None] | None = None,
    ) -> AsyncIterator[LogEntry]:
        """Yield the entries in the order they were stored, and end where the log ends now.

        `types` are names in use; what was stored under a name that is read as one of them by now comes along. Raises
        `CorruptRecord` for the first that cannot be read, or tells `on_corrupt` and leaves it out.
        """
        return entries_of(partial(self.log_page, types=types, stream=stream), after, limit, on_corrupt)

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
        read = partial(read_log, self.recorder, after, limit, stored_names(types), stream, on_damage=self._mark)
        return await self._ask(partial(read, heads=heads, is_lazy=is_lazy))

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
            row = self.recorder.auxiliary.snapshot(stream)
            return None if row is None else unsealed(stream, row)

        try:
            return await self._read(stream, 0, looked)
        except ValueError as error:
            if on_damage is not None:
                on_damage(str(error))
            return None

    async def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        """Store a snapshot of the stream in the place of the one before."""
        auxiliary = self.recorder.auxiliary
        await finished(self._submit(self._writer, lambda: auxiliary.keep_snapshot(stream, snapshot)))

    async def place(self, follower: str) -> int:
        """Return the position that a follower has kept, 0 when it has kept none."""
        return await self._ask(lambda: self.recorder.auxiliary.place(follower))

    async def keep_place(self, follower: str, position: int) -> None:
        """Store how far a follower has come; one that is further already stays there."""
        auxiliary = self.recorder.auxiliary
        await finished(self._submit(self._writer, lambda: auxiliary.keep_place(follower, position)))

    async def streams_with_snapshots(self) -> Sequence[str]:
        """Return the ids of the streams that a snapshot is stored of, also of those that are not there."""
        return await self._ask(self.recorder.auxiliary.streams_with_snapshots)

    async def blob_faults(self) -> Sequence[BlobFault]:
        """Return the blobs that are damaged, and those that no event refers to."""
        auxiliary = self.recorder.auxiliary
        return await self._ask(lambda: blob_faults(auxiliary.digests(), auxiliary.body, auxiliary.states_with_blobs()))

    async def acquire(self, stream: str, *, owner: str, take_over: bool = False) -> StoreLease:
        """Take the lease of a stream or raise `SessionBusy`; `take_over` takes it beside a live owner."""
        held = self._leased_here(stream, owner, take_over=take_over)
        if held is None:
            future = self._submit(self._keeper, lambda: self._leases.acquire(stream, owner, take_over=take_over))
            try:
                held = await finished(future)
            except asyncio.CancelledError:
                if future.done() and not future.cancelled() and future.exception() is None:
                    future.result().release()
                raise
        with self._lock:
            self._leases_held += 1
        return StoreLease(partial(self._give_up, held))

    async def is_leased(self, stream: str) -> bool | None:
        """Tell whether some process holds the lease of a stream, without taking one; None when that cannot be known."""
        seen = await self._ask(lambda: self._leases.seen(stream), self._keeper)
        return None if seen is None else any(lease.is_live for lease in seen)

    async def leased(self) -> frozenset[str] | None:
        """Return the streams whose lease some process holds; None when that cannot be known."""
        seen = await self.leases()
        return None if seen is None else frozenset(each.stream for each in seen if each.is_live and each.stream)

    async def leases(self) -> Sequence[SeenLease] | None:
        """Return every lease that is held or was left behind; None when that cannot be known."""
        return await self._ask(self._leases.seen, self._keeper)

    async def close(self) -> None:
        """Finish what was begun, release every lease, close the database, end the threads. Safe to call twice.

        In a process that was forked since, all of it is the parent's, and is left alone.
        """
        if self._is_inherited:
            return
        with self._lock:
            closing = self._closing = self._closing or self._keeper.submit(self._close)
        await finished(closing)
        self._keeper.shutdown()

    def _close(self) -> None:
        """Close all in one piece, because who asked for it may be cancelled. Runs in the keeper's thread."""
        self._leases.close()
        for end in [self.recorder.close] if self.live_bus is None else [self.live_bus.close, self.recorder.close]:
            if self._writer is self._keeper:
                end()
            else:
                self._writer.submit(end).result()
        for threads in (self._keeper, self._reader, self._writer):
            threads.shutdown()

    async def _give_up(self, lease: HeldLease) -> None:
        """Release a lease that was granted here, once; after `close` it has been released already."""
        with self._lock:
            self._leases_held -= 1
            is_quick = self._leases_held == 0 and self._reads_quickly
        with suppress(StoreUnavailable):
            if is_quick:
                lease.release()
            else:
                await finished(self._submit(self._keeper, lease.release))

    def _leased_here(self, stream: str, owner: str, *, take_over: bool) -> HeldLease | None:
        """Take a lease in the caller's thread; None when the keeper is to take it. See `_written_here`."""
        self._check_process()
        with self._lock:
            # Under the lock, so that closing finds what was granted.
            self._check_open()
            if self._leases_held or not self._reads_quickly:
                return None
            return self._leases.acquire_at_once(stream, owner, take_over=take_over)

    def _written_here(self, pending: PendingCommit) -> StreamHead | StoreError | None:
        """Write a commit in the caller's thread, and return its outcome; None when it is to be queued.

        A write holds the event loop. It does so only for the one run of this process, which waits for the write anyway.
        With several runs the queue is quicker, because they share commits.
        """
        self._check_process()
        with self._lock:
            self._check_open()
            alone = self._leases_held == 1 and not self._draining and self._took < self._quick
            if not (alone and self._writing.acquire(blocking=False)):
                return None
        try:
            began = time.monotonic()
            outcome = self.recorder.append_at_once(pending)
            self._took = time.monotonic() - began
        finally:
            self._writing.release()
        return outcome

    def _enqueue(self, pending: PendingCommit) -> Uncancellable[StreamHead]:
        stored: Uncancellable[StreamHead] = Uncancellable(loop=asyncio.get_running_loop())
        self._check_process()
        with self._lock:
            self._check_open()
            self._waiting.append((pending, stored))
            if not self._draining:
                self._draining = True
                self._writer.put(self._drain)
        return stored

    def _drain(self) -> None:
        is_more = True
        while is_more:
            with self._lock:
                count = min(len(self._waiting), _COMMITS_PER_GROUP)
                group = [self._waiting.popleft() for _ in range(count)]
            outcomes: Sequence[StreamHead | BaseException]
            with self._writing:
                began = time.monotonic()
                try:
                    outcomes = self.recorder.append([pending for pending, _ in group])
                except BaseException as error:
                    outcomes = [error for _ in group]
                self._took = time.monotonic() - began
            with self._lock:
                # Before anybody is told: who appends again at once is not to queue because of this.
                self._draining = is_more = bool(self._waiting)
            tell_all([(stored, outcome) for (_, stored), outcome in zip(group, outcomes, strict=True)])

    async def _read(self, stream: str, after: int, question: Callable[[], T]) -> T:
        """Ask about the events behind a version: in the caller's thread, by the rule for writes, if they are few."""
        is_short = self._asks_here() and self.recorder.select_version(stream) - after <= _FEW
        return await self._answer(question, is_short=is_short)

    def _asks_here(self) -> bool:
        self._check_process()
        with self._lock:
            self._check_open()
            return self._leases_held <= 1 and self._asked == 0 and self._reads_quickly

    async def _answer(self, question: Callable[[], T], *, is_short: bool) -> T:
        def asked() -> T:
            began = time.monotonic()
            try:
                return question()
            finally:
                self._read_took = time.monotonic() - began

        if not is_short:
            return await self._ask(asked)
        answer = asked()
        # Whoever asks until something has changed lets those go on who change it.
        await asyncio.sleep(0)
        return answer

    async def _ask(self, question: Callable[[], T], threads: WorkThreads | None = None) -> T:
        return await asyncio.wrap_future(self._submit(threads or self._reader, question))

    def _submit(self, threads: WorkThreads, work: Callable[[], T]) -> Future[T]:
        self._check_process()
        with self._lock:
            self._check_open()
            future = threads.submit(work)
            self._asked += threads is self._reader
        if threads is self._reader:
            future.add_done_callback(self._answered)
        return future

    def _answered(self, _: Future[Any]) -> None:
        with self._lock:
            self._asked -= 1

    @property
    def _reads_quickly(self) -> bool:
        """Whether no write is queued, and the last question took no longer than a loop may be held."""
        return not self._draining and self._read_took < self._quick

    @property
    def _is_inherited(self) -> bool:
        return os.getpid() != self._process

    def _check_process(self) -> None:
        # Before the lock is taken: a thread that is not in the child may have held it when the process was forked.
        if self._is_inherited:
            where = f"the store {self._name} was opened before this process was forked"
            raise StoreUnavailable(f"{where}: open it again in the child")

    def _check_open(self) -> None:
        if self._closing is not None:
            raise StoreUnavailable(f"the store {self._name} is closed")
