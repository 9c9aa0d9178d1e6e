"""Effects in flight, while commands may come in from other processes.

The log is asked now and then whether it holds something new. A pause lets the effects end. A stop gives them the grace
that the machine says, so that a reply which is on its way is not lost, and then cancels them. Code that is not ours
may take no notice of that: what is begun with a patience is left behind when it is at an end.
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
"""Tasks that did not end when they were cancelled. A loop refers to its tasks only weakly."""
_log = logging.getLogger("steptrail.store")


@dataclass(frozen=True, slots=True)
class Cut:
    """A stop, or whoever gave the effect up, cut it off."""

    by: Literal["stop", "cancelled"]


@dataclass(frozen=True, slots=True)
class _Interrupt:
    error: BaseException


Record: TypeAlias = "Callable[[T | Cut | Exception], None]"
"""Records how an effect ended: what it returned, what it raised, or that it was cut off."""


class InFlight:
    """The effects of one stream that run just now, each under a key. Each records its end once.

    `stop_grace` tells of a state how long they may run on: None until a stop is asked for, then so many seconds.
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
        """Start an effect. `record` is called when it has ended, from `land`, `leave` or `give_up`.

        With a `patience` it counts as ended so many seconds after it was cancelled, also if it runs on.
        """
        task = asyncio.get_running_loop().create_task(self._told(effect))
        task.add_done_callback(partial(self._close, effect))
        self._tasks[key], self._records[key] = task, record
        if patience is not None:
            self._patience[key] = patience

    async def land(self, *, at_most: float | None = None) -> None:
        """Wait until an effect has ended, for `at_most` seconds, and record all that have, as they were begun.

        Raises the caller's `CancelledError`, which leaves the effects in flight, and what is no `Exception` of an
        effect's own, such as `KeyboardInterrupt`.
        """
        loop = asyncio.get_running_loop()
        until = None if at_most is None else loop.time() + at_most
        ended = self._ended()
        while not ended:
            await self._wait(until)
            ended = self._ended()
            if until is not None and loop.time() >= until:
                break
            # Otherwise it was one that has been left behind: it tells of its end, too.
        self._record(ended)

    def leave(self, key: Hashable, outcome: Exception) -> None:
        """Cancel an effect, record that it ended with `outcome`, and wait for it no longer."""
        task, record = self._tasks[key], self._records[key]
        self._forget(key)
        task.cancel()
        _leave_behind(task)
        record(outcome)

    async def give_up(self) -> None:
        """Cancel what is in flight, wait for its end and record it, for a caller that is leaving by an exception.

        A further cancellation of the caller does not shorten that.
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
        """Return the seconds until the first effect that runs on is left behind; None when none is to be."""
        first = min((self._given_up_at(key) for key, task in self._tasks.items() if not task.done()), default=math.inf)
        return None if first == math.inf else max(0.0, first - asyncio.get_running_loop().time())

    def _cancel(self, cut: Cut) -> None:
        self._cut = cut
        now = asyncio.get_running_loop().time()
        for key in [key for key in self._tasks if key not in self._cancelled_at]:
            # Once: what tidies up has its own time for that.
            self._cancelled_at[key] = now
            self._tasks[key].cancel()

    async def _wait(self, until: float | None) -> None:
        loop = asyncio.get_running_loop()
        landed = self._landed = loop.create_future()
        # Most effects end before the first look: until then a timer does, which costs less than a task.
        looking: list[asyncio.Task[None]] = []
        timer = loop.call_later(self._poll, lambda: looking.append(loop.create_task(self._look())))
        alarm = None if until is None else loop.call_at(until, self._tell)
        try:
            await landed
        finally:
            # What is being asked just now is not folded any more: the journal is the caller's again.
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
            # Raised in a task, it would end the loop at once; the caller raises it when all else has been recorded.
            return _Interrupt(error)
        finally:
            # Told from inside, whoever waits goes on a turn of the loop sooner than by the task's own callbacks.
            self._tell()

    def _close(self, effect: Coroutine[Any, Any, object], _: object) -> None:
        # A task that is cancelled before its first line: nobody has told of it, and Python would warn of the effect.
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
        """Fold what came in, and return how long the effects may run on, if a stop was asked for."""
        try:
            if await self._journal.has_news():
                await self._journal.fold_news()
        except StoreError as error:
            # The effect is none the worse for it: what came in is found when its end is stored.
            _log.warning("the log could not be asked while an effect is in flight: %s", error)
        return self._stop_grace(self._journal.peek())


def _leave_behind(task: "asyncio.Task[Any]") -> None:
    _left_behind.add(task)
    task.add_done_callback(_left_behind.discard)
    # Whatever it still ends with has been looked at: nobody is to hear of it.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
