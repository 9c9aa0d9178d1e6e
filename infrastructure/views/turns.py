"""Says when a batch may begin: not while this process has something more urgent to do, or not for long."""

import asyncio
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress

_PUT_OFF_SECONDS = 0.5
"""So long a batch waits for what is more urgent, and no longer."""


class Turns:
    """Counts what is more urgent."""

    def __init__(self) -> None:
        self._urgent, self._is_free = 0, asyncio.Event()
        self._is_free.set()

    def put_off(self) -> AbstractContextManager[None]:
        """Begin no batch inside of this block, for half a second at most."""
        return self._held(1)

    def needed(self) -> AbstractContextManager[None]:
        """Begin batches again inside of this block, which is inside of one of `put_off`."""
        return self._held(-1)

    async def wait(self) -> None:
        """Return when a batch may begin."""
        if not self._is_free.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PUT_OFF_SECONDS):
                    await self._is_free.wait()

    @contextmanager
    def _held(self, more: int) -> Generator[None]:
        self._hold(more)
        try:
            yield
        finally:
            self._hold(-more)

    def _hold(self, more: int) -> None:
        self._urgent += more
        if self._urgent > 0:
            self._is_free.clear()
        else:
            self._is_free.set()
