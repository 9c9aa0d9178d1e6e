"""Effects in flight, while commands may come in from other processes.

The log is asked now and then whether it holds something new. A pause lets the effects end. A stop gives them the grace
of the recorded limits, so that a reply which is on its way is not lost, and then cancels them.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from steptrail.domain.errors import StoreError
from steptrail.runtime.agent_journal import AgentJournal

__all__ = ["Cut", "InFlight"]

T = TypeVar("T")

_POLL_SECONDS = 0.2
_log = logging.getLogger("steptrail")


@dataclass(frozen=True, slots=True)
class Cut:
    """A stop, or whoever gave the effect up, cut it off."""

    by: Literal["stop", "cancelled"]


@dataclass(frozen=True, slots=True)
class _Interrupt:
    error: BaseException


Record: TypeAlias = "Callable[[T | Cut | Exception], None]"
"""Records how an effect ended: what it returned, what it raised, or that it was cut off."""


class InFlight:
    """The effects of one session that run just now, each under a key. Each records its end once."""

    def __init__(self, journal: AgentJournal, *, poll: float = _POLL_SECONDS) -> None:
        self._journal, self._poll = journal, poll
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._records: dict[int, Record[Any]] = {}
        self._landed: asyncio.Future[None] | None = None
        self._cut_at: float | None = None
        self._cut: Cut | None = None

    def __contains__(self, key: int) -> bool:
        return key in self._tasks

    def begin(self, key: int, effect: Coroutine[Any, Any, T], record: "Record[T]") -> None:
        """Start an effect. `record` is called when it has ended, from `land` or `give_up`."""
        task = asyncio.get_running_loop().create_task(self._told(effect))
        task.add_done_callback(self._tell)  # also of one that is cancelled before its first line
        self._tasks[key], self._records[key] = task, record

    async def land(self, *, at_most: float | None = None) -> None:
        """Wait until an effect has ended, for `at_most` seconds, and record all that have, in the order of their keys.

        Raises the caller's `CancelledError`, which leaves the effects in flight, and what is no `Exception` of an
        effect's own, such as `KeyboardInterrupt`.
        """
        if not any(task.done() for task in self._tasks.values()):
            await self._wait(at_most)
        self._record(sorted(key for key, task in self._tasks.items() if task.done()))

    async def give_up(self) -> None:
        """Cancel what is in flight, wait for its end and record it. For a caller who is on his way out by an exception.

        Another cancellation does not keep him from that.
        """
        self._cut = self._cut or Cut("cancelled")
        for task in self._tasks.values():
            task.cancel()
        while pending := [task for task in self._tasks.values() if not task.done()]:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(pending)
        self._record(sorted(self._tasks))

    async def _wait(self, at_most: float | None) -> None:
        loop = asyncio.get_running_loop()
        landed = self._landed = loop.create_future()
        # Most effects end before the first look: until then a timer does, which costs less than a task.
        looking: list[asyncio.Task[None]] = []
        timer = loop.call_later(self._poll, lambda: looking.append(loop.create_task(self._look())))
        alarm = None if at_most is None else loop.call_later(max(0.0, at_most), self._tell)
        try:
            await landed
        finally:
            # What is being asked just now is not folded any more: the journal is the caller's again.
            self._landed = None
            for handle in (timer, alarm, *looking):
                if handle is not None:
                    handle.cancel()

    def _record(self, keys: Iterable[int]) -> None:
        interrupt: BaseException | None = None
        for key in keys:
            task, record = self._tasks.pop(key), self._records.pop(key)
            outcome = self._outcome(task)
            if isinstance(outcome, _Interrupt):
                interrupt, outcome = outcome.error, Cut("cancelled")
            record(outcome)
        if not self._tasks:
            self._cut_at = self._cut = None
        if interrupt is not None:
            raise interrupt

    def _outcome(self, task: "asyncio.Task[Any]") -> Any:
        if not task.cancelled():
            return task.exception() or task.result()
        return self._cut or RuntimeError("the effect cancelled itself, and nobody had asked it to")

    async def _told(self, effect: Coroutine[Any, Any, T]) -> "T | _Interrupt":
        try:
            return await effect
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as error:
            # Raised in a task, it would end the loop at once; the caller raises it when all else has been recorded.
            return _Interrupt(error)
        finally:
            # Told from inside, whoever waits goes on a turn of the loop sooner than by the task's own callbacks.
            self._tell()

    def _tell(self, _: object = None) -> None:
        if self._landed is not None and not self._landed.done():
            self._landed.set_result(None)

    async def _look(self) -> None:
        while not await _stop_came_in(self._journal):
            await asyncio.sleep(self._poll)
        execution = self._journal.glance().execution
        loop = asyncio.get_running_loop()
        if self._cut_at is None:
            self._cut_at = loop.time() + (execution.agent.limits.stop_grace if execution else 0.0)
        await asyncio.sleep(self._cut_at - loop.time())
        self._cut = Cut("stop")
        for task in self._tasks.values():
            task.cancel()


async def _stop_came_in(journal: AgentJournal) -> bool:
    try:
        if await journal.has_news():
            await journal.fold_news()
    except StoreError as error:
        # The effect is none the worse for it: what came in is found when its end is stored.
        _log.warning("the log could not be asked while an effect is in flight: %s", error)
    return journal.glance().stop_request is not None
