"""The resources of a run: what a function of the user opens for each segment, such as clients. They are not recorded.

One task enters and leaves the context manager, because some libraries want that. It is left after the last effect of
the segment, in whatever way the segment ends.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncContextDecorator, ContextDecorator
from typing import Any, Final, TypeAlias, cast

from steptrail.domain.agent.means import Means
from steptrail.domain.continuation.names import function_name
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_function
from steptrail.runtime.agent.run_log import RUNS, resources_failed
from steptrail.runtime.kernel.cancellation import leave_behind, wait_through
from steptrail.runtime.kernel.running_effects import InFlight

Opener: TypeAlias = Callable[[Any], AbstractAsyncContextManager[object]]
"""Returns the context manager of the resources of a run, given its context."""

PATIENCE: Final = 10.0
"""How many seconds resources may take to close before they are cancelled, and again before they are left behind."""


class NeverOpened:
    """Stands for the function of the same name in a replay: nothing is opened.

    `problems` has the classes of the exceptions because of which the recorded run could not open its resources, each
    under the version of the event that says so.
    """

    def __init__(self, name: str, problems: Mapping[int, str]) -> None:
        self.name, self.problems = name, problems

    def __call__(self, data: object) -> AbstractAsyncContextManager[object]:
        """Raise `ConfigurationError`: nobody opens resources in a replay."""
        raise ConfigurationError(f"resources are never opened in a replay, and {self.name} is not called")


def checked_opener(given: object) -> Opener:
    """Return the function that opens resources. Raises `ConfigurationError` for anything else."""
    if not callable(given):
        raise ConfigurationError(f"{given!r} opens no resources: give a function that returns an async context manager")
    if isinstance(given, AsyncContextDecorator | ContextDecorator):
        # What a function with @asynccontextmanager returns can be called, too: it decorates functions.
        problem = "it is a context manager already: give the function that returns it, without calling that"
        raise ConfigurationError(f"{type(given).__name__} opens no resources: {problem}")
    if inspect.iscoroutinefunction(given) or inspect.isasyncgenfunction(given):
        raise ConfigurationError(f"{name_of(given)} returns no async context manager: write @asynccontextmanager on it")
    if inspect.isgeneratorfunction(inspect.unwrap(given)):
        problem = "write it with `async def`, and @asynccontextmanager on it"
        raise ConfigurationError(f"{name_of(given)} returns no async context manager: {problem}")
    return cast("Opener", a_function(given, "what opens resources", "the context of the run, or None"))


def name_of(opener: object) -> str:
    """Return the name of a function that opens resources, as it is recorded."""
    if isinstance(opener, NeverOpened):
        return opener.name
    return function_name(opener)


class OpenResources:
    """The resources of one segment of a session."""

    def __init__(self, run: str, opener: Opener, means: Means) -> None:
        self._run, self._opener, self._means = run, opener, means
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open_in(self, flight: InFlight, within: float | None) -> str | None:
        """Open them as an effect in flight. Returns the class of the exception when that fails; it is logged.

        When a stop cuts it off, None is returned too, and the means are not open.
        """
        ended = list[object]()
        flight.begin("resources", self.open(within), ended.append, patience=PATIENCE)
        await flight.land()
        if not isinstance(error := ended[0], Exception):
            return None
        resources_failed(self._run, "could not be opened", error)
        return type(error).__qualname__

    async def open(self, within: float | None = None) -> None:
        """Open them, within so many seconds. Raises what the user's function raises, and `TimeoutError`.

        A caller that is cancelled leaves nothing open.
        """
        is_open = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        task = self._task = asyncio.create_task(self._held(is_open))
        try:
            ended, _ = await asyncio.wait({task, is_open}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not ended:
            self._task = None
            task.cancel()
            cancelled = await wait_through(task, timeout=PATIENCE)
            if not task.done():
                leave_behind(task)
            late = TimeoutError(f"they were not open within {within:g} seconds, which the run had left")
            raise cancelled or late
        if not is_open.done():
            self._task = None
            task.result()

    async def close(self) -> None:
        """Close them, whatever happens to the caller meanwhile. What goes wrong is logged.

        Raises the caller's `CancelledError` in the end.
        """
        task, self._task = self._task, None
        if task is None:
            return
        self._over.set()
        cancelled = await wait_through(task, timeout=PATIENCE)
        if not task.done():
            task.cancel()
            cancelled = await wait_through(task, timeout=PATIENCE) or cancelled
        if not task.done():
            RUNS.warning("%s: its resources did not close in time and are left behind", self._run)
            leave_behind(task)
        elif not task.cancelled() and (error := task.exception()) is not None:
            resources_failed(self._run, "could not be closed", error)
        if cancelled is not None:
            raise cancelled

    async def _held(self, is_open: "asyncio.Future[None]") -> None:
        async with self._opener(self._means.data) as resources:
            self._means.opened(resources)
            is_open.set_result(None)
            try:
                await self._over.wait()
            finally:
                self._means.closed()
