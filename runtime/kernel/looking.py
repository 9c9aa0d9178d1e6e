"""Hears of what is due by looking: at the index of the store, each time when the log has grown, and each second."""

import asyncio
import logging
import time
from contextlib import aclosing, suppress

from steptrail.runtime.kernel.cancellation import cancel_and_wait
from steptrail.runtime.kernel.due_look import DueLook
from steptrail.runtime.kernel.engine import WorkerReport
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.hands import Hands
from steptrail.runtime.kernel.left_behind import LeftBehind
from steptrail.runtime.kernel.log_raised import Seldom, said_by
from steptrail.runtime.kernel.log_reader import Watch, watch_log

_LOOK_AGAIN_SECONDS = 1.0
"""How often to look for what no commit tells of: an owner that died. A timer is waited for to its instant."""
_REST_SECONDS = 0.05
"""The least time between two looks: a busy store grows at every moment."""

_log = logging.getLogger("steptrail.runs")


class Looking:
    """Gives hands what is due in the store, the oldest first. `topics` is what it says of itself."""

    def __init__(self, environment: Environment, topics: tuple[str, ...] = ()) -> None:
        self._env, self._topics = environment, topics
        self._due = DueLook(environment.store, time.monotonic, least=_REST_SECONDS)
        self._left_behind = LeftBehind(environment)
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    async def begin(self, hands: Hands) -> None:
        """Begin to look."""
        hands.on_ended = self._note
        self._looking = asyncio.create_task(self._look(hands))

    async def give_no_more(self) -> None:
        """Look no more. Safe to call twice."""
        if self._looking is not None:
            await cancel_and_wait(self._looking)

    async def end(self) -> None:
        """Do nothing more than `give_no_more` has done."""

    def report(self, hands: Hands) -> WorkerReport:
        """Return what there is to say of the worker; nobody wakes it."""
        return hands.report(self._env.worker, self._topics)

    async def _look(self, hands: Hands) -> None:
        watch: Watch | None = None
        seldom = Seldom(_log)
        try:
            while not self._env.fanout.is_closed:
                try:
                    # The watch begins before the index is asked, so whatever comes later ends the wait.
                    if watch is None or watch.is_over:
                        watch = watch_log(self._env.store, self._note, self._note)
                    # So the process in which something is said after a quiet time answers it as a rule, at once.
                    await asyncio.sleep(self._due.rest)
                    self._changed.clear()
                    seconds = await self._give(hands)
                    seldom.over()
                    await self._wait(hands, seconds)
                except Exception as error:  # also for lack of memory: it would look no more, and say nothing of that
                    if not self._env.fanout.is_closed:
                        said = "a worker could not look for what is due, and tries again: %s"
                        seldom.warn(said, said_by(error))
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        finally:
            if watch is not None:
                watch.leave()

    def _note(self, *_: object) -> None:
        self._changed.set()

    async def _give(self, hands: Hands) -> float:
        """Give what is due and not in hand, the first first; return in how many seconds to look again."""
        now, soon = self._env.clock.utc(), round(_LOOK_AGAIN_SECONDS * 1e6)
        wait, seen, free = soon, set[str](), hands.room.concurrency - len(hands.running)
        async with aclosing(self._due.rows(now, now + soon, free)) as rows:
            async for row in rows:
                seen.add(row.stream)
                if row.due is None:
                    wait = min(wait, (row.due_at or now) - now)
                elif hands.task_of(row.stream) is None:
                    began = time.monotonic()
                    if isinstance(await hands.take(row), asyncio.Task):
                        self._due.leave_out(time.monotonic() - began)
                if hands.room.is_full:
                    break
        if self._due.behind is None:
            await self._left_behind.stop()
            hands.forget_left_but(seen)
            return wait / 1e6
        return min(wait / 1e6, self._due.behind)

    async def _wait(self, hands: Hands, seconds: float) -> None:
        """Wait until something was stored or a run has ended, at most so long; with all hands full until one ends."""
        while hands.room.is_full:
            self._changed.clear()
            await self._changed.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
