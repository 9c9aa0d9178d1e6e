"""Calls between an event loop and threads.

A synchronous function of the user runs on a daemon thread of its own. A pool would be used up by functions that hang,
and would keep the interpreter from exiting. A thread cannot be stopped either: one that is given up runs on, and what
it still returns goes nowhere.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def call_in_loop(loop: asyncio.AbstractEventLoop, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Have `loop` make a call. A closed loop makes no call, because nobody waits in it any more."""
    try:
        loop.call_soon_threadsafe(lambda: call(*args, **kwargs))
    except RuntimeError:
        if not loop.is_closed():
            raise


def run_in_thread(call: Callable[[], T], *, name: str) -> "asyncio.Future[T]":
    """Start `call` on a thread with a copy of the current context variables; return the future of what it comes to.

    Raises `RuntimeError` when no thread can be started. Cancelling the future gives the thread up. At the end of a
    program, where Python 3.12 starts none while others go on, the call is made in the loop.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    variables = contextvars.copy_context()

    def deliver(settle: Callable[[], None]) -> None:
        if not future.done():
            settle()

    def work() -> None:
        try:
            settle = partial(future.set_result, variables.run(call))
        except StopIteration as error:
            beside = RuntimeError("it raised StopIteration, which no future takes")
            beside.__cause__ = error
            settle = partial(future.set_exception, beside)
        except BaseException as error:
            settle = partial(future.set_exception, error)
        # In a loop that is closed nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, settle)

    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError as error:
        if not is_at_the_end(error):
            raise
        loop.call_soon(work)
    return future


def is_at_the_end(error: RuntimeError) -> bool:
    """Tell whether a thread was refused because the program ends, and not for lack of room."""
    return "interpreter shutdown" in str(error)


class Helpers(ThreadPoolExecutor):
    """The helpers of a loop. At the end of a program, where they take nothing more, a call is made in the loop."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Do what executors do."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            if "cannot schedule new futures" not in str(error):  # for lack of threads it waits for one
                raise
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


async def beside_the_loop(call: Callable[[], T], *, name: str) -> T:
    """Return what `call` returns. It is made on a thread of its own, or in the loop where no thread can be started."""
    try:
        future = run_in_thread(call, name=name)
    except RuntimeError:
        return call()
    return await future
