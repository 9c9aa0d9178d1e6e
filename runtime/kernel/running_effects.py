"""Runs effects, while other processes may store commands to the stream.

Commands are looked for when the stream has grown, and not again and again. A pause lets the running effects end. A stop
leaves them the grace time of the machine, so that a reply which is on its way is not lost, and then cancels them. Code
of the user may ignore a cancellation. So an effect may be begun with a patience: when that is over, the effect is left
behind, and counts as ended.

Each effect is one task. Whatever else has to be noticed while effects run, one timer notices it: a timer for each
effect would cost a quick step more than its effects.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Hashable, Iterable
from contextlib import suppress
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from steptrail.domain.errors import StoreError
from steptrail.runtime.kernel.cancellation import leave_behind, wait_through
from steptrail.runtime.kernel.journal import Journal
from steptrail.runtime.kernel.log_raised import Seldom
from steptrail.runtime.kernel.log_reader import Watch

T = TypeVar("T")

PATIENCE_SECONDS = 1.0
"""How long a driver of a model, or a function that writes a summary, may take to end when it was cancelled."""
_QUICK_SECONDS = 0.2
"""An effect that has ended by then costs no look at the log."""
_LOOK_AGAIN_SECONDS = 1.0
"""How soon the log is looked at again after it could not be read. Until then nobody can tell that it has grown."""
_log = logging.getLogger("steptrail.store")


class Cut(Struct, frozen=True):
    """The outcome of an effect that was cut off: by a stop, or because its caller was cancelled."""

    by: Literal["stop", "cancelled"]


class Deaf:
    """The outcome of an effect that did not end at its deadline, nor within its patience after that."""


class _Interrupt(Struct, frozen=True):
    error: BaseException


Record: TypeAlias = "Callable[[T | Cut | Deaf | Exception], None]"
"""Records the end of an effect, given its result, its exception, or that it was cut or left behind."""


class _Running(Struct):
    """An effect and its task. It is left behind at the instant `given_up_at` of the loop's clock."""

    effect: Coroutine[Any, Any, Any]
    task: "asyncio.Task[Any]"
    record: "Record[Any]"
    patience: float
    drops_late: bool
    given_up_at: float = math.inf
    cut: Cut | None = None


class InFlight:
    """The effects of one stream that are running, each under a key. The end of each is recorded once.

    `stop_grace` returns, for a state, how many seconds they may run on after a stop; None while no stop is requested.
    """

    def __init__(self, journal: Journal[Any, Any], stop_grace: Callable[[Any], float | None]) -> None:
        self._journal, self._stop_grace = journal, stop_grace
        self._running: dict[Hashable, _Running] = {}
        self._landed: asyncio.Future[None] | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._may_have_news = asyncio.Event()
        self._rest: asyncio.TimerHandle | None = None
        self._cut_at: float | None = None
        self._has_news = False
        self._unread = Seldom(_log)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._running

    def begin(
        self,
        key: Hashable,
        effect: Coroutine[Any, Any, T],
        record: "Record[T]",
        *,
        patience: float | None = None,
        at_most: float | None = None,
        drops_late: bool = False,
    ) -> None:
        """Start an effect. `record` is called after its end, in `land` or `give_up`.

        With a `patience` (seconds), the effect counts as ended that long after it was cancelled, even if it runs on. An
        effect that ends itself after `at_most` seconds counts as ended that long after those. With `drops_late`, an
        effect that returns after it was cancelled counts as cut off.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._told(effect))
        running = _Running(effect, task, record, math.inf if patience is None else patience, drops_late)
        if at_most is not None and patience is not None:
            running.given_up_at = loop.time() + at_most + patience
        self._running[key] = running

    async def land(self, *, at_most: float | None = None, or_news: bool = False) -> None:
        """Wait until an effect has ended, at most `at_most` seconds; record all that have, in the order of their start.

        With `or_news` the wait is also over when events of others were folded. Raises the caller's `CancelledError`,
        and leaves the effects in flight then. Raises an exception of an effect that is no `Exception`, such as
        `KeyboardInterrupt`.
        """
        loop = asyncio.get_running_loop()
        until = None if at_most is None else loop.time() + at_most
        self._has_news = False
        # What was just begun runs before the caller does again. If it ends then, nobody has to be woken.
        await asyncio.sleep(0)
        ended = self._ended()
        while not ended:
            await self._wait(until)
            ended = self._ended()
            if (until is not None and loop.time() >= until) or (or_news and self._has_news):
                break
            # Nothing may have ended: an effect that was left behind wakes this loop too.
        self._record(ended)

    async def give_up(self) -> asyncio.CancelledError | None:
        """Cancel all effects, wait for their end and record it. For a caller that leaves by an exception.

        A cancellation of the caller meanwhile does not end this sooner, and is returned.
        """
        cancelled: asyncio.CancelledError | None = None
        self._cancel(self._running.values(), Cut("cancelled"))
        for running in self._running.values():
            # Whoever ends a loop cancels all its tasks, and this one may have heard of it before the caller did.
            if running.cut is None and running.task.cancelled():
                running.cut = Cut("cancelled")
        while pending := [self._running[key].task for key in self._running.keys() - self._ended()]:
            left = self._first_given_up() - asyncio.get_running_loop().time()
            timeout = None if left == math.inf else max(0.0, left)
            cancelled = await wait_through(*pending, timeout=timeout) or cancelled
        self._record(list(self._running))
        return cancelled

    def _ended(self) -> list[Hashable]:
        return [key for key, running in self._running.items() if running.task.done() or _is_given_up(running)]

    def _first_given_up(self) -> float:
        """Return when the first effect that runs on is left behind, by the loop's clock."""
        return min((each.given_up_at for each in self._running.values() if not each.task.done()), default=math.inf)

    def cut(self, keys: Iterable[Hashable]) -> None:
        """Cancel some of the effects. `land` records their ends, and waits no longer than their patience."""
        self._cancel([self._running[key] for key in keys if key in self._running], Cut("cancelled"))

    def _cancel(self, effects: Iterable[_Running], cut: Cut) -> None:
        now = asyncio.get_running_loop().time()
        for running in effects:
            # Each effect is cancelled only once, so that its tidying up is not interrupted.
            if running.cut is None and not running.task.done():
                running.cut = cut
                running.given_up_at = min(running.given_up_at, now + running.patience)
                running.task.cancel()
                # It may never have come to its first line, and then does not tell of its end itself.
                running.task.add_done_callback(self._tell)

    async def _wait(self, until: float | None) -> None:
        loop = asyncio.get_running_loop()
        landed = self._landed = loop.create_future()
        if self._next_look is None:
            self._next_look = loop.call_later(_QUICK_SECONDS, self._begin_to_look)
        alarm = None if until is None else loop.call_at(until, self._tell)
        try:
            await landed
        finally:
            self._landed = None
            if self._looking is not None:
                # From here on the caller changes the journal again, so nobody else may.
                self._looking.cancel()
                self._looking = None
            if alarm is not None:
                alarm.cancel()

    def _begin_to_look(self) -> None:
        self._next_look = None
        if self._landed is not None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def _record(self, keys: Iterable[Hashable]) -> None:
        interrupt: BaseException | None = None
        for key in keys:
            running = self._running.pop(key)
            outcome = self._outcome(running)
            if not self._running:
                self._cut_at = None
            if isinstance(outcome, _Interrupt):
                interrupt, outcome = outcome.error, Cut("cancelled")
            running.record(outcome)
        if interrupt is not None:
            raise interrupt

    def _outcome(self, running: _Running) -> Any:
        task = running.task
        if not task.done():
            task.cancel()
            leave_behind(task)
            return running.cut or Deaf()
        if task.cancelled():
            # It may have been cancelled before its first line, and Python would warn of an effect that nobody awaited.
            running.effect.close()
            return running.cut or RuntimeError("the effect cancelled itself, and nobody had asked it to")
        if (error := task.exception()) is not None:
            return error
        is_late = running.drops_late and not isinstance(task.result(), _Interrupt)
        return (running.cut if is_late else None) or task.result()

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

    def _tell(self, _: object = None) -> None:
        if self._landed is not None and not self._landed.done():
            self._landed.set_result(None)

    async def _look(self) -> None:
        """Look for a stop, and for effects that are to be cancelled or left behind, until the caller goes on."""
        loop = asyncio.get_running_loop()
        watch: Watch | None = None
        try:
            while True:
                self._may_have_news.clear()
                if self._cut_at is None and self._rest is None:
                    if watch is None or watch.is_over:
                        watch = self._journal.watch(lambda _: self._may_have_news.set(), self._look_later)
                    if (grace := await self._grace()) is not None:
                        self._cut_at = loop.time() + grace
                if self._cut_at is not None and self._cut_at <= loop.time():
                    self._cancel(self._running.values(), Cut("stop"))
                if self._ended() or self._has_news:
                    self._tell()
                due = self._first_given_up()
                if self._cut_at is not None and self._cut_at > loop.time():
                    due = min(due, self._cut_at)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(None if due == math.inf else due):
                        await self._may_have_news.wait()
        finally:
            if watch is not None:
                watch.leave()

    async def _grace(self) -> float | None:
        """Fold new events, and return how many seconds the effects may run on; None while no stop is requested."""
        try:
            if await self._journal.has_news():
                before = self._journal.committed.version
                await self._journal.fold_news()
                self._has_news = self._has_news or self._journal.committed.version > before
            self._unread.over()
        except StoreError as error:
            self._look_later(error)
        return self._stop_grace(self._journal.peek())

    def _look_later(self, error: Exception | None) -> None:
        # This does not disturb the effects: new events are found when the end of an effect is stored.
        if error is not None:
            self._unread.warn("the log could not be asked while an effect is in flight: %s", error)
        if self._rest is None:
            self._rest = asyncio.get_running_loop().call_later(_LOOK_AGAIN_SECONDS, self._end_rest)

    def _end_rest(self) -> None:
        self._rest = None
        self._may_have_news.set()


def _is_given_up(running: _Running) -> bool:
    return running.given_up_at != math.inf and running.given_up_at <= asyncio.get_running_loop().time()
