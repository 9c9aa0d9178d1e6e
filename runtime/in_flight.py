"""An effect in flight, while commands may come in from other processes.

The log is asked now and then whether it holds something new. A pause lets the effect end. A stop gives it the grace of
the recorded limits, so that a reply which is on its way is not lost, and then cancels it.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from steptrail.runtime.journal import Journal

__all__ = ["Cut", "perform"]

T = TypeVar("T")

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Cut(Generic[T]):
    """A stop cut the effect off."""


async def perform(journal: Journal, effect: Coroutine[Any, Any, T], *, poll: float = _POLL_SECONDS) -> T | Cut[T]:
    """Await an effect and return what it returns, or `Cut` when a stop ended it.

    Raises what the effect raises, `OwnershipLost` only after the effect has ended by itself, and `CancelledError` of
    the caller after the effect has been cancelled too.
    """
    task = asyncio.ensure_future(effect)
    try:
        while not task.done():
            done, _ = await asyncio.wait({task}, timeout=poll)
            if done:
                break
            if not await journal.has_news():
                continue
            await journal.fold_news()
            if journal.state.stop_request is not None:
                return await _stopped(journal, task)
        return await task
    except asyncio.CancelledError:
        await _cancel(task)
        raise


async def _stopped(journal: Journal, task: "asyncio.Task[T]") -> T | Cut[T]:
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
