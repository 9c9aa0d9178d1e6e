"""Processes on one store: which of them moves, what each of them stored, and how one dies.

Only one moves at a time, up to its next looks at who owns a stream and its next commits. So a life goes the same way
each time when two processes believe that a run is theirs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from steptrail.domain.errors import OwnershipLost, SessionBusy
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Commit
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import Reach
from tests.runner.kit import Crash


class Stored(NamedTuple):
    """A commit of a process. It belongs to a segment of its stream; one of segment 0 belongs to none."""

    stream: str
    segment: int
    events: Sequence[Event]


class Happens(Protocol):
    """Lets happen what comes before a commit. It returns what the process dies of there, if it does."""

    def __call__(self) -> Awaitable[str | None]: ...


class _Process:
    """A store as one process sees it, which may die at a commit; and its fault points."""

    def __init__(self, processes: "Processes") -> None:
        self._all, self.is_dead, self._leases = processes, False, list[Any]()

    def __getattr__(self, name: str) -> Any:
        self.reach(name)
        return getattr(self._all.store, name)

    def reach(self, name: str) -> None:
        if self.is_dead:
            raise Crash(name)

    async def acquire(self, *args: Any, **more: Any) -> Any:
        await self._all.turn_of(self)
        self.reach("acquire")
        lease = await self._all.store.acquire(*args, **more)
        self._leases.append(lease)
        return lease

    async def append(self, stream: str, head: Any, commit: Commit) -> Any:
        await self._all.turn_of(self)
        self.reach("append")
        dies_of = await self._all.happens()
        await self._all.turn_of(self)
        if dies_of == "crash after":
            with suppress(Exception):
                await self._append(stream, head, commit)
        if dies_of is not None:
            self.is_dead = True
            raise Crash(dies_of)
        return await self._append(stream, head, commit)

    async def _append(self, stream: str, head: Any, commit: Commit) -> Any:
        end = await self._all.store.append(stream, head, commit)
        self._all.stored.append(Stored(stream, commit.head.segment, [event for _, event in commit.events]))
        return end

    async def end(self) -> None:
        self.is_dead = True
        for lease in self._leases:
            await lease.release()


_MOVING: ContextVar[_Process] = ContextVar("the process whose code this is")

Work = Callable[[Environment], Awaitable[Any]]


class Processes:
    """All processes of a life. `happens` lets something happen before a commit."""

    def __init__(self, store: Any, environment: Callable[[Any, Reach], Environment], happens: Happens) -> None:
        self.store, self.happens, self._environment = store, happens, environment
        self.stored = list[Stored]()
        self.were_beside = False
        self._line, self._beside = list[_Process](), list[asyncio.Task[None]]()
        self._each = self._left = 0
        self._changed = asyncio.Condition()

    async def do(self, work: Work) -> None:
        """Have a new process do something, which may die of it; return when those beside it have ended as well."""
        try:
            await self._do(_Process(self), work)
        finally:
            while self._beside:
                await self._beside.pop()

    async def begin_beside(self, work: Work, each: int) -> None:
        """Have another process begin with something. From now on each moves `each` times before the next one does."""
        self.were_beside, self._each, self._left = True, each, each
        process = _Process(self)
        self._line.insert(0, process)
        self._beside.append(asyncio.create_task(self._do(process, work)))

    async def _do(self, process: _Process, work: Work) -> None:
        if process not in self._line:
            self._line.append(process)
        _MOVING.set(process)
        try:
            await work(self._environment(process, process.reach))
        except BaseException as error:
            is_refused = self.were_beside and isinstance(error, OwnershipLost | SessionBusy)
            if not process.is_dead and not is_refused:
                raise
        finally:
            await process.end()
            async with self._changed:
                self._line.remove(process)
                self._left = self._each
                self._changed.notify_all()

    async def turn_of(self, process: _Process | None = None) -> None:
        """Wait until it is the turn of a process, which is the one whose code asks unless another one is named."""
        process = process or _MOVING.get()
        if len(self._line) == 1:
            return
        async with self._changed:
            if self._line[0] is process:
                self._left -= 1
                if self._left < 0:
                    self._line.append(self._line.pop(0))
                    self._left = self._each
                    self._changed.notify_all()
            await self._changed.wait_for(lambda: self._line[0] is process or process not in self._line)
