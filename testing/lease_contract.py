"""The contract of the leases of an event store, as one process sees them. Part of `EventStoreContract`."""

import asyncio
from contextlib import suppress

import pytest

from steptrail.domain.errors import SessionBusy
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.store_samples import on_a_store


class LeaseContract:
    """The right to drive a stream, which one has at a time."""

    @on_a_store
    async def test_a_lease_is_held_until_it_is_released(self, store: EventStore) -> None:
        lease = await store.acquire("agent:s1", owner="worker-7")
        with pytest.raises(SessionBusy, match="worker-7") as caught:
            await store.acquire("agent:s1", owner="worker-8")
        assert (caught.value.session, lease.is_held) == ("s1", True)
        other = await store.acquire("agent:s2", owner="worker-8")
        await lease.release()
        await lease.release()
        await (await store.acquire("agent:s1", owner="worker-8")).release()
        await other.release()

    @on_a_store
    async def test_whether_a_lease_is_held_can_be_asked_without_taking_it(self, store: EventStore) -> None:
        assert await store.is_leased("agent:s1") is False
        lease = await store.acquire("agent:s1", owner="worker-7")
        assert await store.is_leased("agent:s1") is True
        assert await store.is_leased("agent:s2") is False
        await lease.release()
        assert await store.is_leased("agent:s1") is False
        await (await store.acquire("agent:s1", owner="worker-8")).release()

    @on_a_store
    async def test_a_lease_can_be_taken_over_from_a_live_owner(self, store: EventStore) -> None:
        old = await store.acquire("agent:s1", owner="worker-7")
        new = await store.acquire("agent:s1", owner="worker-8", take_over=True)
        await old.release()
        with pytest.raises(SessionBusy, match="worker-8"):
            await store.acquire("agent:s1", owner="worker-9")
        await new.release()
        await (await store.acquire("agent:s1", owner="worker-9", take_over=True)).release()
        await (await store.acquire("agent:s1", owner="worker-9")).release()

    @on_a_store
    async def test_of_those_who_ask_for_a_lease_at_once_one_gets_it_whoever_they_say_they_are(
        self, store: EventStore
    ) -> None:
        asked = [store.acquire("agent:s1", owner="worker-7") for _ in range(8)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        (held,) = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        assert sum(isinstance(outcome, SessionBusy) for outcome in outcomes) == 7
        await held.release()
        assert await store.leased() == frozenset()

    @on_a_store
    async def test_nobody_holds_a_lease_that_was_asked_for_by_a_task_that_is_cancelled(self, store: EventStore) -> None:
        for looks in range(4):
            task = asyncio.create_task(store.acquire("agent:s1", owner="worker-7"))
            for _ in range(looks):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await (await task).release()
            assert await store.is_leased("agent:s1") is False
            await (await store.acquire("agent:s1", owner="worker-8")).release()
