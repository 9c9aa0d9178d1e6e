"""The base of the iterators over a store: they wait, fail and are closed in one way, for one consumer or several."""

import asyncio
from abc import abstractmethod
from types import TracebackType
from typing import Generic, Self, TypeVar

from steptrail.domain.errors import StoreUnavailable
from steptrail.runtime.kernel.closing import Closing

T_co = TypeVar("T_co", covariant=True)


class Iteration(Closing, Generic[T_co]):
    """An async iterator, and an async context manager that ends it.

    It reads when it is asked for the next item, and hands out every item once, also when several tasks ask. It belongs
    to the event loop in which it is first used. After the `StoreError` that reading raised it keeps its place: the next
    call tries again. Closing it, or its trail, ends it, also for a task that waits.
    """

    def __init__(self) -> None:
        self._filling = asyncio.Lock()
        self._failure: Exception | None = None
        self._failed_at: TracebackType | None = None
        self._coming: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Tell whether nothing more will be handed out."""

    @abstractmethod
    async def begin(self) -> object:
        """Fix where the iteration begins."""

    @abstractmethod
    def ready(self) -> T_co | None:
        """Return the next item, if it has been read already; None otherwise."""

    @abstractmethod
    async def aclose(self) -> None:
        """End the iteration; a task that waits for the next item stops waiting. Safe to call twice."""

    @abstractmethod
    def _has_something(self) -> bool:
        """Tell whether an item may be ready."""

    @abstractmethod
    async def _advance(self) -> None:
        """Take one step towards the next item: begin, read, or wait for what comes."""

    async def fill(self) -> None:
        """Wait until an item is ready or the iteration is over."""
        async with self._filling:
            self._failure = None  # what failed while nobody asked may be well again
            try:
                while not self.is_over and not self._has_something():
                    await self._advance()
            except StoreUnavailable:
                if not self.is_over:
                    raise

    async def _come(self) -> None:
        """Wait for `_wake`."""
        self._coming = asyncio.get_running_loop().create_future()
        await self._coming

    def _wake(self) -> None:
        if self._coming is not None and not self._coming.done():
            self._coming.set_result(None)

    def _note_failure(self, error: Exception | None) -> None:
        # Thousands are told of one error. Each raises it as it came: a raise adds to the traceback that it finds.
        self._failure, self._failed_at = error, error.__traceback__ if error else None
        self._wake()

    def __aiter__(self) -> Self:
        """Return self."""
        return self

    async def __anext__(self) -> T_co:
        """Return the next item, as soon as there is one."""
        while not self.is_over:
            if (item := self.ready()) is not None:
                return item
            await self.fill()
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        """Fix where the iteration begins, and return self."""
        await self.begin()
        return self
