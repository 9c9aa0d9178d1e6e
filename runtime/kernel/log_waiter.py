"""Waits for the log to grow. The wait can be interrupted."""

import asyncio
from contextlib import suppress

from steptrail.runtime.kernel.ports import EventStore

__all__ = ["LogWaiter"]

_LOOK_AGAIN_SECONDS = 1.0
"""How often the store is asked again, in case that it was not notified of a commit."""


class LogWaiter:
    """Lets one reader of the log wait. `interrupt` may be called any number of times, also while nobody waits."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._timeout: asyncio.Timeout | None = None

    async def past(self, position: int) -> None:
        """Return when the log may have entries after `position`, when the wait is interrupted, or after a second."""
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(None) as self._timeout:
                    await self._store.wait_past(position, timeout=_LOOK_AGAIN_SECONDS)
            finally:
                self._timeout = None

    def interrupt(self) -> None:
        """End the present wait, if there is one. Call it in the event loop of the waiting task."""
        timeout, self._timeout = self._timeout, None
        if timeout is not None:
            timeout.reschedule(asyncio.get_running_loop().time())
