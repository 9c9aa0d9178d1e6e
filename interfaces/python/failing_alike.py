"""Finds how often the failure of a run has come lately, in the read models."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from steptrail.domain.errors import ConfigurationError, ProjectionStopped, StoreError
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.infrastructure.views.views import Views
from steptrail.interfaces.python.asking_runs import AskingRuns
from steptrail.interfaces.python.views_of_runs import views_of_runs
from steptrail.projections.asking.filters import RunFilter
from steptrail.projections.run_explanation import RunExplanation
from steptrail.projections.same_failure import LATELY, SameFailure
from steptrail.runtime.kernel.ports import EventStore

_PATIENCE_SECONDS: Final = 0.5
"""So long the read models are brought up to date for this. What is not counted then is not told."""


X = TypeVar("X", bound=RunExplanation)


async def same_failure(asked: AskingRuns, stream: str, ordinal: int) -> SameFailure | None:
    """Return how often the failure of an execution has come lately; None while it is not counted, or has none."""
    own = RunFilter(stream=stream, status=ExecutionStatus.FAILED.value)
    page = await asked.runs(own, limit=1_000, fresh=None)
    run = next((each for each in page.rows if each.ordinal == ordinal), None)
    if run is None or run.signature is None:
        return None
    alike = await asked.runs(RunFilter(signature=run.signature, since=LATELY), limit=1, fresh=None)
    found = await alike.count()
    return SameFailure(signature=run.signature, runs=found.runs, is_more=found.is_more)


async def with_same_failure(explanation: X, store: EventStore, stream: str, now: int) -> X:
    """Return the explanation of a failed run with how often its failure has come lately.

    That is None without read models, and while the run is not counted in them.
    """
    with suppress(ConfigurationError, ProjectionStopped, StoreError):
        views = views_of_runs(store)
        try:
            if await asyncio.to_thread(views.series.current) is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PATIENCE_SECONDS):
                        await views.catch_up()
                asked = AskingRuns(partial(_as_it_is, views), store, lambda: now)
                found = await same_failure(asked, stream, explanation.state.fold.executions)
                return replace(explanation, same_failure=found)
        finally:
            await views.close()
    return explanation


async def _as_it_is(views: Views, fresh: object) -> Views:
    return views
