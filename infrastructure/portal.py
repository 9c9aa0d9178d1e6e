"""A private event loop in a thread of its own, for what is async inside and blocking outside.

It refuses to be used inside a running loop, where it would block everything else: use the async API there. A process
that is forked has the loop and not its thread, and so has a program that ends, once Python has ended its daemon
threads: there it refuses everything, and ends without a word.
"""

import asyncio
import os
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from steptrail.domain.errors import ConfigurationError, StoreUnavailable
from steptrail.infrastructure.store.core.file_errors import is_out_of_files, too_many
from steptrail.infrastructure.store.core.work_threads import started
from steptrail.runtime.kernel.thread_calls import Helpers

T = TypeVar("T")

_GREEN = (
    ("gevent", "monkey", "is_module_patched", "threading", "gevent.get_hub().threadpool.apply(asyncio.run, [main()])"),
    ("eventlet", "patcher", "is_monkey_patched", "thread", "eventlet.tpool.execute(asyncio.run, main())"),
)
"""Packages that replace threads, and what tells that they have: a module, its function, and what that is asked for.

The last runs a loop in a real thread. The others all share one, in which no two loops can run at once."""

_LOOK_SECONDS = 1.0
"""How often a thread that waits looks up: what another thread raises in it reaches it then."""

_left_behind: list[asyncio.AbstractEventLoop] = []
"""Loops of the process that this one was forked from. They share what they wait for, so nobody may close them here."""


class Portal:
    """A loop in a daemon thread, and the way into it.

    One that is dropped without `close` warns, calls what `on_drop` was set to, and ends its thread. Raises
    `StoreUnavailable` where there can be no more threads or files, and `ConfigurationError` where threads are not real
    ones.
    """

    on_drop: Callable[[], Coroutine[Any, Any, object]] | None = None

    def __init__(self) -> None:
        self._over: asyncio.Future[None] | None = None
        self._process = os.getpid()
        refuse_inside_a_loop()
        _refuse_green_threads()
        if is_out_of_files():  # looked at first: Python would leave half a loop behind, and complain of that
            raise too_many("the loop of the blocking API")
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(Helpers(thread_name_prefix="steptrail-helper"))
        self._entering, self._is_ending = threading.RLock(), False
        # Whatever the handler of a signal raises once the thread has begun, it is ended when this is dropped.
        self._over = self._loop.create_future()
        try:
            self._thread = started(_work, self._loop, self._over, name="steptrail-loop")
        except StoreUnavailable:
            self._loop.close()
            raise

    @property
    def is_open(self) -> bool:
        """Tell whether the loop takes work, in this process."""
        return not self.is_over and not self._is_ending

    @property
    def is_over(self) -> bool:
        """Tell whether the loop has ended, or its thread is not there any more."""
        return self._over is None or self._loop.is_closed() or self._has_lost_its_thread() is not None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end.

        What the handler of a signal, or another thread, raises here, such as `KeyboardInterrupt` or a time limit,
        cancels it first, which pauses the run.
        Raises `StoreUnavailable` after `close`, when that cancels it, in a process that was forked since, and at the
        very end of a program.
        """
        future: Future[T] = Future()
        task: list[asyncio.Task[T]] = []

        def begin() -> None:
            # The task is kept, and not looked for by its coroutine: tracers put one of their own around that.
            try:
                _leave_threads_of_asgiref()
                task.append(self._loop.create_task(work))
            except BaseException as error:
                future.set_exception(error)
                raise
            task[0].add_done_callback(partial(_settle, future))

        is_given = False
        try:
            if (why := self._has_lost_its_thread()) is not None:
                raise StoreUnavailable(why)
            with self._entering:
                # The loop does not look again at what comes in after its end, and nobody would hear of it.
                if not self.is_open:
                    raise StoreUnavailable("the trail is closed: open it again")
                refuse_inside_a_loop()
                is_given = True
                self._loop.call_soon_threadsafe(begin)
            while not future.done():
                wait([future], _LOOK_SECONDS)  # it raises no TimeoutError of its own, and a handler may raise one
            return future.result()
        except CancelledError:
            if not self._is_ending:
                raise
            raise StoreUnavailable("the trail was closed while this ran: open it again") from None
        except BaseException:
            # It is cancelled where the exception is not its own. The task still has its pause to write. What other
            # threads run here goes on.
            if is_given and not future.done():
                with suppress(RuntimeError):  # the loop has ended, and the task before it
                    self._loop.call_soon_threadsafe(lambda: task[0].cancel() if task else future.cancel())
                while not future.done():
                    wait([future], _LOOK_SECONDS)
            if not task:
                work.close()
            raise

    def close(self) -> None:
        """Cancel what other threads still run here, then end the loop and its thread. Safe to call twice."""
        if not self.is_over:
            self._wind_up(None)
            self._thread.join()

    def __del__(self) -> None:
        """Warn of a portal that nobody closed, and let its thread close what it held."""
        if self._over is None or self._loop.is_closed() or sys.is_finalizing():
            return
        if os.getpid() != self._process:
            _left_behind.append(self._loop)
            return
        # Any thread may be the one that collects garbage, and it must not wait here.
        self._wind_up(self.on_drop)
        said = "a blocking trail was dropped without being closed: close it, or use it in `with`"
        warnings.warn(said, ResourceWarning, stacklevel=2, source=self)  # which may be an error

    def _wind_up(self, close: Callable[[], Coroutine[Any, Any, object]] | None) -> None:
        with self._entering:
            if self._over is not None and not self._is_ending:
                self._is_ending = True
                asyncio.run_coroutine_threadsafe(_end(self._over, close), self._loop)

    def _has_lost_its_thread(self) -> str | None:
        """Return why the thread of the loop is not there any more; None while it is."""
        if os.getpid() != self._process:
            return "this trail was opened before this process was forked: open it again in the child"
        return "this program ends, and its threads have ended: close the trail before" if sys.is_finalizing() else None


def _work(loop: asyncio.AbstractEventLoop, over: "asyncio.Future[None]") -> None:
    while not over.done():
        # What ends a program ends the loop it is raised in, too. Here it is for whoever called for the task that raised
        # it; the callers of all other tasks go on.
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_until_complete(over)
    loop.close()


async def _end(over: "asyncio.Future[None]", close: Callable[[], Coroutine[Any, Any, object]] | None) -> None:
    try:
        if close is not None:
            await close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
    finally:
        over.set_result(None)


def _settle(future: "Future[T]", task: "asyncio.Task[T]") -> None:
    if task.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def refuse_inside_a_loop() -> None:
    """Raise `ConfigurationError` in the thread of a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(
        "the blocking API cannot be used inside a running event loop: use `Steptrail.open` and `async with`"
    )


def _leave_threads_of_asgiref() -> None:
    """Have what awaits by asgiref, such as Django's ORM, take its thread for all: that of the caller waits for us."""
    if (asgiref := sys.modules.get("asgiref.sync")) is not None:
        asgiref.AsyncToSync.executors.current = None
        asgiref.SyncToAsync.thread_sensitive_context.set(None)


def _refuse_green_threads() -> None:
    """Raise `ConfigurationError` where a package has all threads of the process share one: so they share one loop."""
    for package, module, tells, threads, real in _GREEN:
        if (loaded := sys.modules.get(f"{package}.{module}")) is not None and getattr(loaded, tells)(threads):
            raise ConfigurationError(
                f"{package} has replaced the threads of this process, and the blocking API needs a real one: "
                "serve with real threads or processes (such as `gunicorn --threads`, or `celery --pool threads` or "
                f"`prefork`), or use `Steptrail.open` in a `main` of your own, and run that by `{real}`"
            )
