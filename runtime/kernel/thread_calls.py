"""Calls between an event loop and threads.

A synchronous function of the user runs on a daemon thread that nobody else uses meanwhile. A pool would be used up by
functions that hang, and would keep the interpreter from exiting. A thread cannot be stopped either: one that is given
up runs on, and what it still returns goes nowhere. One that is done stays for a moment, because to start another costs
more than most functions take.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

__all__ = ["call_in_loop", "run_in_thread"]

P = ParamSpec("P")
T = TypeVar("T")

_REST_SECONDS = 0.1
"""How long a thread without a call stays."""


def call_in_loop(loop: asyncio.AbstractEventLoop, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Have `loop` make a call. A closed loop makes no call, because nobody waits in it any more."""
    try:
        loop.call_soon_threadsafe(lambda: call(*args, **kwargs))
    except RuntimeError:
        if not loop.is_closed():
            raise


def run_in_thread(call: Callable[[], T], *, name: str) -> "asyncio.Future[T]":
    """Make `call` on a thread of that name with a copy of the current context variables, and return its future result.

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

    _free_thread(name).calls.put(work)
    return future


class _CallingThread(threading.Thread):
    """A thread that makes the calls it is given, and ends when it has had none for a moment."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(self) -> None:
        """Make calls."""
        while True:
            try:
                call = self.calls.get(timeout=_REST_SECONDS)
            except Empty:
                try:
                    _free.remove(self)
                except ValueError:
                    continue  # it was taken at this moment, and its call is on its way
                return
            call()
            del call
            _free.append(self)


_free: list[_CallingThread] = []
os.register_at_fork(after_in_child=_free.clear)


def _free_thread(name: str) -> _CallingThread:
    try:
        thread = _free.pop()
    except IndexError:
        thread = _CallingThread(name)
        thread.start()
    else:
        thread.name = name
    return thread
