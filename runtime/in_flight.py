"""An effect in flight, while commands may come in from other processes.

The log is asked now and then whether it holds something new. A pause lets the effect end. A stop gives it the grace of
the recorded limits, so that a reply which is on its way is not lost, and then cancels it.
"""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from steptrail.domain.errors import StoreError
from steptrail.runtime.agent_journal import AgentJournal

__all__ = ["Cut", "perform"]

T = TypeVar("T")

_POLL_SECONDS = 0.2
_log = logging.getLogger("steptrail")


@dataclass(frozen=True, slots=True)
class Cut(Generic[T]):
    """A stop cut the effect off."""


async def perform(journal: AgentJournal, effect: Coroutine[Any, Any, T], *, poll: float = _POLL_SECONDS) -> T | Cut[T]:
    """Await an effect and return what it returns, or `Cut` when a stop ended it.

    Raises what the effect raises, and `CancelledError` of the caller after the effect has been cancelled too. An effect
    that has ended all the same is not thrown away: its result is returned, and the caller's next await is cancelled.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    task = loop.create_task(_told(effect, ended))
    task.add_done_callback(lambda _: _tell(ended))  # also of one that is cancelled before its first line
    watch = _Watch(journal, task, poll)
    try:
        await ended
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        if task.cancelled() or task.exception() is not None:
            raise
        _cancel_at_the_next_await()
    finally:
        watch.end()
    if not task.cancelled():
        return task.result()
    if watch.has_cut:
        return Cut()
    raise RuntimeError("the effect cancelled itself, and nobody had asked it to")


async def _told(effect: Coroutine[Any, Any, T], ended: "asyncio.Future[None]") -> T:
    # Told from inside, whoever waits goes on a turn of the loop sooner than the task's own callbacks are called.
    try:
        return await effect
    finally:
        _tell(ended)


def _tell(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)


def _cancel_at_the_next_await() -> None:
    """Put a cancellation off that came when the effect had ended, so that its end can be recorded first."""
    caller = asyncio.current_task()
    if caller is not None:
        caller.uncancel()
        caller.cancel()


class _Watch:
    """Asks the log for commands while an effect is in flight. It has the journal to itself meanwhile."""

    def __init__(self, journal: AgentJournal, task: "asyncio.Task[Any]", poll: float) -> None:
        self._journal, self._task, self._poll = journal, task, poll
        self.has_cut = False
        self._looking: asyncio.Task[None] | None = None
        # Most effects end before the first look: until then a timer does, which costs less than a task.
        self._timer = task.get_loop().call_later(poll, self._begin)

    def end(self) -> None:
        """Look no more: what is being asked just now is not folded any more."""
        self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _begin(self) -> None:
        self._looking = self._task.get_loop().create_task(self._look())

    async def _look(self) -> None:
        while not await _stop_came_in(self._journal):
            await asyncio.sleep(self._poll)
        execution = self._journal.glance().execution
        await asyncio.sleep(execution.agent.limits.stop_grace if execution else 0.0)
        self.has_cut = True
        self._task.cancel()


async def _stop_came_in(journal: AgentJournal) -> bool:
    try:
        if await journal.has_news():
            await journal.fold_news()
    except StoreError as error:
        # The effect is none the worse for it: what came in is found when its end is stored.
        _log.warning("the log could not be asked while an effect is in flight: %s", error)
    return journal.glance().stop_request is not None
