"""Threads that run what they are given, in order.

A stock executor makes a future with a lock and a condition for each piece of work, and the loop makes another one: for
a commit of a tenth of a millisecond that is a third more. `put` costs a queue and a call.
"""

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

from steptrail.domain.errors import StoreUnavailable
from steptrail.runtime.kernel.cancellation import Uncancellable, wait_through
from steptrail.runtime.kernel.thread_calls import call_in_loop, is_at_the_end

P = ParamSpec("P")
T = TypeVar("T")
Job = Callable[[], object]


class WorkThreads(Executor):
    """Begins jobs in order, on one thread or a few. They begin with the first jobs and end with `shutdown`.

    They are daemons: a process that forgot to shut them down ends all the same, and so do threads that are forgotten.
    `at_rest`, which cannot raise, is called once on a thread that has done a job and got no other for `rest` seconds.
    """

    def __init__(self, name: str, count: int = 1, *, at_rest: Job | None = None, rest: float = 0.0) -> None:
        self._name, self._count = name, count
        self._at_rest, self._rest = at_rest, rest
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_shut = False
        # A handler that was registered first comes last, and may still have something done.
        weakref.finalize(self, self._jobs.put, None).atexit = False

    def put(self, job: Job) -> None:
        """Run a job that cannot raise. Raises `RuntimeError` after `shutdown`, `StoreUnavailable` without a thread."""
        with self._lock:
            if self._is_shut:
                raise RuntimeError(f"the threads {self._name} have been shut down")
            if len(self._threads) < self._count:
                given = (self._jobs, self._at_rest, self._rest)
                try:
                    self._threads.append(started(_work, *given, name=self._name))
                except StoreUnavailable:
                    # Those that are there do it.
                    if not self._threads:
                        raise
            self._jobs.put(job)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call and return the future of what it returns or raises. Raises what `put` raises."""
        future: Future[T] = Future()
        self.put(partial(_settle, future, partial(fn, *args, **kwargs)))
        return future

    def finish(self, last: Callable[[], T], future: "Future[T]") -> None:
        """Settle the future with a last call. It is made in this thread where no other can begin to make it."""
        job = partial(_settle, future, last)
        try:
            self.put(job)
        except StoreUnavailable:
            job()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do what was put in before, and end. Safe to call twice."""
        with self._lock:
            threads = list(self._threads)
            if not self._is_shut:
                self._is_shut = True
                self._jobs.put(None)
        for thread in threads:
            if wait and thread is not threading.current_thread():
                thread.join()


def started(target: Callable[..., object], *args: object, name: str) -> threading.Thread:
    """Run a call on a daemon thread, and return that. Raises `StoreUnavailable` where there can be no more of them."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        why = "this process, or the system, has as many threads as it may: have some end, and try again"
        if is_at_the_end(error):
            why = "this program ends: have its main thread wait for those that go on"
        raise StoreUnavailable(f"{name} cannot begin ({error}): {why}") from error
    return thread


async def finished(future: Future[T], *, on_cancel: Callable[[], None] | None = None) -> T:
    """Return what the work returned. A caller that is cancelled calls `on_cancel`, and waits for its end first."""
    wrapped = asyncio.wrap_future(future)
    cancelled = await wait_through(wrapped, on_cancel=on_cancel)
    if cancelled is not None:
        if not wrapped.cancelled():
            wrapped.exception()  # looked at, so that no error is reported as unseen
        raise cancelled
    return wrapped.result()


def tell_all(ended: Sequence[tuple[Uncancellable[T], T | BaseException]]) -> None:
    """Give futures their results, or the errors that they end with, each in its own loop. Called in any thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Uncancellable[T], T | BaseException]]] = {}
    for future, outcome in ended:
        by_loop.setdefault(future.get_loop(), []).append((future, outcome))
    for loop, of_loop in by_loop.items():
        call_in_loop(loop, _tell, of_loop)


def _tell(ended: Sequence[tuple[Uncancellable[T], T | BaseException]]) -> None:
    for future, outcome in ended:
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _settle(future: "Future[T]", call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)


def _work(jobs: "SimpleQueue[Job | None]", at_rest: Job | None, rest: float) -> None:
    # Not a method: a thread that referred to its executor would keep it from being forgotten.
    has_done = False
    while True:
        try:
            job = jobs.get(timeout=rest if has_done and at_rest is not None else None)
        except Empty:
            job, has_done = at_rest, False
        else:
            has_done = True
        if job is None:
            break
        job()
        del job
    # The others are to end too.
    jobs.put(None)
