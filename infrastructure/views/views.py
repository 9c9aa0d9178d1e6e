"""A set of read models of one store: who applies the log to them, who reads them, and how they are built anew.

Of all processes one applies the log to a version of a projection at a time, because it holds the lease
`projector:<name>:<version>`. Who asks applies what is missing first, if the lease is free. Without the lease nothing
would go wrong, only work be done twice: each batch compares the place that it begins at.

A rebuild makes the tables of the next generation from the beginning of the log, while readers look at the present one,
and then has them look at the new one.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from contextlib import asynccontextmanager, suppress
from functools import partial
from operator import methodcaller
from typing import Any, TypeVar

from steptrail.domain.errors import (
    ConfigurationError,
    ProjectionStopped,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreIsStandby,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
    ViewsBusy,
)
from steptrail.infrastructure.store.core.work_threads import WorkThreads, finished
from steptrail.infrastructure.views.counted import AsOf, Found, shown_as_of
from steptrail.infrastructure.views.counting_anew import is_outdated, keep_exact
from steptrail.infrastructure.views.database import Database, Selected, Statements, TimeToAnswer
from steptrail.infrastructure.views.generation import Generation, PlaceMoved, ViewProgress
from steptrail.infrastructure.views.leases import LeasesOfViews
from steptrail.infrastructure.views.present import Present
from steptrail.infrastructure.views.projector import Projector
from steptrail.infrastructure.views.series import Series
from steptrail.infrastructure.views.turns import Turns
from steptrail.infrastructure.views.verifying import ViewsFault, verified
from steptrail.projections.kernel.face import Face, face_of
from steptrail.projections.kernel.projection import Projection
from steptrail.runtime.kernel.cancellation import leave_behind, wait_to_the_end
from steptrail.runtime.kernel.clock import Clock, SystemClock
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.lists import newest_position
from steptrail.runtime.kernel.log_raised import Seldom, said_by
from steptrail.runtime.kernel.log_reader import watch_log
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.thread_calls import beside_the_loop

__all__ = ["AsOf", "Found", "Views"]

T = TypeVar("T")
_LOOK_SECONDS = 0.02
"""How often to look how far the log is applied, while somebody waits for that. No event loop is told by another one,
and one trail may be used in several."""
_FAREWELL_SECONDS = 1.0
"""How long a batch that is being applied may take to end when nobody keeps the read models going any more."""
_AGAIN_SECONDS = 1.0
"""How often to try again to get a lease, or to apply what could not be applied, and to look for another generation."""
_TRIES = 5
"""How many times in a row to begin again where somebody else applied the log, or changed the generation."""

_NO_FACE = Face(0, ())
_PRUNED_AT_ONCE = 200
"""How many runs one transaction deletes. So many take some hundredths of a second."""

_log = logging.getLogger("steptrail.views")


class Views:
    """The read models that some projections make. Takes ownership of the series. Blocks no event loop.

    `face` shows those of `projections`, and questions of ours are about them. Each of the `own` projections of a
    service has a face beside. `turns` puts batches off while this process has something more urgent.
    """

    def __init__(
        self,
        store: EventStore,
        series: Series,
        projections: Sequence[Projection[Any]],
        face: Face = _NO_FACE,
        *,
        own: Sequence[Projection[Any]] = (),
        clock: Clock | None = None,
        reach: Reach = no_faults,
        most: int = 2_000,
    ) -> None:
        self._store, self.series, self._projections = store, series, (*projections, *own)
        self._asked, self._own = projections, own
        self._faces = [(face, projections), *((face_of(each), (each,)) for each in own)]
        self._present = Present(series, self._projections, [each for each, _ in self._faces])
        self._clock, self._reach, self._most = clock or SystemClock(), reach, most
        self._projectors: dict[str, Projector[Any]] = {}
        self._threads, self._readers = WorkThreads("steptrail-views"), WorkThreads("steptrail-views-reader", 2)
        self._rebuilding = WorkThreads("steptrail-views-rebuild")
        self._public: dict[str, int] = {}
        """The generation in which the face of a name was seen."""
        self._leases, self.turns, self._unwritten = LeasesOfViews(store, series), Turns(), Seldom(_log)
        self._process = os.getpid()

    async def catch_up(self, *, for_us: bool = False) -> Set[str]:
        """Apply what the log has now, or what questions of ours need, and return what is left to other processes.

        Those are the names of the projections to which others apply it. A standby is left to its primary.
        """
        left = set[str]()
        try:
            end = await self._store.last_position()
        except StoreIsStandby:
            return left
        for projection in self._asked if for_us else self._projections:
            progress = await self._progress_of(projection)
            # Behind the end stands what was counted of a log that has been replaced by an older copy since. What could
            # not be read may be readable by now, where it was mended, or this is a newer version.
            if progress is None or progress.reached.position != end or progress.damaged or is_outdated(progress, end):
                # What others have applied is all there is on a server that may not be written by us, where there is no
                # room, or where somebody reads on and on.
                try:
                    async with self._leases.to_count(projection) as is_free:
                        if is_free:
                            await self._apply(projection)
                        else:
                            left.add(projection.name)
                except ViewsBusy:
                    left.add(projection.name)
                except (StoreFull, StoreLocked, StoreReadOnly) as error:
                    self._unwritten.warn("the read models stay as they are counted: %s", error)
        return left

    async def progress(self) -> Sequence[ViewProgress]:
        """Return how far each projection has come. One that was never begun is left out."""
        return [found for each in self._projections if (found := await self._progress_of(each)) is not None]

    async def as_of(self, *, for_us: bool = False) -> AsOf:
        """Return up to where all projections have come, or those that questions of ours need."""
        return _slowest(await self.progress(), self._asked if for_us else self._projections)

    async def end(self) -> int:
        """Return the position of the newest record of the log."""
        return await newest_position(self._store)

    async def lag(self, as_of: AsOf | None = None) -> int:
        """Return how many positions of the log are not counted, now or in what was counted up to a place."""
        counted = await self.as_of() if as_of is None else as_of
        return max(0, await self.end() - counted.position)

    async def status(self) -> tuple[Sequence[ViewProgress], int, int]:
        """Return how far each projection has come, also those of others, and the present generation and its bytes."""
        number = await self._in(self._readers, self.series.current)
        sizes = await self._in(self._readers, self.series.sizes)
        return await self._books(), number or 0, sizes.get(number or 0, 0)

    async def wait(self, position: int, *, timeout: float) -> None:
        """Return as soon as everything up to a position of the log is counted. Applies it, if nobody else does.

        Raises `ProjectionStopped` for a projection that does not go on, and `TimeoutError` after `timeout` seconds.
        """
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                await self._counted(position)
        except TimeoutError:
            if not limit.expired():
                raise
            why = f"the read models have not counted up to position {position} of the log within {timeout:g} s"
            raise TimeoutError(why) from None

    async def _counted(self, position: int) -> None:
        while True:
            left = await self.catch_up()
            found = await self.progress()
            if len(found) == len(self._projections) and _slowest(found, self._projections).position >= position:
                return
            for each in found:
                # Who is at work on one that has stopped may have a mended class.
                if each.error_position is not None and each.reached.position < position and each.name not in left:
                    raise ProjectionStopped(each.name, each.error_position, each.error or "")
            await asyncio.sleep(_LOOK_SECONDS)

    async def read(self, work: Callable[[Statements], T]) -> tuple[T, AsOf]:
        """Return `work(statements)` of one instant and one generation, and up to where that is counted.

        `work` may be called again when the generation is removed meanwhile.
        """

        def of(generation: Generation, statements: Statements) -> tuple[T, AsOf]:
            return work(statements), _slowest(generation.progress(statements), self._asked)

        return await self._of_present(lambda generation: generation.database, of)

    async def fetch(self, text: str, *values: Any) -> Found:
        """Return the rows of a question with `$1`, `$2` and so on for its values."""
        rows, as_of = await self.read(lambda statements: statements.ask(text, *values))
        return Found(rows, as_of)

    async def sql(self, text: str, values: Sequence[Any], *, seconds: float, most: int) -> tuple[Selected, AsOf]:
        """Return the first rows of a question to the public views that somebody has written.

        A caller that is cancelled ends the question. Raises `QueryRefused` for one that is not understood, does not
        only read the views, or takes longer than `seconds`.
        """

        def work(statements: Statements) -> tuple[Selected, AsOf]:
            as_of = shown_as_of(statements, text, *self._faces[0], self._own)
            return statements.select(text, values, most), as_of

        def public(generation: Generation) -> Database:
            return self.series.public(generation.number)

        return await self._of_present(public, lambda _, statements: work(statements), TimeToAnswer(seconds))

    async def verify(self) -> Sequence[ViewsFault]:
        """Return what is wrong with the rows that readers look at, compared with a fresh fold. Changes nothing."""
        return await verified(self._store, self.series, self._projections)

    async def old(self, before: int) -> int:
        """Return how many rows of ours ended before an instant, without what belongs to them. Changes nothing."""

        def work(generation: Generation, statements: Statements) -> int:
            found = (generation.old(statements, each, before) for each in self._asked)
            return sum(len(keys) for old in found for keys in old.values())

        return await self._if_there(work) or 0

    async def prune(self, before: int) -> int:
        """Delete rows that ended before an instant, and return how many of ours, without what belonged to them.

        Sums stay. It is done in small transactions, so that nobody waits long. Killed on the way, the next one ends it.
        What ended before the instant stays out of all that is counted later, also by a rebuild. Raises `ViewsBusy`
        while another process prunes or rebuilds.
        """
        async with self._leases.to_rebuild("a steptrail prune"):
            await self.present()
            deleted = 0
            for projection in self._projections:
                # Each time of what readers look at then: a rebuild may pass a process that stands still.
                prune = partial(self._present.of, methodcaller("prune", projection, before, _PRUNED_AT_ONCE))
                while many := await self._in(self._threads, prune):
                    deleted += many if projection in self._asked else 0
                    self._reach("pruned")
            return deleted

    async def rebuild(self, *, whole: bool = False) -> int:
        """Build a new generation from the beginning of the log, have readers look at it, and return its number.

        What was pruned stays out, unless it is to be `whole`. Raises `ViewsBusy` while another process does, and
        `ProjectionStopped` when a projection fails at an event; then readers look at the present generation as before.
        """
        for _ in range(_TRIES):
            with suppress(PlaceMoved):
                return await self._rebuilt(whole=whole)
        raise StoreUnavailable("the read models were removed again and again while they were rebuilt: try again")

    async def _rebuilt(
        self, may_stop: Set[str] = frozenset(), instead_of: int | None = None, *, whole: bool = False
    ) -> int:
        """Do what `rebuild` does, once; those of these names may stop at an event. Raises `PlaceMoved`.

        It does so too where readers look at another generation than the one that this is to be `instead_of`.
        """
        async with self._leases.to_rebuild("a steptrail rebuild"):
            present = await self._in(self._rebuilding, self.series.current)
            if instead_of not in (None, present):
                raise PlaceMoved  # somebody else has rebuilt between the caller's look and our lease
            marks, _ = kept = await self._kept(present)
            generation = await self._in(self._rebuilding, partial(self._present.begun, {} if whole else marks, present))
            try:
                await self._fill(generation, may_stop)
                self._reach("before-switch")
                if await self._kept(present) != kept:
                    raise PlaceMoved  # a projection that we do not have was begun, or rows were pruned past our lease
                await self._in(self._rebuilding, partial(self.series.point_at, generation.number, self._present.faces))
            except BaseException as error:
                await self._in(self._rebuilding, partial(self._present.give_up, generation, error))
                raise
            self._reach("after-switch")
            return generation.number

    async def _fill(self, generation: Generation, may_stop: Set[str]) -> None:
        """Count the whole log in a new generation."""
        projectors = [self._projector(generation, each, in_bulk=True) for each in self._projections]
        for projector in projectors:
            await projector.begin()
            await self._to_the_end(projector, may_stop)
        await self._in(self._rebuilding, partial(generation.analyze, self._projections))
        for projector in projectors:
            await self._to_the_end(projector, may_stop)

    async def _kept(self, present: int | None) -> tuple[Mapping[str, int], Set[tuple[str, int]]]:
        """Return up to which instants the `present` generation was pruned, by projections, and those of others in it.

        Raises `StoreTooNew` where readers are given the views of a newer version.
        """
        ours, _ = self._faces[0]
        try:
            seen = partial(self.series.face, present or 0, ours.name)
            face = 0 if present is None else await self._in(self._rebuilding, seen)
            pruned = await self._if_there(Generation.pruned) or {}
            others = {each[:2] for each in await self._books()} - self._present.names
        except StoreDamaged as error:
            _log.warning("%s; what was pruned is in them again", error)
            return {}, set()
        if face > ours.version:
            raise StoreTooNew("the read models are those of a newer version of Steptrail: rebuild them with that one")
        return pruned, others

    @asynccontextmanager
    async def kept_going(self) -> AsyncGenerator[None]:
        """Apply every event as soon as it is stored, until the block is left. Waits for the lease where it is held.

        What was erased from a long log is taken out of sums from time to time, by counting all anew beside.
        """
        tasks = [asyncio.create_task(self._keep(each), name=f"steptrail-{each.name}") for each in self._projections]
        exact = keep_exact(self.status, self._rebuilt, dict(self._present.names), self._clock.utc)
        tasks.append(asyncio.create_task(exact, name="steptrail-views-rebuild"))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            # A batch that a silent server does not take, or a projection that does not return, is left behind.
            ended = asyncio.gather(*tasks, return_exceptions=True)
            try:
                await wait_to_the_end(ended, timeout=_FAREWELL_SECONDS)
            finally:
                for task in tasks:
                    if not task.done():
                        leave_behind(task)

    async def close(self) -> None:
        """Close every connection. Safe to call twice."""
        for threads in (self._threads, self._readers, self._rebuilding):
            threads.shutdown(wait=False)
        await beside_the_loop(self.series.close, name="steptrail-views")

    async def _of_present(
        self,
        database: Callable[[Generation], Database],
        work: Callable[[Generation, Statements], T],
        until: TimeToAnswer | None = None,
    ) -> T:
        for _ in range(_TRIES):
            generation = await self.present()
            try:
                read = partial(database(generation).read, partial(work, generation), until=until)
                return await self._in(self._readers, read, on_cancel=None if until is None else until.give_up)
            except StoreError:
                if await self._in(self._readers, self.series.current) == generation.number:
                    raise
        raise StoreUnavailable("the read models were rebuilt again and again while they were read: try again")

    async def _keep(self, projection: Projection[Any]) -> None:
        seldom = Seldom(_log)
        while True:
            try:
                async with self._leases.to_count(projection) as is_free:
                    if is_free:
                        await self._follow(projection, seldom)
            except (ConfigurationError, ProjectionStopped) as error:
                _log.error("%s", error)
                return
            except Exception as error:  # also for lack of memory: it would count no more, and say nothing of that
                seldom.warn("the projection %s goes on in a moment: %s", projection.name, said_by(error))
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _follow(self, projection: Projection[Any], seldom: Seldom) -> None:
        grown = asyncio.Event()
        watch = watch_log(self._store, lambda _: grown.set(), lambda _: grown.set())
        try:
            while not watch.is_over:
                grown.clear()
                await self._apply(projection)
                seldom.over()
                progress = await self._progress_of(projection)
                if progress is not None and progress.error_position is not None:
                    raise ProjectionStopped(progress.name, progress.error_position, progress.error or "")
                await self._something_new(grown, self._projectors[projection.name].generation.number)
        finally:
            watch.leave()

    async def _something_new(self, grown: asyncio.Event, number: int) -> None:
        """Return when the log has grown, or readers look at another generation, of which less may be counted."""
        while not grown.is_set() and await self._in(self._readers, self.series.current) == number:
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await grown.wait()

    async def _apply(self, projection: Projection[Any]) -> None:
        for _ in range(_TRIES):
            generation = await self.present()
            projector = self._projectors.get(projection.name)
            if projector is None or projector.generation is not generation:
                projector = self._projectors[projection.name] = self._projector(generation, projection)
            try:
                end = await self._store.last_position()
                if not await projector.begin():
                    _log.warning("the read models are not of this log as it is now: they are built anew")
                    await self._rebuilt({each.name for each in self._own}, generation.number)
                    continue
                while await self._next(projector):
                    if await self._in(self._threads, self.series.current) != generation.number:
                        break
                else:
                    if projector.has_erased:
                        continue  # the next look says whether all is to be counted anew
                    await self._publish(generation, end)
                    return
            except PlaceMoved:
                continue
            except StoreError:
                # A generation that was removed by a rebuild is left for the one that readers look at.
                if await self._in(self._threads, self.series.current) == generation.number:
                    raise

    async def _publish(self, generation: Generation, end: int) -> None:
        """Give readers the public views of these versions, each face once its projections are counted up to `end`."""
        for face, projections in self._faces:
            if self._public.get(face.name) == generation.number:
                continue
            counted = {each.name: each.reached.position for each in await self.progress()}
            if any(counted.get(each.name, -1) < end for each in projections):
                continue
            if await self._in(self._threads, partial(self.series.face, generation.number, face.name)) < face.version:
                await self._in(self._threads, partial(self.series.publish, generation.number, [face]))
            self._public[face.name] = generation.number

    async def _next(self, projector: Projector[Any]) -> bool:
        await self.turns.wait()
        return await projector.apply()

    async def _to_the_end(self, projector: Projector[Any], may_stop: Set[str]) -> None:
        while await self._next(projector):
            pass
        if projector.stopped is not None and projector.projection.name not in may_stop:
            raise projector.stopped

    def _projector(
        self, generation: Generation, projection: Projection[Any], *, in_bulk: bool = False
    ) -> Projector[Any]:
        # Those who ask wait for nothing that a rebuild does: its batches are large.
        in_thread = partial(self._in, self._rebuilding if in_bulk else self._threads)
        return Projector(
            self._store, generation, projection, in_thread, reach=self._reach, most=self._most, in_bulk=in_bulk
        )

    async def present(self) -> Generation:
        """Return the generation that readers look at, with the tables of all projections. Makes the first one."""
        return await self._in(self._threads, self._present.generation)

    async def _if_there(self, work: Callable[[Generation, Statements], T]) -> T | None:
        """Return what `work` reads of the generation that readers look at; None while there is none."""
        read = partial(self._present.of, lambda generation: generation.database.read(partial(work, generation)))
        return await self._in(self._readers, read)

    async def _books(self) -> Sequence[ViewProgress]:
        return await self._if_there(Generation.progress) or ()

    async def _progress_of(self, projection: Projection[Any]) -> ViewProgress | None:
        of = (projection.name, projection.version)
        return next((each for each in await self._books() if each[:2] == of), None)

    async def _in(
        self, threads: WorkThreads, work: Callable[[], T], *, on_cancel: Callable[[], None] | None = None
    ) -> T:
        """Return `work()` of a thread. A caller that is cancelled calls `on_cancel`, and waits for its end first."""
        if os.getpid() != self._process:  # none of the threads is here, and the caller would wait for ever
            raise StoreUnavailable("the read models were opened before this process was forked: open the trail again")
        try:
            future = threads.submit(work)
        except RuntimeError as error:
            raise StoreUnavailable("the read models are closed") from error
        return await finished(future, on_cancel=on_cancel)


def _slowest(found: Sequence[ViewProgress], needed: Sequence[Projection[Any]]) -> AsOf:
    """Return up to where all that are needed have come."""
    names = {(each.name, each.version) for each in needed}
    counted = [AsOf(each.reached.position, each.reached.at) for each in found if each[:2] in names]
    return min(counted) if counted and len(counted) == len(names) else AsOf(0, 0)
