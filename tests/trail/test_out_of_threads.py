"""A process that cannot start one more thread is told so in one typed error, and goes on when it can."""

import asyncio
import gc
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.errors import SessionBusy, StoreUnavailable
from steptrail.infrastructure.store import open_store
from steptrail.testing import ScriptedModel
from tests.conftest import store_of
from tests.harness.scarce import thread_refused
from tests.integration.trail.test_subscriptions import PATIENCE

WHY = "has as many threads as it may"


async def use(trail: Steptrail, session: str) -> None:
    """Run something, wait for what it stores, and look how it ended."""
    clerk = AgentBuilder("clerk").with_model(ScriptedModel(["Found."])).build()
    async with trail.subscribe("now") as entries:
        coming = asyncio.ensure_future(anext(entries))
        try:
            # What is stored before it waits needs no thread that watches.
            while not coming.done() and "steptrail-watch" not in [each.name for each in threading.enumerate()]:
                await asyncio.sleep(0.001)
            await trail.run(clerk, "hi", session=session)
            assert (await coming).id == session
        finally:
            coming.cancel()
            with suppress(asyncio.CancelledError, StoreUnavailable):
                await coming
    assert (await trail.session(session).state()).output == "Found."


@pytest.fixture(params=["sqlite", "postgres"])
def new_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that is not there yet: to make it takes a thread that writes."""
    return store_of(request, tmp_path, on_server="postgres_url")


async def test_whichever_thread_of_a_trail_cannot_begin_the_same_works_when_it_can(new_store_url: str) -> None:
    left_out: list[str] = []
    for number in range(20):
        async with asyncio.timeout(PATIENCE), Steptrail.open(new_store_url, live=True) as trail:
            with thread_refused(number) as refused:
                try:
                    await use(trail, f"s{number}")
                except StoreUnavailable as error:
                    assert WHY in str(error)  # noqa: PT017 - it may also do without
            await use(trail, f"again-{number}")
        left_out += refused
        if not refused:
            break
    assert {"steptrail-reader", "steptrail-writer", "steptrail-watch"} <= set(left_out)


@pytest.mark.filterwarnings("error")
def test_a_blocking_trail_without_a_thread_for_its_loop_is_told_so_and_leaves_nothing_open() -> None:
    with thread_refused(0) as refused, pytest.raises(StoreUnavailable, match=WHY):
        Steptrail.open_sync("sqlite:///:memory:")
    assert refused == ["steptrail-loop"]
    gc.collect()
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        assert trail.runs() == []


@pytest.mark.slow("asks a server")
async def test_no_lease_is_taken_that_nobody_would_renew(postgres_url: str) -> None:
    store, other = open_store(postgres_url), open_store(postgres_url)
    await store.version("agent:a")
    with thread_refused(1) as refused, pytest.raises(StoreUnavailable, match=WHY):
        await store.acquire("agent:a", owner="me")
    assert refused == ["steptrail-leases"]
    await (await other.acquire("agent:a", owner="another")).release()
    lease = await store.acquire("agent:a", owner="me")
    with pytest.raises(SessionBusy):
        await other.acquire("agent:a", owner="another")
    await lease.release()
    await store.close()
    await other.close()
