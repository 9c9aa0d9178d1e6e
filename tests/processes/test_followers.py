"""A follower is killed between an event and its place; the one that waited for its turn goes on."""

import asyncio
import time
from pathlib import Path

from steptrail import AgentBuilder, Steptrail
from steptrail.events import ExecutionFinished
from steptrail.runtime.kernel.follower import Follower
from steptrail.testing import ScriptedModel
from steptrail.testing.crash import Ledger
from tests.harness.store_urls import with_short_leases
from tests.harness.worker_pool import WorkerPool

PATIENCE = 60.0


async def fill(url: str) -> list[int]:
    async with Steptrail.open(url) as trail:
        await trail.run(AgentBuilder("greeter").with_model(ScriptedModel(["hello"])).build(), "hi", session="a")
        return [entry.position async for entry in trail.subscribe(follow=False)]


def deliver(url: str, ledger: Ledger, dies_at: int) -> None:
    """Deliver every event, keep the place after each, and die between the two at the one of that number."""

    async def delivering() -> None:
        async with Steptrail.open(url) as trail, trail.follower("billing", wait=True) as follower:
            await work(follower)

    async def work(follower: Follower) -> None:
        count = 0
        async for entry in follower:
            ledger.write("delivered", f"{entry.position}")
            count += 1
            if count == dies_at:
                await asyncio.Event().wait()
            await follower.keep(entry.position)
            if isinstance(entry.record.event, ExecutionFinished):
                return

    asyncio.run(delivering())


def test_after_a_kill_the_next_process_delivers_the_one_in_doubt_again_and_no_other(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    positions = asyncio.run(fill(store_url))
    ledger, url = Ledger(tmp_path / "ledger"), with_short_leases(store_url)
    first = pool.start(deliver, url, ledger, 3)
    until = time.monotonic() + PATIENCE
    while len(ledger.entries()) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    next_one = pool.start(deliver, url, ledger, 0)
    first.kill()
    first.end()
    next_one.end(PATIENCE).answer()
    delivered = [int(entry.effect) for entry in ledger.entries()]
    assert delivered == [*positions[:3], *positions[2:]]
