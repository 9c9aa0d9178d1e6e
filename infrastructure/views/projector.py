"""Applies the log to the tables of one projection, batch by batch.

A batch ends after so many events or milliseconds, so it is quick when the projection is near the end of the log and
large when it is far behind. Reading is asynchronous; folding and writing happen in a thread.

A record that cannot be read is noted, and its stream is left as it stood before. When the projection raises, or makes
rows that a table does not take, the batch is tried again entry by entry, and the projection stops where it fails. One
that is to skip such an entry notes it and goes on, as if the entry were not in the log.

Where the log says that a stream was erased of which something may be counted, all is counted anew without it: nothing
is left to say which rows and which parts of sums were its own.
"""

import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from steptrail.domain.errors import CorruptRecord, ProjectionStopped
from steptrail.domain.kernel.erasure import Erased
from steptrail.infrastructure.views.database import Unfit
from steptrail.infrastructure.views.fold_memory import FoldMemory
from steptrail.infrastructure.views.generation import (
    Damage,
    Generation,
    PlaceMoved,
    Reached,
    Skipped,
    ViewProgress,
)
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Entry, Projection
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["VIEW_FAULT_POINTS", "Projector", "RunInThread"]

F = TypeVar("F")
T = TypeVar("T")

VIEW_FAULT_POINTS = ("page-read", "before-views", "after-views", "before-switch", "after-switch", "pruned")
"""The points at which a test may kill who applies the log, rebuilds or prunes."""

_PAGE = 500
_LONGEST_ERROR = 4_000


class RunInThread(Protocol):
    """Runs blocking work in a thread, and returns what it returns."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Return `work()`."""
        ...


class Projector(Generic[F]):
    """One projection over one generation. `begin` it, then `apply` batches until the end of the log is reached.

    One task uses it at a time. When it raises, begin it again. `until` is the last position that it applies; None for
    all that there is.
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
        seconds: float = 0.02,
        folds: int = 5_000,
        until: int | None = None,
    ) -> None:
        self.generation, self.projection = generation, projection
        self._store, self._in_thread, self._reach = store, in_thread, reach
        self._most, self._seconds, self.until = most, seconds, until
        self._memory = FoldMemory(projection, most=folds)
        self._prefixes = tuple(projection.prefixes)
        self._types = (*projection.types, Erased.TYPE) if projection.types else ()
        self._never_counted, self._is_outdated = 0, False
        self._damaged: dict[str, int] = {}
        self._skipped = set[int]()
        self.reached = Reached()
        self.stopped: ProjectionStopped | None = None

    async def begin(self) -> bool:
        """Go to the place that is stored. False when what is counted is not of this log, or can be counted better now.

        That is so when the store was replaced or has lost its end, when a record can be read by now, and when something
        that was counted has been erased.
        """
        if self._is_outdated:
            return False
        found = await self._in_thread(self._stored)
        if found is None:
            return False
        progress, damage, skipped = found
        if progress.reached != self.reached or self.stopped:
            self._memory.forget()
        self._damaged = {each.stream: each.position for each in damage}
        self._skipped = {each.position for each in skipped}
        self.reached, self.stopped = progress.reached, None
        end = await self._store.last_position()
        if self.reached.position > end:
            return False
        if not self.reached.position:
            self._never_counted = end
        if self.reached.stream and await self._digest(self.reached) != self.reached.digest:
            return False
        return not await self._is_readable(damage[:1])

    async def apply(self) -> bool:
        """Apply one batch. False when the end of the log was reached, or the projection has stopped.

        Raises `PlaceMoved` when somebody else applies it too, and `StoreError`.
        """
        if self.stopped:
            return False
        entries, damage, reached, is_end = await self._read()
        if reached.position == self.reached.position:
            return False
        changes = Changes()
        try:
            await self._fold(entries, changes)
            self._reach("before-views")
            await self._write(reached, changes, damage)
        except (Unfit, _ProjectionRaised):
            self._memory.forget()
            await self._apply_one_by_one(entries, damage, reached)
        except BaseException:
            # The folds are ahead of what is stored.
            self._memory.forget()
            raise
        self._reach("after-views")
        self._memory.trim()
        return not is_end and not self.stopped

    async def _read(self) -> tuple[list[Entry], list[Damage], Reached, bool]:
        entries: list[Entry] = []
        corrupt: list[CorruptRecord] = []
        newest: tuple[int, str, int] | None = None
        began, after, is_end, count = time.monotonic(), self.reached.position, False, 0
        while not is_end and count < self._most and (not count or time.monotonic() - began < self._seconds):
            end, wanted, seen = await self._store.last_position(), min(_PAGE, self._most - count), len(corrupt)
            end = end if self.until is None else min(end, self.until)
            found = 0
            log = self._store.log(after=after, types=self._types, limit=wanted, on_corrupt=corrupt.append)
            async for position, stream, record in log:
                if self.until is not None and position > self.until:
                    break
                found, newest = found + 1, (position, stream, record.version)
                if isinstance(record.event, Erased):
                    self._is_outdated = self._is_outdated or position > self._never_counted
                elif not self._prefixes or stream.startswith(self._prefixes):
                    entries.append(Entry(position, stream, record))
            if self.until is not None:
                corrupt = [each for each in corrupt if (each.position or 0) <= (self.until or 0)]
            found += len(corrupt) - seen
            count, is_end = count + found, found < wanted
            last = max(newest[0] if newest else 0, corrupt[-1].position or 0 if corrupt else 0)
            # All up to the end was there before it was read.
            after = max(after, last, end if is_end else 0)
        self._reach("page-read")
        if self._is_outdated:
            raise PlaceMoved
        damage = [
            Damage(each.position or 0, each.stream, each.version, str(each))
            for each in corrupt
            if not self._prefixes or each.stream.startswith(self._prefixes)
        ]
        kept = self._without_damaged(entries, damage)
        at = entries[-1].record.at if entries else self.reached.at
        reached = self.reached._replace(position=after, at=at)
        if newest is not None:
            _, stream, version = newest
            reached = reached._replace(stream=stream, stream_version=version)
            reached = reached._replace(digest=await self._digest(reached))
        return kept, damage, reached, is_end

    def _without_damaged(self, entries: list[Entry], damage: list[Damage]) -> list[Entry]:
        first = {each.stream: each.position for each in reversed(damage)} | self._damaged
        if not first:
            return entries
        return [each for each in entries if each.position < first.get(each.stream, each.position + 1)]

    async def _fold(self, entries: list[Entry], changes: Changes) -> None:
        done = 0
        while True:
            done = await self._in_thread(partial(_raised, partial(self._memory.fold, entries, changes, done)))
            if done == len(entries):
                return
            await self._refold(entries[done])

    async def _refold(self, before: Entry) -> None:
        past: list[Entry] = []
        log = self._store.log(
            stream=before.stream, types=self.projection.types, limit=before.record.version, on_corrupt=_pass
        )
        async for position, stream, record in log:
            if position >= before.position:
                break
            if position not in self._skipped:
                past.append(Entry(position, stream, record))
        await self._in_thread(partial(_raised, partial(self._memory.refold, before.stream, past)))

    async def _write(
        self, reached: Reached, changes: Changes, damage: list[Damage], skipped: Sequence[Skipped] = ()
    ) -> None:
        before = self.reached.position
        await self._in_thread(lambda: self.generation.write(self.projection, before, reached, changes, damage, skipped))
        self._damaged = {each.stream: each.position for each in reversed(damage)} | self._damaged
        self._skipped |= {each.position for each in skipped}
        self.reached = reached

    async def _apply_one_by_one(self, entries: list[Entry], damage: list[Damage], reached: Reached) -> None:
        for entry in entries:
            changes = Changes()
            # The damage behind it is found again: this place is before it.
            passed = [each for each in damage if each.position < entry.position]
            after = self.reached._replace(position=entry.position, at=entry.record.at)
            try:
                await self._fold([entry], changes)
                await self._write(after, changes, passed)
            except (Unfit, _ProjectionRaised) as error:
                self._memory.forget()
                why = "".join(traceback.format_exception(error.__cause__ or error))[-_LONGEST_ERROR:]
                if self.projection.on_error == "skip":
                    skipped = Skipped(entry.position, entry.stream, entry.record.version, why)
                    await self._write(after, Changes(), passed, [skipped])
                    continue
                self.stopped = ProjectionStopped(self.projection.name, entry.position, why)
                stop = partial(self.generation.stop, self.projection, self.reached.position, entry.position, why)
                await self._in_thread(stop)
                return
        await self._write(reached, Changes(), damage)

    def _stored(self) -> tuple[ViewProgress, list[Damage], list[Skipped]] | None:
        generation, own = self.generation, (self.projection.name, self.projection.version)

        def work(statements: Any) -> tuple[ViewProgress, list[Damage], list[Skipped]] | None:
            found = [each for each in generation.progress(statements) if each[:2] == own]
            if not found:
                return None
            damage = generation.damaged(statements, self.projection)
            return found[0], damage, generation.skipped(statements, self.projection)

        return generation.database.read(work)

    async def _digest(self, reached: Reached) -> str:
        return (await self._store.digest(reached.stream, reached.stream_version)).hex()

    async def _is_readable(self, damage: list[Damage]) -> bool:
        for each in damage:
            corrupt: list[CorruptRecord] = []
            log = self._store.log(after=each.position - 1, stream=each.stream, limit=1, on_corrupt=corrupt.append)
            found = [position async for position, _, _ in log]
            return found == [each.position] and not corrupt
        return False


class _ProjectionRaised(Exception):
    """Carries what a projection raised, as its cause."""


def _raised(work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception as error:
        raise _ProjectionRaised from error


def _pass(error: CorruptRecord) -> None:
    del error
