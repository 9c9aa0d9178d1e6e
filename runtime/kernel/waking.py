"""Tells an engine which streams the commits of this process have made due, once they are stored.

It never holds up a commit and never fails one: wakes are noted, and a task of its own tells them to the engine. What is
lost with a process or with a connection is found by the sweep of a worker.
"""

import asyncio
import logging
from contextlib import AsyncExitStack

from steptrail.domain.errors import SteptrailError, stream_name
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.standing import Standing, StandingState
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.clock import Clock, SystemClock
from steptrail.runtime.kernel.engine import Engine, wake_of
from steptrail.runtime.kernel.lists import is_due_by_itself
from steptrail.runtime.kernel.log_raised import log_raised
from steptrail.runtime.kernel.ports import EventStore

HORIZON_SECONDS = 60.0
"""A wait that ends later than in so many seconds is told to the engine by the sweep, when the time has come nearer.

So sessions that wait for days cost an engine nothing.
"""
_CLOSE_SECONDS = 2.0

_log = logging.getLogger("steptrail.runs")


class Waking:
    """The wakes of one trail. Without an engine it does nothing."""

    def __init__(self, store: EventStore, clock: Clock | None = None) -> None:
        self._store, self._clock = store, clock or SystemClock()
        self.engine: Engine | None = None
        self._used: list[Engine] = []
        """All that were used, the last one too. Workers that were given one before are still woken by it."""
        self._noted: dict[str, RunSummary] = {}
        self._telling: asyncio.Task[None] | None = None
        self._is_failing = False

    def use(self, engine: Engine) -> None:
        """Tell this engine of wakes from now on. Every one that was used is released in the end."""
        self._used.append(engine)
        self.engine = engine

    def stored(self, row: RunSummary, before: Standing) -> None:
        """Note a commit that has moved a stream from where it stood `before`."""
        if self.engine is None:
            return
        may_move_another = row.parent is not None and row.standing is StandingState.DONE
        if row.due_at is None and before.due_at is None and not may_move_another:
            return
        # A session that its owner has taken up is told of by the owner's own job.
        if before.state is StandingState.PENDING and row.standing is StandingState.WORKING:
            self._noted.pop(row.stream, None)
            return
        self._noted[row.stream] = row
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def wake(self, row: RunSummary, *, due_at: int | None = None) -> None:
        """Wake a stream through the engine, when it is due. Raises `StoreUnavailable`."""
        if self.engine is not None:
            await self.engine.wake(wake_of(row, at=due_at, now=self._clock.utc()))

    async def aclose(self) -> None:
        """Tell what is noted, and release the engines."""
        if self._telling is not None:
            await asyncio.wait({self._telling}, timeout=_CLOSE_SECONDS)
            self._telling.cancel()
        async with AsyncExitStack() as closing:
            for engine in self._used:
                closing.push_async_callback(engine.close)

    async def _tell(self) -> None:
        while self._noted:
            stream, row = next(iter(self._noted.items()))
            del self._noted[stream]
            try:
                await self._tell_of(row)
                self._is_failing = False
            except SteptrailError as error:
                if not self._is_failing:
                    _log.warning("session %s is due, and the engine was not told: %s", stream_name(row.stream), error)
                self._is_failing = True
            except Exception as error:
                said = "session %s is due, and the engine could not be told"
                log_raised(_log, error, said, stream_name(row.stream), level=logging.ERROR)

    async def _tell_of(self, row: RunSummary) -> None:
        if self.engine is None:
            return
        await self.engine.open()
        now = self._clock.utc()
        due_at = None if is_due_by_itself(row, now) else row.due_at
        is_soon = row.due_at is not None and (due_at is None or due_at <= now + HORIZON_SECONDS * 1e6)
        if row.parent is not None:
            if is_soon or row.standing is StandingState.DONE:
                await self._tell_of_root(row.parent.root_stream, due_at)
        elif row.due_at is None:
            await self.engine.cancel(row.stream)
        elif is_soon:
            await self.wake(row, due_at=due_at)

    async def _tell_of_root(self, root_stream: str, due_at: int | None) -> None:
        """Wake the stream at the top of the tree, if it is not being worked on: the runs below go on with it."""
        for root in await self._store.index(IndexQuery(streams=[root_stream])):
            if root.standing is not StandingState.WORKING:
                await self.wake(root, due_at=due_at)
