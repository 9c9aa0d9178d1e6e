"""A private event loop in a thread of its own, for what is async inside and blocking outside.

It refuses to be used inside a running loop, where it would block everything else: use the async API there.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from steptrail.domain.errors import ConfigurationError

__all__ = ["Portal"]

T = TypeVar("T")


class Portal:
    """A loop in a daemon thread, and the way into it."""

    def __init__(self) -> None:
        _refuse_inside_a_loop()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="steptrail-loop", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Tell whether the loop runs."""
        return not self._loop.is_closed()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. A `KeyboardInterrupt` cancels it first, which pauses the run."""
        try:
            _refuse_inside_a_loop()
        except ConfigurationError:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            # The task still has its pause to write. What other threads run here goes on.
            asyncio.run_coroutine_threadsafe(_ended(work), self._loop).result()
            raise

    def close(self) -> None:
        """Cancel what other threads still run here, then end the loop and its thread."""
        asyncio.run_coroutine_threadsafe(_end_the_rest(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _ended(work: Coroutine[Any, Any, T]) -> None:
    running = [task for task in asyncio.all_tasks() if task.get_coro() is work]
    if running:
        await asyncio.wait(running)


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(
        "the blocking API cannot be used inside a running event loop: use `Steptrail.open` and `async with`"
    )
