"""The tasks that own streams through one trail. They are cut off before its store is closed.

A run whose store is closed under it cannot be paused any more: it stands there as crashed, and others may take it up
while its calls still go on here.
"""

import asyncio
import os
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from steptrail.domain.errors import StoreUnavailable
from steptrail.runtime.kernel.thread_calls import call_in_loop

_FAREWELL_SECONDS = 12.0
"""How long a run that is cut off is waited for: its resources may take ten seconds to close."""


class _Owner:
    """The owner of a stream. `around` are those of the runs that it was begun in."""

    def __init__(self, at: "AtWork", around: "tuple[_Owner, ...]") -> None:
        self.at, self.around = at, around
        self.has_let_go, self.is_cut = Future[None](), False


_around: ContextVar[tuple[_Owner, ...]] = ContextVar("steptrail_runs_around", default=())
"""The owners of the runs that a task or a thread was begun in. It may outlive them."""


class AtWork:
    """The owners of streams. They may be in several loops."""

    def __init__(self) -> None:
        self._owners: dict[asyncio.Task[Any], _Owner] = {}
        self._process, self._is_closed = os.getpid(), False

    @contextmanager
    def here(self) -> Generator[None]:
        """Be the owner of a stream in this block. Raises `StoreUnavailable` where it was cut off, and after that."""
        task = asyncio.current_task()
        if task is None or task in self._owners:
            yield
            return
        around = tuple(each for each in _around.get() if not each.has_let_go.done())
        if self._is_closed and not self._is_inside(around):
            raise StoreUnavailable("the trail is closed: open it again")
        owner, cancelled_before = self._owners.setdefault(task, _Owner(self, around)), task.cancelling()
        _around.set((*around, owner))
        try:
            yield
        except asyncio.CancelledError:
            if owner.is_cut and task.cancelling() <= cancelled_before + 1:
                raise StoreUnavailable("the trail was closed while this ran: open it again") from None
            raise
        finally:
            _around.set(around)
            if owner.is_cut:
                task.uncancel()
            del self._owners[task]
            owner.around = ()
            owner.has_let_go.set_result(None)

    async def cut_off(self) -> None:
        """Cancel all owners, which pauses their runs, and wait until they have let go, a good while at most.

        Those that a run has begun end with that run; then come those that it left behind. A run from whose inside the
        trail is closed is neither cut off nor waited for.
        """
        if os.getpid() != self._process:
            return
        self._is_closed, asked = True, set(_around.get())
        while left := [each for each in self._on_top() if each[1] not in asked]:
            for task, owner in left:
                call_in_loop(task.get_loop(), _cut, task, owner)
                asked.add(owner)
            has_let_go = [asyncio.wrap_future(owner.has_let_go) for _, owner in left]
            await asyncio.wait(has_let_go, timeout=_FAREWELL_SECONDS)

    def _on_top(self) -> "list[tuple[asyncio.Task[Any], _Owner]]":
        owners = list(self._owners.items())
        return [each for each in owners if each[0].get_loop().is_running() and not self._is_inside(each[1].around)]

    def _is_inside(self, around: tuple[_Owner, ...]) -> bool:
        """Tell whether one of the runs around is one of this trail that goes on."""
        return any(each.at is self and not each.has_let_go.done() for each in around)


def _cut(task: "asyncio.Task[Any]", owner: _Owner) -> None:
    if not (owner.is_cut or owner.has_let_go.done()):
        owner.is_cut = True
        task.cancel()
