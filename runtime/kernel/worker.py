"""Goes on with whatever is due in a store, for streams of any kind, and leaves them to others when it ends.

A worker holds nothing but its tasks. What is due stands in the index, and who owns a stream is decided by its lease, so
any number of workers may serve one store, and one that dies leaves what it did to the others.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from steptrail.domain.errors import OwnershipLost, SessionBusy, SteptrailError, StoreError
from steptrail.domain.kernel.commands import CALLER, Pause
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.due_look import DueLook
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import control_of
from steptrail.runtime.kernel.log_reader import Watch, watch_log

__all__ = ["Carry", "OnLeft", "Work", "Worker"]

Work = Callable[[], Coroutine[Any, Any, object]]
Carry = Callable[[RunSummary], Work | None]
"""Returns a function that goes on with a run; None for a run that this process leaves to others."""
OnLeft = Callable[[RunSummary, Exception | None], None]

_LOOK_AGAIN_SECONDS = 1.0
"""How often to look for what no commit tells of: an owner that died. A timer is waited for to its instant."""
_REST_SECONDS = 0.05
"""The least time between two looks: a busy store grows at every moment."""

_log = logging.getLogger("steptrail.runs")


class Worker:
    """Carries on what is due, `concurrency` runs at once at most, until it is left. An async context manager.

    `on_left` is told of each run that is left as it is, with the error of the attempt to carry it on. The error is None
    where nothing here can carry it on, or where that did not move it.

    At the end it drains: each of its runs is asked to pause, and what is in flight may end within `grace` seconds and
    is cut off then. Such a pause was asked for by no person, so the runs stay due. Runs that a call of another run
    began are carried on with that one.
    """

    def __init__(
        self, environment: Environment, carry: Carry, *, concurrency: int, grace: float, on_left: OnLeft | None = None
    ) -> None:
        self._env, self._carry, self._on_left = environment, carry, on_left
        self._concurrency, self._grace = concurrency, grace
        self._due = DueLook(environment.store, time.monotonic, least=_REST_SECONDS)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._left: dict[str, tuple[int, int]] = {}
        self._freed, self._changed = asyncio.Event(), asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    @property
    def running(self) -> Sequence[str]:
        """The streams that are being carried on here now."""
        return tuple(self._tasks)

    @property
    def left(self) -> Mapping[str, int]:
        """The streams that are due and were left as they are, each with the version at which that was."""
        return {stream: version for stream, (_, version) in self._left.items()}

    async def drain(self) -> None:
        """Take up nothing more, and leave what runs to others. Safe to call twice."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
        for stream in tuple(self._tasks):
            with suppress(SteptrailError):  # it has just ended
                await control_of(self._env, stream).request(Pause(by=CALLER, reason="its worker drains"))
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._grace)
        late = tuple(self._tasks.values())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def __aenter__(self) -> Self:
        """Begin to carry on what is due, and return self."""
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Drain."""
        await self.drain()

    async def _look(self) -> None:
        watch: Watch | None = None
        try:
            while not self._env.fanout.is_closed:
                try:
                    # The watch begins before the index is asked, so whatever comes later ends the wait.
                    if watch is None or watch.is_over:
                        watch = watch_log(self._env.store, self._note, self._note)
                    # So the process in which something is said after a quiet time answers it as a rule, at once.
                    await asyncio.sleep(self._due.rest)
                    self._changed.clear()
                    await self._wait(await self._take_up())
                except StoreError as error:
                    if not self._env.fanout.is_closed:
                        _log.warning("a worker could not look for what is due, and tries again: %s", error)
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        finally:
            if watch is not None:
                watch.leave()

    def _note(self, _: object) -> None:
        self._changed.set()

    async def _take_up(self) -> float:
        """Begin with what is due and not in hand, the first first; return in how many seconds to look again."""
        now, soon = self._env.clock.utc(), round(_LOOK_AGAIN_SECONDS * 1e6)
        wait, seen = soon, set[str]()
        async with aclosing(self._due.rows(now, now + soon, self._concurrency - len(self._tasks))) as rows:
            async for row in rows:
                seen.add(row.stream)
                if row.due is None:
                    wait = min(wait, (row.due_at or now) - now)
                elif row.stream not in self._tasks and not await self._is_left(row):
                    await self._begin(row)
                if len(self._tasks) >= self._concurrency:
                    break
        if self._due.behind is None:
            self._left = {stream: versions for stream, versions in self._left.items() if stream in seen}
            return wait / 1e6
        return min(wait / 1e6, self._due.behind)

    async def _is_left(self, row: RunSummary) -> bool:
        """Tell whether a stream stands as it did when it was left."""
        if row.stream not in self._left:
            return False
        row_version, version = self._left[row.stream]
        # A row is written when the standing changes, and an owner that has died may have gone on without that.
        is_same = row.version == row_version and not row.is_crashed
        return is_same or version == await self._env.store.version(row.stream)

    async def _begin(self, row: RunSummary) -> None:
        version = await self._env.store.version(row.stream)
        work = self._carry(row)
        if work is None:
            self._leave(row, version)
            _log.info("session %s is due, and left to a worker that has agent %r", row.session_id, row.name)
            return
        task = self._tasks[row.stream] = asyncio.create_task(self._carried(row, version, work))
        task.add_done_callback(partial(self._ended, row.stream))

    def _ended(self, stream: str, task: "asyncio.Task[None]") -> None:
        del task, self._tasks[stream]
        self._freed.set()
        self._changed.set()

    async def _carried(self, row: RunSummary, version: int, work: Work) -> None:
        """Do the work, and remember a run that it did not move, so that it is not tried again and again."""
        try:
            await work()
            if await self._env.store.version(row.stream) == version:
                self._leave(row, version)
        except (SessionBusy, OwnershipLost) as error:
            _log.debug("session %s is carried on by another process: %s", row.session_id, error)
        except StoreError as error:
            _log.warning("session %s is left for a while: %s", row.session_id, error)
        except SteptrailError as error:
            self._leave(row, version, error)
            _log.warning("session %s is due, and left as it is: %s", row.session_id, error)
        except Exception as error:
            self._leave(row, version, error)
            _log.exception("session %s is due, and could not be carried on", row.session_id)

    def _leave(self, row: RunSummary, version: int, error: Exception | None = None) -> None:
        self._left[row.stream] = row.version, version
        if self._on_left is not None:
            try:
                self._on_left(row, error)
            except Exception:
                _log.exception("what is told of session %s, which is left as it is, has failed", row.session_id)

    async def _wait(self, seconds: float) -> None:
        """Wait until something was stored or a run has ended, at most so long; with all hands full until one ends."""
        if len(self._tasks) >= self._concurrency:
            self._freed.clear()
            await self._freed.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
