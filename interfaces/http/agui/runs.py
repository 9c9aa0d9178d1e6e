"""The runs that front ends began: each a task of its own, which goes on when nobody looks at it any more.

What is known of a run stands in the store. Here is only who works on it now.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.errors import SessionBusy, SteptrailError
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent_journal import OnCommit
from steptrail.runtime.agent.result import RunResult

__all__ = ["WORKER", "Begun", "Runs", "Work"]

WORKER = "agui"
"""The `by` of the pauses at a shutdown."""

Work = Callable[[OnCommit], Awaitable[RunResult[Any]]]
Begun = tuple["asyncio.Task[RunResult[Any]]", Sequence[Recorded[AgentEvent]]]

_log = logging.getLogger("steptrail.runs")


class Runs:
    """The runs of one endpoint."""

    def __init__(self, trail: Steptrail) -> None:
        self._trail = trail
        self._tasks: dict[asyncio.Task[RunResult[Any]], str] = {}
        self.closing = asyncio.Event()

    async def begin(self, session: str, work: Work) -> Begun:
        """Begin to work and return as soon as something of it is stored, with the first of that, or all is done.

        Raises what the work raises before that.
        """
        stored, first = asyncio.Event(), list[Recorded[AgentEvent]]()

        def committed(records: Sequence[Recorded[AgentEvent]]) -> None:
            if not stored.is_set():
                first.extend(records)
                stored.set()

        async def worked() -> RunResult[Any]:
            return await work(committed)

        task, waiting = asyncio.create_task(worked()), asyncio.create_task(stored.wait())
        self._tasks[task] = session
        task.add_done_callback(self._tasks.pop)
        try:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if task.done() and not first:
            task.result()
        task.add_done_callback(partial(_log_failure, session))
        return task, first

    async def close(self, grace: float) -> None:
        """Pause every run: what is in flight may end within `grace` seconds, and is cut off then."""
        self.closing.set()
        for session in set(self._tasks.values()):
            with suppress(SteptrailError):  # it has just ended
                await self._trail.session(session).pause(by=WORKER, reason="shutdown")
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def _log_failure(session: str, task: "asyncio.Task[RunResult[Any]]") -> None:
    """Log what nobody is told of any more."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, SessionBusy):
        _log.error("a run of session %s failed: %s", session, type(error).__name__, exc_info=error)
