"""Waiting for the log to grow, until somebody says not to: what reads the log as it grows waits like this."""

import asyncio
from contextlib import suppress

from steptrail.runtime.kernel.ports import EventStore

__all__ = ["LogWaiter"]

_LOOK_AGAIN_SECONDS = 1.0
"""A store that was not told of a commit is asked this often."""


class LogWaiter:
    """The wait of one reader. It may be interrupted any number of times, also when nobody waits."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._timeout: asyncio.Timeout | None = None

    async def past(self, position: int) -> None:
        """Return when something may stand after `position`, when the wait is interrupted, or after a second."""
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(None) as self._timeout:
                    await self._store.wait_past(position, timeout=_LOOK_AGAIN_SECONDS)
            finally:
                self._timeout = None

    def interrupt(self) -> None:
        """End a wait that is going on. Call it in the event loop of the waiting task."""
        timeout, self._timeout = self._timeout, None
        if timeout is not None:
            timeout.reschedule(asyncio.get_running_loop().time())
