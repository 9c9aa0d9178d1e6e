"""The runs of this process: begun and taken up, each in a task of its own, watched, and paused when the process ends.

What is known of a run stands in the store. Here is only who works on it now, and who watches.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import anyio

from steptrail import Agent, RunResult, Steptrail, SteptrailError
from steptrail.errors import SessionBusy
from steptrail.events import AgentEvent, ExecutionFinished, OnCommit, Recorded, Subscription
from steptrail.live import LiveUpdate, OnUpdate

__all__ = ["Runs"]

WORKER = "service"
PAUSED_BY_SHUTDOWN = {WORKER, "caller"}  # "caller" is what a pause says that comes from a task that was cancelled

Work = Callable[[OnCommit, OnUpdate], Awaitable[RunResult]]
News = asyncio.Queue[int | LiveUpdate | None]
"""A version up to which events are stored, what can be seen between two of them, or that the process ends."""

_log = logging.getLogger("uvicorn.error")


class Runs:
    """What a service does with one agent and one store.

    `grace` is how many seconds a shutdown waits for what is in flight. `closing` is set when the server is to end.
    """

    def __init__(self, trail: Steptrail, agent: Agent, *, grace: float = 10.0) -> None:
        self.trail, self._agent, self._grace = trail, agent, grace
        self.closing = anyio.Event()
        self._tasks: dict[asyncio.Task[RunResult], str] = {}
        self._watchers: defaultdict[str, set[News]] = defaultdict(set)

    async def start(self, session: str, text: str, key: str | None) -> None:
        """Begin to answer an input; return as soon as that is stored. Doing it again with the same key is safe."""
        with suppress(SessionBusy):  # somebody is at it already
            await self._begin(
                session,
                lambda committed, updated: self.trail.run(
                    self._agent, text, session=session, key=key, on_commit=committed, on_update=updated
                ),
            )

    async def send(self, session: str, text: str, key: str | None) -> None:
        """Say something to a session; return as soon as it is stored."""
        await self._begin(
            session,
            lambda committed, updated: self.trail.session(session, on_commit=committed, on_update=updated).send(
                self._agent, text, key=key
            ),
        )

    async def resume(self, session: str) -> None:
        """Go on with a session, if nobody does; return as soon as that is stored."""
        with suppress(SessionBusy):
            await self._begin(
                session,
                lambda committed, updated: self.trail.session(session, on_commit=committed, on_update=updated).resume(
                    self._agent
                ),
            )

    async def take_up(self) -> None:
        """Go on with what can go on: what a crash left, and what was answered or has expired in the meantime."""
        try:
            for row in await self.trail.due():
                if row.name == self._agent.name:
                    await self.resume(row.agent_id)
        except SteptrailError:
            _log.exception("what can go on is left for the next time")

    async def take_up_what_a_shutdown_paused(self) -> None:
        """Go on with what the last process paused when it ended. What a person paused stays so."""
        for row in await self.trail.runs(keep=lambda row: row.paused_by in PAUSED_BY_SHUTDOWN):
            if row.name == self._agent.name:
                await self.resume(row.agent_id)

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

    async def follow(self, session: str, after: int) -> AsyncGenerator[Recorded[AgentEvent] | LiveUpdate]:
        """Yield the events after version `after`, then each as it is stored, until all is said or the process ends.

        Between them comes what can be seen of a run of this process.
        """
        handle = self.trail.session(session)
        async with self._news_of(session) as news:
            state = await handle.state()
            item: int | LiveUpdate | None = state.version if state.is_open or state.version > after else None
            while item is not None:
                if not isinstance(item, int):
                    yield item
                elif item > after:
                    # What comes later has news of its own, behind what was seen before it.
                    records = [each for each in await handle.events(after=after) if each.version <= item]
                    for record in records:
                        yield record
                    after = item
                    if any(isinstance(record.event, ExecutionFinished) for record in records):
                        state = await handle.state()
                        if not state.is_open and state.version <= after:
                            return
                item = await news.get()

    async def _begin(self, session: str, work: Work) -> None:
        stored = asyncio.Event()

        def committed(records: Sequence[Recorded[AgentEvent]]) -> None:
            stored.set()
            tell(records[-1].version)

        def tell(news: int | LiveUpdate) -> None:
            for watcher in self._watchers.get(session, ()):
                watcher.put_nowait(news)

        async def worked() -> RunResult:
            return await work(committed, tell)

        task, waiting = asyncio.create_task(worked()), asyncio.create_task(stored.wait())
        self._tasks[task] = session
        task.add_done_callback(self._tasks.pop)
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            task.result()
        else:
            task.add_done_callback(_log_failure)

    @asynccontextmanager
    async def _news_of(self, session: str) -> AsyncGenerator[News]:
        news: News = asyncio.Queue()
        watchers = self._watchers[session]
        watchers.add(news)
        try:
            async with self.trail.subscribe("now", session=session) as entries:
                telling = [asyncio.create_task(each) for each in (_of_others(entries, news), _of_the_end(self, news))]
                try:
                    yield news
                finally:
                    for task in telling:
                        task.cancel()
        finally:
            watchers.discard(news)
            if not watchers:
                self._watchers.pop(session, None)


async def _of_others(entries: Subscription, news: News) -> None:
    try:
        async for entry in entries:
            news.put_nowait(entry.record.version)
    finally:
        news.put_nowait(None)


async def _of_the_end(runs: Runs, news: News) -> None:
    await runs.closing.wait()
    news.put_nowait(None)


def _log_failure(task: "asyncio.Task[RunResult]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a run failed: %s", error, exc_info=error)
