"""Waiting through a cancellation: work that must end, whatever becomes of the task that waits for it.

A task that is cancelled cancels the future it waits for. Where that future stands for a commit in flight, a child that
is being stopped or a tool that is tidying up, the task has to wait for the end first and be cancelled then.
"""

import asyncio
from typing import Any, TypeVar

__all__ = ["Uncancellable", "wait_through"]

T = TypeVar("T")


class Uncancellable(asyncio.Future[T]):
    """A future that cannot be cancelled. A task that waits for it gets its `CancelledError` once the future is done."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Refuse. The waiting task keeps the request in mind, and raises it where it waits."""
        del msg
        return False


async def wait_through(*work: "asyncio.Future[Any]", timeout: float | None = None) -> asyncio.CancelledError | None:
    """Wait until one of `work` is done, at most `timeout` seconds, also if the caller is cancelled meanwhile.

    Returns the caller's `CancelledError` so that it can be raised when its time has come, or None. The work itself is
    neither cancelled nor asked for its outcome.
    """
    loop = asyncio.get_running_loop()
    ended: Uncancellable[None] = Uncancellable(loop=loop)

    def tell(_: object = None) -> None:
        if not ended.done():
            ended.set_result(None)

    timer = None if timeout is None else loop.call_later(timeout, tell)
    for one in work:
        one.add_done_callback(tell)
    try:
        await ended
    except asyncio.CancelledError as error:
        return error
    finally:
        for one in work:
            one.remove_done_callback(tell)
        if timer is not None:
            timer.cancel()
    return None
