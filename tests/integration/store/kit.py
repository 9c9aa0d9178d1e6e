"""What tests of one store are written with."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from steptrail.infrastructure.store.event_store import RecorderEventStore

__all__ = ["use"]

T = TypeVar("T")


def use(store: RecorderEventStore, work: Callable[[RecorderEventStore], Awaitable[T]]) -> T:
    """Do something with a store and close it."""

    async def body() -> T:
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(body())
