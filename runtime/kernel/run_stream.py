"""An iterator over a run: its events as they are stored, and the live updates between them.

Pieces of text that were not fetched yet are joined. So a slow consumer does not delay the run, and needs no more memory
than the run's own events.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, Self, TypeAlias, TypeVar

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.machine import E
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import LiveUpdate
from steptrail.runtime.kernel.cancellation import is_asked_to_end, wait_through
from steptrail.runtime.kernel.live_updates import OnUpdate, joined_back

R_co = TypeVar("R_co", covariant=True)

Work: TypeAlias = Callable[[Callable[[Sequence[Recorded[E]]], None], OnUpdate], Awaitable[R_co]]


class RunStream(AbstractAsyncContextManager["RunStream[E, R_co]"], Generic[E, R_co]):
    """A run that can be watched while it goes on. `async with` begins it; `result` waits for its end.

    `async for` yields each event that this process stores, as a `Recorded`, and between them live updates: `ReplyDelta`
    and `ToolProgress` of an agent, `NodeDelta` and `NodeProgress` of a workflow. Leaving the `async with` early cancels
    the run, and the session is paused. An exception of the run is raised by `result`, and at the end of the iteration.
    """

    def __init__(self, work: Work[E, R_co]) -> None:
        self._work = work
        self._task: asyncio.Task[R_co] | None = None
        self._waiting: deque[Recorded[E] | LiveUpdate] = deque()
        self._news = asyncio.Event()
        self._is_left_early = False

    async def result(self) -> R_co:
        """Wait for the end of the run and return its result.

        Raises `ConfigurationError` when the `async with` was left before the run had ended: then it has none.
        """
        running = self._running()
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if not is_asked_to_end():
                self._refuse_left(running)
            raise

    def __aiter__(self) -> Self:
        """Return self."""
        return self

    async def __anext__(self) -> Recorded[E] | LiveUpdate:
        """Return the next event or live update."""
        running = self._running()
        while not self._waiting:
            if running.done():
                self._refuse_left(running)
                running.result()
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._waiting.popleft()

    async def __aenter__(self) -> Self:
        """Begin the run."""
        if self._task is not None:
            raise ConfigurationError("this stream has been entered before: make another one")
        self._task = asyncio.ensure_future(self._work(self._committed, self._updated))
        self._task.add_done_callback(lambda _: self._news.set())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel the run if it still goes on, and wait until the session is paused."""
        running = self._running()
        if not running.done():
            self._is_left_early = True
            running.cancel()
        cancelled = await wait_through(running)
        if not running.cancelled():
            running.exception()  # read, so that asyncio does not log it: a caller that leaves early does not want it
        if cancelled is not None:
            raise cancelled

    def _running(self) -> "asyncio.Task[R_co]":
        if self._task is None:
            raise ConfigurationError("a run is streamed inside `async with`: it has not begun")
        return self._task

    def _refuse_left(self, running: "asyncio.Task[R_co]") -> None:
        """Raise for a run that was cancelled because its stream was left. Its cancellation is none of who asks."""
        if self._is_left_early and running.cancelled():
            said = "this stream was left before the run had ended, so it has no result"
            raise ConfigurationError(f"{said}: `session.stream(agent)` goes on with the run") from None

    def _committed(self, records: Sequence[Recorded[E]]) -> None:
        self._waiting.extend(records)
        self._news.set()

    def _updated(self, update: LiveUpdate) -> None:
        more = joined_back(self._updates_back(), update)
        if more is not None:
            self._waiting[-more[0]] = more[1]
        else:
            self._waiting.append(update)
        self._news.set()

    def _updates_back(self) -> Iterator[LiveUpdate]:
        """Yield the updates since the newest event, newest first."""
        for each in reversed(self._waiting):
            if isinstance(each, Recorded):
                return
            yield each
