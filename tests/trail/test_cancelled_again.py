"""anyio, on which Starlette and MCP servers stand, cancels a task again at each turn until it has left its scope.

So nothing that ends in there can wait for anything, unless it lets nobody cancel that.
"""

import asyncio
import threading
from collections.abc import Sequence, Set

import anyio
import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.projections.kernel.changes import Changes
from steptrail.testing import ScriptedModel
from steptrail.testing.store_samples import Noted, commit_of
from tests.views.counting import Counting, Seen
from tests.views.kit import viewed

PATIENCE = 60.0


def ours() -> Set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("steptrail-")}


def have_ended(threads: Set[threading.Thread]) -> bool:
    for each in threads:
        each.join(PATIENCE)
    return not any(each.is_alive() for each in threads)


async def test_a_trail_that_was_opened_in_a_scope_is_closed_where_that_is_cancelled(store_url: str) -> None:
    """A server that opens one for each request had its threads, files and connections for ever."""
    agent = AgentBuilder("a").with_model(ScriptedModel(["Done."])).build()
    before = ours()
    with anyio.CancelScope() as scope:
        async with Steptrail.open(store_url) as trail:
            await trail.run(agent, "Go.", session="s")
            await trail.views.status()
            scope.cancel()
    assert have_ended(ours() - before)


class Held(Counting):
    """A projection that is in the middle of an event until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_go = threading.Event(), threading.Event()

    def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
        self.has_begun.set()
        assert self.may_go.wait(PATIENCE)
        return super().apply(fold, entry, changes)


async def test_read_models_that_were_kept_going_in_a_scope_are_at_rest_when_it_is_left(store_url: str) -> None:
    """Their task went on beside what came next, and wrote while they were closed."""
    held = Held()
    async with viewed(store_url, held) as (store, views):
        await store.append("agent:s", EMPTY_STREAM, commit_of("c", Noted()))
        with anyio.CancelScope() as scope:
            async with views.kept_going():
                assert await asyncio.to_thread(held.has_begun.wait, PATIENCE)
                asyncio.get_running_loop().call_later(0.2, held.may_go.set)
                scope.cancel()
        is_at_work = [task for task in asyncio.all_tasks() if task.get_name() == f"steptrail-{held.name}"]
        held.may_go.set()
        assert not is_at_work


async def in_fleet(trail: Steptrail) -> Sequence[str]:
    status = await trail.fleet()
    assert status is not None
    return [each.worker for each in status.workers]


@pytest.mark.slow("asks a server")
async def test_a_worker_that_is_woken_says_farewell_where_its_scope_is_cancelled(postgres_store_url: str) -> None:
    """It stood in the fleet as one that works, and took wakes for a while after its block."""
    agent = AgentBuilder("a").with_model(ScriptedModel([])).build()
    async with Steptrail.open(postgres_store_url, engine="procrastinate") as trail:
        with anyio.CancelScope() as scope:
            async with trail.work(agent):
                while not await in_fleet(trail):
                    await asyncio.sleep(0.01)
                scope.cancel()
        assert not await in_fleet(trail)
