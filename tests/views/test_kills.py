"""Processes that apply the log, prune or rebuild are killed at each fault point; the next ends with the same bytes."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping

import pytest

from steptrail.infrastructure.views import counting_anew, views as views_module
from steptrail.infrastructure.views.database import Statements
from steptrail.infrastructure.views.generation import Generation
from steptrail.infrastructure.views.projector import VIEW_FAULT_POINTS
from steptrail.projections.kernel.changes import Changes
from steptrail.runtime.kernel.faults import Reach
from steptrail.testing.crash import PointCounter
from steptrail.testing.store_samples import AT
from tests.harness.store_urls import with_short_leases
from tests.harness.worker_pool import WorkerPool
from tests.views.ageing import Ageing
from tests.views.counting import TOTALS, note
from tests.views.kit import digest, viewed

pytestmark = pytest.mark.slow("processes that are killed")

_BATCH = 2


async def _fill(url: str) -> None:
    """Count a stream that is erased then, and note what is to be counted behind that."""
    async with viewed(url, Ageing()) as (store, views):
        await note(store, "agent:gone", 1_000)
        await views.catch_up()
        await store.erase({"agent:gone": 1}, at=AT, by="ana", reason="asked")
        for number in range(60):
            await note(store, f"agent:{number % 4}", number, 1, 0)


async def _apply_and_rebuild(url: str, reach: Reach, before: int = AT + 1) -> None:
    views_module._PRUNED_AT_ONCE = 2  # pyright: ignore[reportPrivateUsage]
    async with viewed(url, Ageing(), most=_BATCH, reach=reach) as (_, views):
        await views.catch_up()
        await views.prune(before)
        await views.rebuild()


def die(url: str, point: str, ordinal: int) -> None:
    """Apply the log and rebuild, in a process that is killed when it passes a point for the nth time."""
    counter = PointCounter()
    counting_anew._AT_ONCE = 0  # pyright: ignore[reportPrivateUsage]

    def reach(reached: str) -> None:
        counter(reached)
        if counter.reached[point] == ordinal:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(_apply_and_rebuild(url, reach))


async def _freed(url: str) -> None:
    """Wait until the leases of a process that was killed are free."""
    async with viewed(url) as (store, _):
        while await store.leased():
            await asyncio.sleep(0.1)


async def _digests(url: str) -> list[Mapping[str, str]]:
    """Return what is there once all is applied, without the sum of what was erased, and after a rebuild."""
    async with viewed(url, Ageing(), most=_BATCH) as (store, views):
        await views.wait(await store.last_position(), timeout=60)
        await views.prune(AT + 1)
        (progress,) = await views.progress()
        if progress.erased.streams:
            generation = await views.present()
            generation.database.write(_without_what_was_erased(generation))
        found = await digest(views, Ageing())
        await views.rebuild()
        return [found, await digest(views, Ageing())]


def _without_what_was_erased(generation: Generation) -> Callable[[Statements], None]:
    changes = Changes()
    changes.add(TOTALS, ("even",), {"notes": -1, "sum": -1_000})
    return lambda statements: generation.apply(statements, Ageing(), changes)


@pytest.mark.parametrize("point", VIEW_FAULT_POINTS)
@pytest.mark.acceptance("8.1-2")
def test_after_a_kill_the_next_process_ends_with_the_same_bytes(
    store_url: str, pool: WorkerPool, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting_anew, "_AT_ONCE", 0)
    url, counter = with_short_leases(store_url), PointCounter()
    asyncio.run(_fill(url))
    times = 1 if "switch" in point else 4
    for ordinal in {1, times // 2 or 1, times}:
        killed = pool.start(die, url, point, ordinal)
        assert killed.end().code in (0, -signal.SIGKILL)
        asyncio.run(_freed(url))
    after, rebuilt = asyncio.run(_digests(url))
    assert after == rebuilt
    asyncio.run(_apply_and_rebuild(url, counter, AT + 10))
    assert counter.reached[point] >= times
