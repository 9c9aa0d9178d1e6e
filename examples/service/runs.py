"""The runs of this process: begun and taken up, each in a task of its own, and paused when the process ends.

What is known of a run stands in the store. Here is only who works on it now.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio

from steptrail import Agent, RunResult, Steptrail, SteptrailError
from steptrail.errors import SessionBusy
from steptrail.events import OnCommit
from steptrail.live import Following

__all__ = ["Runs"]

WORKER = "service"
PAUSED_BY_SHUTDOWN = {WORKER, "caller"}  # "caller" is what a pause says that comes from a task that was cancelled

Work = Callable[[OnCommit], Awaitable[RunResult]]

_log = logging.getLogger("uvicorn.error")


class Runs:
    """What a service does with one agent and one store.

    `grace` is how many seconds a shutdown waits for what is in flight. `closing` is set when the server is to end.
    """

    def __init__(self, trail: Steptrail, agent: Agent, *, grace: float = 10.0) -> None:
        self.trail, self._agent, self._grace = trail, agent, grace
        self.closing = anyio.Event()
        self._tasks: dict[asyncio.Task[RunResult], str] = {}

    async def start(self, session: str, text: str, key: str | None) -> None:
        """Begin to answer an input; return as soon as that is stored. Doing it again with the same key is safe."""
        with suppress(SessionBusy):  # somebody is at it already
            await self._begin(
                session,
                lambda on_commit: self.trail.run(self._agent, text, session=session, key=key, on_commit=on_commit),
            )

    async def send(self, session: str, text: str, key: str | None) -> None:
        """Say something to a session; return as soon as it is stored."""
        await self._begin(
            session,
            lambda on_commit: self.trail.session(session, on_commit=on_commit).send(self._agent, text, key=key),
        )

    async def resume(self, session: str) -> None:
        """Go on with a session, if nobody does; return as soon as that is stored."""
        with suppress(SessionBusy):
            await self._begin(
                session,
                lambda on_commit: self.trail.session(session, on_commit=on_commit).resume(self._agent),
            )

    async def take_up(self) -> None:
        """Go on with what can go on: what a crash left, and what was answered or has expired in the meantime."""
        try:
            for row in await self.trail.due():
                if row.name == self._agent.name:
                    await self.resume(row.session_id)
        except SteptrailError:
            _log.exception("what can go on is left for the next time")

    async def take_up_what_a_shutdown_paused(self) -> None:
        """Go on with what the last process paused when it ended. What a person paused stays so."""
        for row in await self.trail.runs(status="paused", agent=self._agent.name, limit=10_000):
            if row.paused_by in PAUSED_BY_SHUTDOWN:
                await self.resume(row.session_id)

    async def close(self) -> None:
        """Pause every run: what is in flight may end within the grace, and is cut off then."""
        for session in set(self._tasks.values()):
            with suppress(SteptrailError):  # it has just ended
                await self.trail.session(session).pause(by=WORKER, reason="shutdown")
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    @asynccontextmanager
    async def follow(self, session: str, after: int) -> AsyncGenerator[Following]:
        """Follow a session until it has ended or the process does."""
        async with self.trail.session(session).follow(after=after) as following:
            ending = asyncio.create_task(self._end(following))
            try:
                yield following
            finally:
                ending.cancel()

    async def _end(self, following: Following) -> None:
        await self.closing.wait()
        await following.aclose()

    async def _begin(self, session: str, work: Work) -> None:
        stored = asyncio.Event()

        async def worked() -> RunResult:
            return await work(lambda _: stored.set())

        task, waiting = asyncio.create_task(worked()), asyncio.create_task(stored.wait())
        self._tasks[task] = session
        task.add_done_callback(self._tasks.pop)
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            task.result()
        else:
            task.add_done_callback(_log_failure)


def _log_failure(task: "asyncio.Task[RunResult]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a run failed: %s", error, exc_info=error)
