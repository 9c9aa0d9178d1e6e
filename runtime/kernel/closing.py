"""The end of what is open: the base of what ends with its `aclose`, and how several are closed."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Self

from steptrail.runtime.kernel.cancellation import wait_to_the_end


class Closing(ABC):
    """An async context manager that is closed when it is left. It begins at once, unless a class says otherwise."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close it. Safe to call twice."""

    async def __aenter__(self) -> Self:
        """Return self."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.aclose()


async def close_all(closing: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Close these side by side, because a silent server keeps each of them for seconds; raise the first error then.

    A caller that is cancelled meanwhile, as by anyio again and again, gets its `CancelledError` when all are closed.
    """
    ended = asyncio.gather(*(close() for close in closing), return_exceptions=True)
    await wait_to_the_end(ended)
    for error in ended.result():
        if error is not None:
            raise error
