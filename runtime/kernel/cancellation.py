"""Waits for work that must end, also when the waiting task is cancelled.

A task that is cancelled cancels the future that it waits for. Some futures stand for a commit in flight, a child that
is being stopped, or a tool that is tidying up. There the task has to wait for the end first, and be cancelled then.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

_left_behind: set["asyncio.Task[Any]"] = set()
"""Tasks that did not end when they were cancelled. They are kept here because a loop refers to its tasks weakly."""


def is_asked_to_end() -> bool:
    """Tell whether somebody cancels the current task. Else a `CancelledError` was raised unasked by what it called."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Uncancellable(asyncio.Future[T]):
    """A future that cannot be cancelled. A task that waits for it gets its `CancelledError` once the future is done."""

    on_cancel: Callable[[], None] | None = None

    def cancel(self, msg: Any | None = None) -> bool:
        """Return False. The waiting task remembers its cancellation and raises it once the future is done."""
        if self.on_cancel is not None:
            self.on_cancel()
        return False


async def wait_through(
    *work: "asyncio.Future[Any]", timeout: float | None = None, on_cancel: Callable[[], None] | None = None
) -> asyncio.CancelledError | None:
    """Wait until one of `work` is done, at most `timeout` seconds, also if the caller is cancelled meanwhile.

    Returns the caller's `CancelledError`, which the caller has to raise in the end; None when it was not cancelled.
    The work is not cancelled, and its result and its exception are left alone; `on_cancel` is called at once, and may
    tell the work that it should end soon.
    """
    loop = work[0].get_loop()  # none is said to run in a process that was forked beside it
    ended: Uncancellable[None] = Uncancellable(loop=loop)
    ended.on_cancel = on_cancel

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


async def wait_to_the_end(work: "asyncio.Future[Any]", *, timeout: float | None = None) -> None:
    """Do what `wait_through` does, and raise the caller's `CancelledError` after it."""
    if (cancelled := await wait_through(work, timeout=timeout)) is not None:
        raise cancelled


async def outlast(begin: Callable[[], Awaitable[T]]) -> "tuple[asyncio.Future[T], asyncio.CancelledError | None]":
    """Do work in a task of its own; return that once it is done, and the caller's `CancelledError` as `wait_through`.

    The work is begun once more where its task is cancelled.
    """
    cancelled = await wait_through(task := asyncio.ensure_future(begin()))
    if task.cancelled():
        # Whoever ends a loop cancels all of its tasks, also this one, and does so once.
        cancelled = await wait_through(task := asyncio.ensure_future(begin())) or cancelled
    return task, cancelled


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancel a task and wait for its end. A caller that is cancelled meanwhile gets its `CancelledError` after that.

    To await the task itself cannot tell its cancellation from the caller's.
    """
    task.cancel()
    await wait_to_the_end(task)


def leave_behind(task: "asyncio.Task[Any]") -> None:
    """Wait no longer for a task that takes no notice of its cancellation. It goes on for as long as its loop runs."""
    _left_behind.add(task)
    task.add_done_callback(_left_behind.discard)
    # The exception is read, so that asyncio does not log that nobody did.
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    # Whoever ends a loop waits for every task that asyncio knows of, which for this one would be for ever.
    asyncio._unregister_task(task)
