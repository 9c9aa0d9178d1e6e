"""Does something with each of many streams, a few at the same time: their commits are stored together then."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

AT_ONCE = 16
"""How many streams are asked at the same time."""


async def few_at_once(streams: Sequence[str], do: Callable[[str], Awaitable[object]]) -> None:
    """Do it with each of the streams, and raise the first error when that is over.

    A caller that is cancelled waits for the end of those that are under way.
    """
    left, errors = iter(streams), list[BaseException]()

    async def go_on() -> None:
        for stream in left:
            try:
                await do(stream)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                errors.append(error)
                if not isinstance(error, Exception):
                    return

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, len(streams))):
            group.create_task(go_on())
    if errors:
        raise errors[0]
