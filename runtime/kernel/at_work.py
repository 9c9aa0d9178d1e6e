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

_is_inside: ContextVar[bool] = ContextVar("steptrail_is_inside_a_run", default=False)
"""Whether a task or a thread was begun by a run. What it runs itself ends with that."""


class _Owner:
    def __init__(self) -> None:
        self.has_let_go, self.is_cut = Future[None](), False


class AtWork:
    """The owners of streams. They may be in several loops."""

    def __init__(self) -> None:
        self._owners: dict[asyncio.Task[Any], _Owner] = {}
        self._process = os.getpid()

    @contextmanager
    def here(self) -> Generator[None]:
        """Be the owner of a stream in this block. Raises `StoreUnavailable` where it was cut off."""
        task = asyncio.current_task()
        if task is None or task in self._owners or _is_inside.get():
            yield
            return
        owner, cancelled_before = self._owners.setdefault(task, _Owner()), task.cancelling()
        _is_inside.set(True)
        try:
            yield
        except asyncio.CancelledError:
            if owner.is_cut and task.cancelling() <= cancelled_before + 1:
                raise StoreUnavailable("the trail was closed while this ran: open it again") from None
            raise
        finally:
            _is_inside.set(False)
            if owner.is_cut:
                task.uncancel()
            del self._owners[task]
            owner.has_let_go.set_result(None)

    async def cut_off(self) -> None:
        """Cancel all owners, which pauses their runs, and wait until they have let go, a good while at most.

        Who closes the trail from inside of a run waits for nobody.
        """
        if _is_inside.get() or os.getpid() != self._process:
            return
        left = list[asyncio.Future[None]]()
        for task, owner in list(self._owners.items()):
            if task.get_loop().is_running():
                call_in_loop(task.get_loop(), _cut, task, owner)
                left.append(asyncio.wrap_future(owner.has_let_go))
        if left:
            await asyncio.wait(left, timeout=_FAREWELL_SECONDS)


def _cut(task: "asyncio.Task[Any]", owner: _Owner) -> None:
    if not (owner.is_cut or owner.has_let_go.done()):
        owner.is_cut = True
        task.cancel()
