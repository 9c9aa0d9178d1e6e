"""A time limit on a part of a task, which needs a timer only where that part has to wait for something.

What answers in its first turn of the event loop, such as a tool that looks into memory, costs no timer.
"""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class TimeBound:
    """Limits work to some `seconds`, as `asyncio.timeout` does; None for no limit. For one piece of work."""

    __slots__ = ("_seconds", "is_over")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self.is_over = False
        """Whether the work was cancelled because its time was up. It may have ended by itself all the same."""

    async def around(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `work()`, cancelled when its time is up. Raises `TimeoutError` if it lets that happen.

        It runs in the task of the caller.
        """
        if self._seconds is None:
            return await work()
        until, begun = asyncio.get_running_loop().time() + self._seconds, work()
        try:
            waits_for = begun.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        limit = asyncio.timeout_at(until)
        try:
            async with limit:
                return await _rest_of(begun, waits_for)
        finally:
            self.is_over = limit.expired()


@types.coroutine
def _rest_of(begun: Coroutine[Any, Any, T], waits_for: object) -> Generator[Any, Any, T]:
    """Go on with work that has begun, and waits now, as `await` does from the beginning."""
    while True:
        go_on: Callable[[], object]
        try:
            go_on = partial(begun.send, (yield waits_for))
        except BaseException as error:
            go_on = partial(begun.throw, error)
        try:
            waits_for = go_on()
        except StopIteration as end:
            result: T = end.value
            return result
