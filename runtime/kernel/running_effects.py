"""Runs effects, while other processes may store commands to the stream.

The log is polled for commands. A pause lets the running effects end. A stop leaves them the grace time of the machine,
so that a reply which is on its way is not lost, and then cancels them. Code of the user may ignore a cancellation. So
an effect may be begun with a patience: when that is over, the effect is left behind, and counts as ended.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from steptrail.domain.errors import StoreError
from steptrail.runtime.kernel.cancellation import wait_through
from steptrail.runtime.kernel.journal import Journal

__all__ = ["Cut", "InFlight"]

T = TypeVar("T")

_POLL_SECONDS = 0.2
_left_behind: set["asyncio.Task[Any]"] = set()
"""Tasks that did not end when they were cancelled. They are kept here because a loop refers to its tasks weakly."""
_log = logging.getLogger("steptrail.store")


@dataclass(frozen=True, slots=True)
class Cut:
    """The outcome of an effect that was cut off: by a stop, or because its caller was cancelled."""

    by: Literal["stop", "cancelled"]


@dataclass(frozen=True, slots=True)
class _Interrupt:
    error: BaseException


Record: TypeAlias = "Callable[[T | Cut | Exception], None]"
"""Records the end of an effect, given its result, its exception, or the cut."""


class InFlight:
    """The effects of one stream that are running, each under a key. The end of each is recorded once.

    `stop_grace` returns, for a state, how many seconds they may run on after a stop; None while no stop is requested.
    """

    def __init__(
        self,
        journal: Journal[Any, Any],
        stop_grace: Callable[[Any], float | None],
        *,
        poll: float = _POLL_SECONDS,
    ) -> None:
        self._journal, self._stop_grace, self._poll = journal, stop_grace, poll
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}
        self._records: dict[Hashable, Record[Any]] = {}
        self._patience: dict[Hashable, float] = {}
        self._cancelled_at: dict[Hashable, float] = {}
        self._landed: asyncio.Future[None] | None = None
        self._cut_at: float | None = None
        self._cut: Cut | None = None

    def __contains__(self, key: Hashable) -> bool:
        return key in self._tasks

    def begin(
        self, key: Hashable, effect: Coroutine[Any, Any, T], record: "Record[T]", *, patience: float | None = None
    ) -> None:
        """Start an effect. `record` is called after its end, in `land`, `leave` or `give_up`.

        With a `patience` (seconds), the effect counts as ended that long after it was cancelled, even if it runs on.
        """
        task = asyncio.get_running_loop().create_task(self._told(effect))
        task.add_done_callback(partial(self._close, effect))
        self._tasks[key], self._records[key] = task, record
        if patience is not None:
            self._patience[key] = patience

    async def land(self, *, at_most: float | None = None) -> None:
        """Wait until an effect has ended, at most `at_most` seconds; record all that have, in the order of their start.

        Raises the caller's `CancelledError`, and leaves the effects in flight then. Raises an exception of an effect
        that is no `Exception`, such as `KeyboardInterrupt`.
        """
        loop = asyncio.get_running_loop()
        until = None if at_most is None else loop.time() + at_most
        ended = self._ended()
        while not ended:
            await self._wait(until)
            ended = self._ended()
            if until is not None and loop.time() >= until:
                break
            # Nothing may have ended: an effect that was left behind wakes this loop too.
        self._record(ended)

    def leave(self, key: Hashable, outcome: Exception) -> None:
        """Cancel an effect, record `outcome` as its end, and do not wait for it."""
        task, record = self._tasks[key], self._records[key]
        self._forget(key)
        task.cancel()
        _leave_behind(task)
        record(outcome)

    async def give_up(self) -> None:
        """Cancel all effects, wait for their end and record it. For a caller that leaves by an exception.

        A further cancellation of the caller does not end this sooner.
        """
        self._cancel(self._cut or Cut("cancelled"))
        while pending := [self._tasks[key] for key in self._tasks.keys() - self._ended()]:
            await wait_through(*pending, timeout=self._patience_left())
        self._record(list(self._tasks))

    def _ended(self) -> list[Hashable]:
        now = asyncio.get_running_loop().time()
        return [key for key, task in self._tasks.items() if task.done() or self._given_up_at(key) <= now]

    def _given_up_at(self, key: Hashable) -> float:
        return self._cancelled_at.get(key, math.inf) + self._patience.get(key, math.inf)

    def _patience_left(self) -> float | None:
        """Return the seconds until the first effect that runs on is left behind; None when no effect will be."""
        first = min((self._given_up_at(key) for key, task in self._tasks.items() if not task.done()), default=math.inf)
        return None if first == math.inf else max(0.0, first - asyncio.get_running_loop().time())

    def _cancel(self, cut: Cut) -> None:
        self._cut = cut
        now = asyncio.get_running_loop().time()
        for key in [key for key in self._tasks if key not in self._cancelled_at]:
            # Each effect is cancelled only once, so that its tidying up is not interrupted.
            self._cancelled_at[key] = now
            self._tasks[key].cancel()

    async def _wait(self, until: float | None) -> None:
        loop = asyncio.get_running_loop()
        landed = self._landed = loop.create_future()
        # Most effects end before the first look at the log. Until then a timer is enough, which costs less than a task.
        looking: list[asyncio.Task[None]] = []
        timer = loop.call_later(self._poll, lambda: looking.append(loop.create_task(self._look())))
        alarm = None if until is None else loop.call_at(until, self._tell)
        try:
            await landed
        finally:
            # A look that is going on is cancelled, because from here on the caller changes the journal again.
            self._landed = None
            for handle in (timer, alarm, *looking):
                if handle is not None:
                    handle.cancel()

    def _record(self, keys: Iterable[Hashable]) -> None:
        interrupt: BaseException | None = None
        for key in keys:
            record, outcome = self._records[key], self._outcome(self._tasks[key])
            self._forget(key)
            if isinstance(outcome, _Interrupt):
                interrupt, outcome = outcome.error, Cut("cancelled")
            record(outcome)
        if interrupt is not None:
            raise interrupt

    def _forget(self, key: Hashable) -> None:
        for kept in (self._tasks, self._records, self._patience, self._cancelled_at):
            kept.pop(key, None)
        if not self._tasks:
            self._cut_at = self._cut = None

    def _outcome(self, task: "asyncio.Task[Any]") -> Any:
        if not task.done():
            _leave_behind(task)
            return self._cut
        if not task.cancelled():
            return task.exception() or task.result()
        return self._cut or RuntimeError("the effect cancelled itself, and nobody had asked it to")

    async def _told(self, effect: Coroutine[Any, Any, T]) -> "T | _Interrupt":
        try:
            return await effect
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as error:
            # Raised in a task, it would end the loop at once. The caller raises it after all other ends are recorded.
            return _Interrupt(error)
        finally:
            # Called in the task, this wakes the waiting caller one turn of the loop sooner than a done callback would.
            self._tell()

    def _close(self, effect: Coroutine[Any, Any, object], _: object) -> None:
        # A task that is cancelled before its first line never awaits the effect, and Python would warn of that.
        effect.close()
        self._tell()

    def _tell(self) -> None:
        if self._landed is not None and not self._landed.done():
            self._landed.set_result(None)

    async def _look(self) -> None:
        while (grace := await self._grace()) is None:
            await asyncio.sleep(self._poll)
        loop = asyncio.get_running_loop()
        if self._cut_at is None:
            self._cut_at = loop.time() + grace
        await asyncio.sleep(self._cut_at - loop.time())
        self._cancel(Cut("stop"))
        if (left := self._patience_left()) is not None:
            await asyncio.sleep(left)
            self._tell()

    async def _grace(self) -> float | None:
        """Fold new events, and return how many seconds the effects may run on; None while no stop is requested."""
        try:
            if await self._journal.has_news():
                await self._journal.fold_news()
        except StoreError as error:
            # This does not disturb the effects: new events are found when the end of an effect is stored.
            _log.warning("the log could not be asked while an effect is in flight: %s", error)
        return self._stop_grace(self._journal.peek())


def _leave_behind(task: "asyncio.Task[Any]") -> None:
    _left_behind.add(task)
    task.add_done_callback(_left_behind.discard)
    # The exception is read, so that asyncio does not log that nobody did.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
