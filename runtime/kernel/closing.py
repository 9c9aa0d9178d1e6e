"""The base of what ends with its `aclose`, also at the end of an `async with`."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """An async context manager that is closed when it is left. It begins at once, unless a class says otherwise."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close it. Safe to call twice."""

    async def __aenter__(self) -> Self:
        """Return self."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        await self.aclose()
