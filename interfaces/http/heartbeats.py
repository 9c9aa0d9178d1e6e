"""Signs of life on a silent line: proxies close it without them, and its reader cannot tell it from a dead one."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

from steptrail.runtime.kernel.cancellation import cancel_and_wait

T = TypeVar("T")


async def with_beats(source: AsyncGenerator[T], every: float) -> AsyncGenerator[T | None]:
    """Yield the items of `source`, and None after each silence of `every` seconds. Closes the source."""
    coming: asyncio.Task[tuple[T] | None] | None = None
    try:
        while True:
            coming = coming or asyncio.create_task(_next(source))
            await asyncio.wait({coming}, timeout=every)
            if not coming.done():
                yield None
                continue
            came, coming = coming.result(), None
            if came is None:
                return
            yield came[0]
    finally:
        try:
            if coming is not None:
                await cancel_and_wait(coming)
        finally:
            await source.aclose()


async def _next(source: AsyncGenerator[T]) -> tuple[T] | None:
    async for came in source:
        return (came,)
    return None
