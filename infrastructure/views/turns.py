"""Says when a batch may begin: not while this process has something more urgent to do, or not for long."""

import asyncio
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

_PUT_OFF_SECONDS = 0.5
"""So long a batch waits for what is more urgent, and no longer."""
_LOOK_SECONDS = 0.02
"""How often a batch that waits looks. The pages may be made in another event loop than the one that it waits in."""


class Turns:
    """Counts what is more urgent."""

    def __init__(self) -> None:
        self._urgent = 0

    def put_off(self) -> AbstractContextManager[None]:
        """Begin no batch inside of this block, for half a second at most."""
        return self._held(1)

    def needed(self) -> AbstractContextManager[None]:
        """Begin batches again inside of this block, which is inside of one of `put_off`."""
        return self._held(-1)

    async def wait(self) -> None:
        """Return when a batch may begin."""
        looks = round(_PUT_OFF_SECONDS / _LOOK_SECONDS)
        while self._urgent > 0 and looks:
            looks -= 1
            await asyncio.sleep(_LOOK_SECONDS)

    @contextmanager
    def _held(self, more: int) -> Generator[None]:
        self._urgent += more
        try:
            yield
        finally:
            self._urgent -= more
