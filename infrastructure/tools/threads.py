"""A synchronous function on a daemon thread of its own.

A pool would be used up by tools that hang, and would keep the interpreter from exiting. A thread cannot be stopped
either: one that is given up runs on, and what it still returns goes nowhere.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["run_in_thread"]

T = TypeVar("T")


def run_in_thread(call: Callable[[], T], *, name: str) -> "asyncio.Future[T]":
    """Start `call` on a thread with a copy of the current context variables, and return its future result.

    `call` must not raise. Raises `RuntimeError` when no thread can be started. Cancelling the future gives the thread
    up.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    variables = contextvars.copy_context()

    def deliver(result: T) -> None:
        if not future.done():
            future.set_result(result)

    def work() -> None:
        result = variables.run(call)
        try:
            loop.call_soon_threadsafe(deliver, result)
        except RuntimeError:
            # The loop is closed, so nobody waits for this result any more.
            return

    threading.Thread(target=work, name=name, daemon=True).start()
    return future
