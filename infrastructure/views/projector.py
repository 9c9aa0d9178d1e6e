"""Applies the log to the tables of one projection, batch by batch.

A batch ends after so many events or milliseconds, so it is quick when the projection is near the end of the log and
large when it is far behind. Reading is asynchronous; folding and writing happen in a thread.

A record that cannot be read is noted, and its stream is left as it stood before. When the projection raises, or makes
rows that a table does not take, the batch is tried again page by page and then entry by entry, and the projection
stops where it fails. One that is to skip such an entry notes it and goes on, as if the entry were not in the log.

Where the log says that a stream was erased of which something may be counted, its rows are deleted in the transaction
of the batch, and it is noted that sums still count it: nothing is left to say which parts of them were its own.
"""

import logging
import random
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

from steptrail.domain.errors import CorruptRecord, ProjectionStopped, StoreError
from steptrail.domain.kernel.erasure import Erased
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.infrastructure.views.counting_anew import is_outdated
from steptrail.infrastructure.views.database import Unfit
from steptrail.infrastructure.views.failing import kept_failure
from steptrail.infrastructure.views.fold_memory import FoldMemory
from steptrail.infrastructure.views.generation import Generation, NotCounted, Reached, ViewProgress
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.runtime.kernel.collector import collector_off
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.log_raised import log_raised
from steptrail.runtime.kernel.ports import EventStore

F = TypeVar("F")
T = TypeVar("T")

VIEW_FAULT_POINTS = ("page-read", "before-views", "after-views", "before-switch", "after-switch", "pruned")
"""The points at which a test may kill who applies the log, rebuilds or prunes."""

_PAGE = 500

_log = logging.getLogger("steptrail.views")


class RunInThread(Protocol):
    """Runs blocking work in a thread, and returns what it returns."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Return `work()`."""
        ...


class Projector(Generic[F]):
    """One projection over one generation. `begin` it, then `apply` batches until the end of the log is reached.

    One task uses it at a time. When it raises, begin it again. `until` is the last position that it applies; None for
    all that there is. `has_erased` says whether rows of erased streams were deleted since it began. A batch has at most
    `most` entries; `in_bulk` makes it larger, for a whole log that nobody waits for.
    """

    def __init__(
        self,
        store: EventStore,
        generation: Generation,
        projection: Projection[F],
        in_thread: RunInThread,
        *,
        reach: Reach = no_faults,
        most: int = 2_000,
        in_bulk: bool = False,
    ) -> None:
        self.generation, self.projection = generation, projection
        self._store, self._in_thread, self._reach = store, in_thread, reach
        # To wait in the queues of two threads costs a page as much as twenty entries do.
        self._page = min(most, 4 * _PAGE if in_bulk else _PAGE)
        self._most, self._seconds = (20 * most, 1.0) if in_bulk else (most, 0.02)
        self.until: int | None = None
        self._memory = FoldMemory(projection)
        self._prefixes = tuple(projection.prefixes) or ("",)
        self._types = (*projection.types, Erased.TYPE) if projection.types else ()
        self._never_counted, self.has_erased = 0, False
        self._damaged = set[str]()
        self._skipped = set[int]()
        self._page_by_page_until = self._logged = 0
        self.reached = Reached()
        self.stopped: ProjectionStopped | None = None

    async def begin(self) -> bool:
        """Go to the place that is stored. False when what is counted is not of this log, or can be counted better now.

        That is so when the store was replaced or has lost its end, when a record can be read by now, and when sums of a
        short log count what was erased.
        """
        self.has_erased = False
        found = await self._in_thread(partial(self.generation.database.read, self._stored))
        if found is None:
            return False
        progress, damage, self._skipped = found
        if progress.reached != self.reached or self.stopped:
            # Of two who began at the beginning, the other one may have counted what was erased before this one began.
            self._memory, self._never_counted = FoldMemory(self.projection), 0
        self._damaged = {each.stream for each in damage}
        self.reached, self.stopped = progress.reached, None
        end = await self._store.last_position()
        if is_outdated(progress, end):
            return False
        if self.reached.position > end and (await self._store.grown(self.reached.position))[0] < self.reached.position:
            return False
        if not self.reached.position:
            self._never_counted = end
            self._memory.begin_log()
        if self.reached.stream and await self._digest(self.reached) != self.reached.digest:
            return False
        # One at a time is quick, and any of them: the first may never be mended.
        return not (damage and await self._is_readable(random.choice(damage)))  # noqa: S311 - spreads looks

    async def apply(self) -> bool:
        """Apply one batch. False when the end of the log was reached, or the projection has stopped.

        Raises `PlaceMoved` when somebody else applies it too, and `StoreError`.
        """
        if self.stopped:
            return False
        try:
            return await self._applied(_Batch(self.reached))
        except BaseException:
            # The folds are ahead of what is stored.
            self._memory.forget()
            raise

    async def _applied(self, batch: "_Batch") -> bool:
        try:
            await self._fill(batch)
            if batch.reached.position == self.reached.position:
                return False
            await self._name_place(batch)
            self._reach("before-views")
            await self._write(batch, batch.reached, batch.changes)
        except (Unfit, _ProjectionRaised):
            self._memory.forget()
            if batch.pages > 1:
                # Where it fails is found page by page, so that few entries are applied one by one.
                self._page_by_page_until = batch.reached.position
                return True
            await self._apply_one_by_one()
        self._reach("after-views")
        self._memory.trim()
        return not batch.is_end and not self.stopped

    async def _fill(self, batch: "_Batch") -> None:
        """Read and fold page by page: only what the entries change is held for the whole batch."""
        began = time.monotonic()
        # Once is enough: it is where the log ended before any page was read.
        end = await self._store.last_position()
        most = self._page if self.reached.position < self._page_by_page_until else self._most
        while not batch.is_end and batch.count < most and (not batch.pages or time.monotonic() - began < self._seconds):
            entries = await self._read(batch, min(self._page, most - batch.count), end)
            await self._fold(entries, batch.changes)
            if batch.failure is not None:
                raise batch.failure

    async def _read(self, batch: "_Batch", wanted: int, end: int) -> Iterator[LogEntry]:
        """Read a page, and return the entries of it that are to be folded. Each is decoded when it is asked for.

        So it is folded while the processor has it at hand, which takes a sixth less than a page of them at once.
        """
        page = await self._store.log_page(
            batch.reached.position, wanted, types=self._types, heads=self.projection.heads, is_lazy=True
        )
        self._reach("page-read")
        reached, batch.is_end = page.reached, page.is_end
        if self.until is not None:
            end = min(end, self.until)
            batch.is_end, reached = batch.is_end or reached > end, min(reached, end)
        batch.count, batch.pages = batch.count + page.size, batch.pages + 1
        # All up to the end was there before it was read.
        batch.reached = batch.reached._replace(position=max(reached, end if batch.is_end else 0))
        return self._to_fold(page.items, batch)

    def _to_fold(self, items: Iterable[LogEntry | CorruptRecord], batch: "_Batch") -> Iterator[LogEntry]:
        """Yield what of a page is to be folded, up to the place that the batch reaches, and note the rest of it.

        Raises nothing, so that whatever is raised meanwhile was raised by the projection.
        """
        damaged = self._damaged | {each.stream for each in batch.damage}
        prefixes, last = self._prefixes, batch.reached.position
        newest, at = batch.newest, batch.at
        try:
            for item in items:
                if (item.position or 0) > last:
                    return
                if isinstance(item, CorruptRecord):
                    if item.stream.startswith(prefixes):
                        batch.damage.append(NotCounted(item.position or 0, item.stream, item.version, str(item)))
                        damaged.add(item.stream)
                    continue
                _, stream, record = newest = item
                if not stream.startswith(prefixes):
                    continue
                if isinstance(record.event, Erased):
                    if item.position > self._never_counted and (stream in damaged or self._memory.may_know(stream)):
                        batch.erased[stream] = record.at
                    continue
                at = record.at
                if stream not in damaged:
                    yield item
        except StoreError as error:
            batch.failure = error
        finally:
            batch.newest, batch.at = newest, at

    async def _name_place(self, batch: "_Batch") -> None:
        newest, place = batch.newest, batch.reached.position
        found = [] if newest is None else [(newest.stream, newest.record.version)]
        if self.until is None and (newest is None or newest.position < place):
            # The last event that it reads may be in an older copy of the log too, and what came after that is not.
            found += (await self._store.grown(place - 1))[1].items()
        if found:
            stream, version = found[-1]
            named = batch.reached._replace(at=batch.at or batch.reached.at, stream=stream, stream_version=version)
            batch.reached = named._replace(digest=await self._digest(named))

    async def _fold(self, entries: Iterable[LogEntry], changes: Changes) -> None:
        left = iter(entries)
        while True:
            fold = partial(self._memory.fold, left, changes)
            if (missing := await self._in_thread(partial(_raised, fold))) is None:
                return
            await self._refold(missing)
            left = chain((missing,), left)

    async def _refold(self, before: LogEntry) -> None:
        stream, place, left = before.stream, 0, before.record.version
        while left > 0 and place < before.position:
            page = await self._store.log_page(place, min(left, _PAGE), types=self.projection.types, stream=stream)
            found = [each for each in page.items if isinstance(each, LogEntry) and each.position < before.position]
            past = [each for each in found if each.position not in self._skipped]
            await self._in_thread(partial(_raised, partial(self._memory.refold, stream, past)))
            place, left = page.reached, 0 if page.is_end else left - page.size

    async def _write(self, batch: "_Batch", reached: Reached, changes: Changes, *skipped: NotCounted) -> None:
        before, damage, erased = self.reached.position, batch.damage, batch.erased

        def write() -> None:
            _raised(partial(self._memory.end_batch, changes))
            self.generation.write(self.projection, before, reached, changes, damage, skipped, erased)

        await self._in_thread(write)
        self._damaged |= {each.stream for each in damage}
        self._skipped |= {each.position for each in skipped}
        for stream in erased:
            self._memory.forget(stream)
        self.has_erased = self.has_erased or bool(erased)
        batch.damage, batch.erased = [], {}
        self.reached = reached

    async def _apply_one_by_one(self) -> None:
        batch = _Batch(self.reached)
        page = await self._read(batch, self._page, await self._store.last_position())
        # One is held at a time: all of a page may be large.
        while (entry := await self._in_thread(lambda: next(page, None))) is not None:
            changes = Changes()
            after = self.reached._replace(position=entry.position, at=entry.record.at)
            try:
                await self._fold([entry], changes)
                await self._write(batch, after, changes)
            except (Unfit, _ProjectionRaised) as error:
                self._memory.forget(entry.stream)
                raised = error.__cause__ or error
                self._log_once(entry, raised)
                why = kept_failure(raised)
                if self.projection.on_error == "skip":
                    skipped = NotCounted(entry.position, entry.stream, entry.record.version, why)
                    await self._write(batch, after, Changes(), skipped)
                    continue
                self.stopped = ProjectionStopped(self.projection.name, entry.position, why)
                stop = partial(self.generation.stop, self.projection, self.reached.position, entry.position, why)
                await self._in_thread(stop)
                return
        if batch.failure is not None:
            raise batch.failure
        await self._name_place(batch)
        await self._write(batch, batch.reached, Changes())

    def _log_once(self, entry: LogEntry, raised: BaseException) -> None:
        """Log what the projection raised, values and all: it is tried again with each question."""
        if entry.position > self._logged:
            self._logged = entry.position
            said = "the projection %s fails at position %d"
            log_raised(_log, raised, said, self.projection.name, entry.position, level=logging.ERROR)

    def _stored(self, statements: Any) -> tuple[ViewProgress, list[NotCounted], set[int]] | None:
        generation, own = self.generation, (self.projection.name, self.projection.version)
        found = [each for each in generation.progress(statements) if each[:2] == own]
        if not found:
            return None
        skipped = self._skipped
        if found[0].reached != self.reached:  # otherwise nobody has written since, and they may be very many
            skipped = {each.position for each in generation.skipped(statements, self.projection)}
        return found[0], generation.damaged(statements, self.projection), skipped

    async def _digest(self, reached: Reached) -> str:
        """Return the digest of an event of the log. That of one that was erased is remembered if it was the last.

        Otherwise it is taken to be the known one.
        """
        found = (await self._store.digest(reached.stream, reached.stream_version)).hex()
        erasure = None if found else await self._store.erasure(reached.stream)
        if erasure is None or erasure.events < reached.stream_version:
            return found
        return erasure.digest if erasure.events == reached.stream_version else reached.digest

    async def _is_readable(self, damage: NotCounted) -> bool:
        page = await self._store.log_page(damage.position - 1, 1, stream=damage.stream)
        return [item.position for item in page.items if isinstance(item, LogEntry)] == [damage.position]


class _Batch:
    """Entries that were read, and what they change; nothing of it is written yet.

    `newest` is the newest entry of all streams, and `at` the instant of the newest that is folded or belongs to a
    damaged stream. `erased` are the streams that were, each with the instant. `failure` is what reading has raised.
    """

    def __init__(self, reached: Reached) -> None:
        self.reached, self.changes = reached, Changes()
        self.damage: list[NotCounted] = []
        self.erased: dict[str, int] = {}
        self.newest: LogEntry | None = None
        self.at = 0
        self.failure: StoreError | None = None
        self.count, self.pages, self.is_end = 0, 0, False


class _ProjectionRaised(Exception):
    """Carries what a projection raised, as its cause."""


def _raised(work: Callable[[], T]) -> T:
    try:
        # It leaves no cycle behind, and the collector would look for one again and again.
        with collector_off():
            return work()
    except MemoryError:
        raise  # no event is to blame, and none is to be skipped
    except (Exception, CancelledError) as error:  # nothing waits there, so a cancellation is nobody's request
        raise _ProjectionRaised from error
