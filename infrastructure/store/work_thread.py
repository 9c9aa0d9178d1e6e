"""One thread that does what it is given, in order, and the way back from it to an event loop.

An executor makes a future with a lock and a condition for each piece of work, and the loop another one: for a commit
of a tenth of a millisecond that is a third more. Here a commit costs a queue, a call and one wake-up of the loop.
"""

import asyncio
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

__all__ = ["Unbroken", "WorkThread", "call_in_loop"]

P = ParamSpec("P")
T = TypeVar("T")
Job = Callable[[], object]


class Unbroken(asyncio.Future[T]):
    """The end of something that goes on whoever waits for it: a waiter that is cancelled is, when it has ended."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Say no. The waiting task then raises its `CancelledError` where it waits, once this is done."""
        del msg
        return False


def call_in_loop(loop: asyncio.AbstractEventLoop, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Have `loop` make a call. Does nothing when the loop is closed: nobody waits there any more."""
    try:
        loop.call_soon_threadsafe(lambda: call(*args, **kwargs))
    except RuntimeError:
        if not loop.is_closed():
            raise


class WorkThread(Executor):
    """Runs jobs one at a time, in order. The thread begins with the first one and ends with `shutdown`.

    It is a daemon: a process that forgot to shut it down ends all the same, and so does a thread that is forgotten.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_shut = False
        weakref.finalize(self, self._jobs.put, None)

    def put(self, job: Job) -> None:
        """Run a job that cannot raise. Raises `RuntimeError` after `shutdown`."""
        with self._lock:
            if self._is_shut:
                msg = f"the thread {self._name} has been shut down"
                raise RuntimeError(msg)
            if self._thread is None:
                self._thread = threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True)
                self._thread.start()
            self._jobs.put(job)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call and return the future of what it returns or raises. Raises `RuntimeError` after `shutdown`."""
        future: Future[T] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        self.put(job)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do what was put in before, and end. Safe to call twice."""
        del cancel_futures
        with self._lock:
            thread = self._thread
            if not self._is_shut:
                self._is_shut = True
                self._jobs.put(None)
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()


def _work(jobs: "SimpleQueue[Job | None]") -> None:
    # Not a method: a thread that referred to its executor would keep it from being forgotten.
    while (job := jobs.get()) is not None:
        job()
        del job
