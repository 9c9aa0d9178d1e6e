"""Which thread does what for a store: one writes, others answer questions, and one takes leases.

Appends that arrive while a commit is on its way to the disk share the next one. To hand a commit to a thread and back
costs more than to write it. So the only run of a process writes, asks and takes its lease in the thread of its event
loop, as long as the disk is quick and nobody else writes.
"""

import asyncio
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

from steptrail.domain.errors import StoreError, StoreUnavailable
from steptrail.domain.kernel.record import StreamHead
from steptrail.infrastructure.store.core.lease import HeldLease, Leases, StoreLease
from steptrail.infrastructure.store.core.recorder import PendingCommit, Recorder, going_together
from steptrail.infrastructure.store.core.work_threads import WorkThreads, finished, tell_all
from steptrail.runtime.kernel.cancellation import Uncancellable, wait_to_the_end
from steptrail.runtime.kernel.live_bus import LiveBus

_COMMITS_PER_GROUP = 256
_FEW = 32
"""How many events are read in the time of one commit."""
_QUICK_SECONDS = 0.004
"""How long an event loop may be held by one write. Disks of a cloud, which sync in 1 to 3 ms, are to be below it."""
_REST_SECONDS = 0.005
"""After how long without a write the recorder does what it has put off."""
_FREEING_SECONDS = 2.0
"""How long a caller that lets a lease go waits for a server that does not answer."""

T = TypeVar("T")


class StoreThreads:
    """The threads of a store over a database, and what they share. Takes ownership of the recorder, leases and bus.

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
        self._held: dict[HeldLease, asyncio.AbstractEventLoop] = {}
        """The leases that are held, each with the loop that it was taken in."""
        self._asked = 0
        self._process = os.getpid()

    async def close(self) -> None:
        """Finish what was begun, release every lease, close the database, end the threads. Safe to call twice.

        What a silent server does not answer within seconds is given up. In a process that was forked since, all of it
        is the parent's, and is left alone; so it is once Python has ended the threads, at the end of a program.
        """
        if self._is_inherited or sys.is_finalizing():
            return
        self.recorder.hurry()
        with self._lock:
            is_first, closing = self._closing is None, self._closing or Future[None]()
            self._closing = closing
        if is_first:
            self._keeper.finish(self._close, closing)
        await finished(closing)
        self._keeper.shutdown()

    def _close(self) -> None:
        """Close all in one piece, because who asked for it may be cancelled. Runs in the keeper's thread."""
        self._leases.close()
        for end in [self.recorder.close] if self.live_bus is None else [self.live_bus.close, self.recorder.close]:
            if self._writer is self._keeper:
                end()
            else:
                self._writer.finish(end, ended := Future[None]())
                ended.result()
        for threads in (self._keeper, self._reader, self._writer):
            threads.shutdown()

    async def _take_lease(self, stream: str, owner: str, *, take_over: bool) -> StoreLease:
        """Take a lease. Raises `SessionBusy`."""
        self._check_process()
        await self._free_left()
        held = self._leased_here(stream, owner, take_over=take_over)
        if held is None:
            future = self._submit(self._keeper, lambda: self._leases.acquire(stream, owner, take_over=take_over))
            try:
                held = await finished(future)
            except asyncio.CancelledError:
                if future.done() and not future.cancelled() and future.exception() is None:
                    await self._free(future.result())
                raise
        with self._lock:
            self._held[held] = asyncio.get_running_loop()
        return StoreLease(partial(self._give_up, held), held.is_held)

    async def _free_left(self) -> None:
        """Free the leases of loops that were closed in the middle of their tasks, which would keep all others out."""
        for lease in [lease for lease, loop in list(self._held.items()) if loop.is_closed()]:
            await self._give_up(lease)

    def _leased_here(self, stream: str, owner: str, *, take_over: bool) -> HeldLease | None:
        """Take a lease in the caller's thread; None when the keeper is to take it. See `_written_here`."""
        with self._lock:
            # Under the lock, so that closing finds what was granted.
            self._check_open()
            if self._held or not self._reads_quickly:
                return None
            return self._leases.acquire_at_once(stream, owner, take_over=take_over)

    async def _give_up(self, lease: HeldLease) -> None:
        """Release a lease that was granted here, once; after `close` it has been released already.

        In a process that was forked since, it is the parent's, and is left alone.
        """
        if self._is_inherited:
            return
        with self._lock:
            if self._held.pop(lease, None) is None:
                return
            is_quick = not self._held and self._reads_quickly
        if is_quick:
            _release(lease)
        else:
            await self._free(lease)

    async def _free(self, lease: HeldLease) -> None:
        """Free a lease in the thread that took it, which goes on with that where it takes seconds.

        What cannot be freed ends with its term, or with the process.
        """
        with suppress(StoreUnavailable):
            freeing = asyncio.wrap_future(self._submit(self._keeper, partial(_release, lease)))
            await wait_to_the_end(freeing, timeout=_FREEING_SECONDS)

    async def _append(self, pending: PendingCommit, *, is_large: bool) -> StreamHead:
        """Write a commit. What is large is never written in the caller's thread."""
        self._check_process()
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

    def _written_here(self, pending: PendingCommit) -> StreamHead | StoreError | None:
        """Write a commit in the caller's thread, and return its outcome; None when it is to be queued.

        A write holds the event loop. It does so only for the one run of this process, which waits for the write anyway.
        With several runs the queue is quicker, because they share commits.
        """
        with self._lock:
            self._check_open()
            alone = len(self._held) == 1 and not self._draining and self._took < self._quick
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
        with self._lock:
            self._check_open()
            if not self._draining:
                self._writer.put(self._drain)
                self._draining = True
            self._waiting.append((pending, stored))
        return stored

    def _drain(self) -> None:
        is_more = True
        while is_more:
            with self._lock:
                count = going_together((pending for pending, _ in self._waiting), _COMMITS_PER_GROUP)
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

    async def _write(self, work: Callable[[], T]) -> T:
        """Do what writes and is no commit. A caller that is cancelled waits for its end first."""
        return await finished(self._submit(self._writer, work))

    async def _read(
        self, stream: str, after: int, question: Callable[[], T], *, nothing: Callable[[], T] | None = None
    ) -> T:
        """Ask about the events behind a version: in the caller's thread, by the rule for writes, if that is quick.

        It is if they are few, and no body of the stream is large. `nothing` returns the answer where there are none.
        It is not asked for then.
        """
        if not self._asks_here():
            return await self._answer(question, is_short=False)
        behind = self._timed(lambda: self.recorder.select_version(stream)) - after
        if behind > 0 or nothing is None:
            is_short = behind <= _FEW and not self._timed(lambda: self.recorder.has_bodies(stream))
            return await self._answer(question, is_short=is_short)
        await asyncio.sleep(0)
        return nothing()

    def _asks_here(self) -> bool:
        self._check_process()
        with self._lock:
            self._check_open()
            return len(self._held) <= 1 and self._asked == 0 and self._reads_quickly

    async def _answer(self, question: Callable[[], T], *, is_short: bool) -> T:
        if not is_short:
            return await self._ask(lambda: self._timed(question))
        answer = self._timed(question)
        # Whoever asks until something has changed lets those go on who change it.
        await asyncio.sleep(0)
        return answer

    def _timed(self, question: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return question()
        finally:
            self._read_took = time.monotonic() - began

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


def _release(lease: HeldLease) -> None:
    with suppress(StoreUnavailable):
        lease.release()
