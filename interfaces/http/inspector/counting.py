"""The read models as pages ask them: brought up to date as far as that is quick, and what to say where it is not."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Final, Generic, NamedTuple, TypeVar

from steptrail.domain.errors import ConfigurationError, ProjectionStopped, StoreError
from steptrail.infrastructure.views.views import Views
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.python.asking_runs import AskingRuns
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.runs_view.view import RunsView
from steptrail.runtime.kernel.lists import growing_position

T = TypeVar("T")
PATIENCE_SECONDS: Final = 0.5
"""So long a page waits for what is not counted yet. Then it says how far the count has come."""
SHORTLY_SECONDS: Final = 0.05
"""So long a page waits that can do without."""

_log = logging.getLogger("steptrail.inspector")


class CountedAnswer(NamedTuple, Generic[T]):
    """An answer of the read models, and how much of the log is in it.

    `percent` is None when all is. Without an answer `trouble` says why there is none. `erased` is the number of erased
    sessions that are still in sums, for a caller that may see all.
    """

    answer: T | None
    percent: int | None = None
    trouble: str | None = None
    erased: int = 0


class Counting:
    """Asks the read models of a store. Whatever is not counted yet is counted meanwhile, by one task for all pages."""

    def __init__(self, trail: Steptrail) -> None:
        self._trail = trail
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def pages_first(self) -> Generator[None]:
        """Count nothing inside of this block: both would take twice as long, and somebody waits for a page."""
        views = self._views()
        with nullcontext() if views is None else views.turns.put_off():
            yield

    async def ask(
        self,
        access: Access,
        question: Callable[[AskingRuns], Awaitable[T]],
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> CountedAnswer[T]:
        """Return the answer to a question, of the runs that a caller may see. A wrong question raises.

        What is not counted yet is waited for, `patience` seconds at most. Raises `StoreError` when the store itself
        does not answer, of which the read models know nothing.
        """
        views = self._trail.views
        try:
            await self._caught_up(patience)
            answer = await question(views if access.tenant is None else views.of(access.tenant))
            as_of = await views.all.as_of(for_us=True)
            lag = await views.all.lag(as_of)
            ours = [each for each in await views.status() if each.name == RunsView.name]
        except (StoreError, ProjectionStopped) as error:
            await growing_position(self._trail.store)
            return CountedAnswer(None, trouble=str(error))
        is_stopped = any(each.error is not None and each.lag for each in ours)
        trouble = "counting has stopped at an event that it fails at" if is_stopped else None
        percent = as_of.position * 100 // max(1, as_of.position + lag)
        erased = sum(each.erased for each in ours) if access.tenant is None else 0
        return CountedAnswer(answer, percent if lag or is_stopped else None, trouble, erased)

    async def _caught_up(self, patience: float) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._counted(), name="steptrail-inspector-counting")
        views = self._views()
        with nullcontext() if views is None else views.turns.needed():
            await asyncio.wait([self._task], timeout=patience)

    def _views(self) -> Views | None:
        try:
            return self._trail.views.all
        except ConfigurationError:  # a store that has none
            return None

    async def _counted(self) -> None:
        try:
            await self._trail.views.all.catch_up(for_us=True)
        except (ConfigurationError, StoreError, ProjectionStopped) as error:
            _log.warning("the read models could not be brought up to date: %s", error)
