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
    task = asyncio.ensure_future(effect)
    try:
        while not task.done():
            done, _ = await asyncio.wait({task}, timeout=poll)
            if done:
                break
            if await _stop_came_in(journal):
                return await _stopped(journal, task)
    except asyncio.CancelledError:
        await _cancel(task)
        if task.cancelled() or task.exception() is not None:
            raise
        _cancel_at_the_next_await()
    if task.cancelled():
        raise RuntimeError("the effect cancelled itself, and nobody had asked it to")
    return task.result()


async def _stop_came_in(journal: AgentJournal) -> bool:
    try:
        if await journal.has_news():
            await journal.fold_news()
    except StoreError as error:
        # The effect is none the worse for it: what came in is found when its end is stored.
        _log.warning("the log could not be asked while an effect is in flight: %s", error)
    return journal.state.stop_request is not None


def _cancel_at_the_next_await() -> None:
    """Put a cancellation off that came when the effect had ended, so that its end can be recorded first."""
    caller = asyncio.current_task()
    if caller is not None:
        caller.uncancel()
        caller.cancel()


async def _stopped(journal: AgentJournal, task: "asyncio.Task[T]") -> T | Cut[T]:
    execution = journal.state.execution
    grace = execution.agent.limits.stop_grace if execution else 0.0
    await asyncio.wait({task}, timeout=grace)
    if not task.done():
        await _cancel(task)
    # What ended in the moment of the cancellation has ended: it is not thrown away.
    return Cut() if task.cancelled() else task.result()


async def _cancel(task: "asyncio.Task[T]") -> None:
    task.cancel()
    await asyncio.wait({task})
