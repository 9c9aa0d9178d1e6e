"""Leases that end by the database's clock: renewed while their owner lives, free when it has not for a while."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from steptrail.domain.errors import SessionBusy
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.lease_looking import SeenLease
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.postgres_server import PostgresServer

T = TypeVar("T")

LONGEST_SECONDS = 60
LEFT = "SELECT token, expires - clock_timestamp() FROM steptrail.leases"

HOLD = """
import asyncio, sys
from steptrail.infrastructure.store import open_store

async def main():
    store = open_store(sys.argv[1])
    lease = await store.acquire("agent:a", owner="worker-7")
    print("held", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await lease.release()
    await store.close()

asyncio.run(main())
"""


@pytest.fixture
async def database(postgres_database: str, postgres_url: str) -> str:
    await open_store(postgres_url).close()
    return postgres_database


@pytest.fixture
def url(postgres_server: PostgresServer, database: str) -> str:
    """An address whose leases are long: what is held here is not lost on a machine that is busy."""
    return postgres_server.url(database)


@pytest.fixture
def holder(url: str, request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[str]"]:
    """A process that holds a lease, which soon runs out unless a test says for how many seconds it is."""
    address = f"{url}?lease_seconds={getattr(request, 'param', 0.6)}"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


async def use(url: str, work: Callable[[RecorderEventStore], Awaitable[T]]) -> T:
    store = open_store(url)
    try:
        return await work(store)
    finally:
        await store.close()


async def until_free(store: RecorderEventStore) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    while await store.is_leased("agent:a"):
        assert time.monotonic() < deadline, "it never expired"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("holder", [3.0], indirect=True)
async def test_given_an_owner_that_lives_then_its_lease_outlives_its_term(
    url: str, holder: "subprocess.Popen[str]", postgres_server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        # The row has been written anew more often than one term needs.
        renewals = "SELECT xmin::text FROM steptrail.leases"
        seen = {postgres_server.execute(renewals, database=database)[0]}
        while len(seen) < 5:
            assert await store.is_leased("agent:a") is True
            seen.add(postgres_server.execute(renewals, database=database)[0])
        with pytest.raises(SessionBusy, match=f"worker-7 .pid {holder.pid} on"):
            await store.acquire("agent:a", owner="worker-8")

    await use(url, scenario)


async def test_given_an_owner_that_was_killed_then_its_lease_is_left_behind_and_free_after_its_term(
    url: str, holder: "subprocess.Popen[str]"
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        holder.kill()
        await until_free(store)
        leases = await store.leases()
        assert leases is not None
        assert [(lease.stream, lease.is_live) for lease in leases] == [("agent:a", False)]
        assert f"worker-7 (pid {holder.pid} on" in str(leases[0].owner)
        await (await store.acquire("agent:a", owner="worker-8")).release()
        assert await store.leases() == []

    await use(url, scenario)


async def test_given_an_owner_that_was_stopped_past_the_term_when_it_wakes_then_the_lease_is_somebody_elses(
    url: str, holder: "subprocess.Popen[str]", postgres_server: PostgresServer, database: str
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        os.kill(holder.pid, signal.SIGSTOP)
        await until_free(store)
        lease = await store.acquire("agent:a", owner="worker-8")
        (token, _) = postgres_server.execute(LEFT, database=database)[0]
        os.kill(holder.pid, signal.SIGCONT)
        # It gives up what it believes to hold, after it had the time to renew that.
        await asyncio.sleep(0.5)
        holder.communicate("\n")
        assert holder.returncode == 0
        assert [row[0] for row in postgres_server.execute(LEFT, database=database)] == [token]
        with pytest.raises(SessionBusy, match="worker-8"):
            await store.acquire("agent:a", owner="worker-9")
        await lease.release()

    await use(url, scenario)


async def test_given_an_owner_that_was_taken_over_from_then_it_neither_renews_nor_frees_the_lease(
    url: str, holder: "subprocess.Popen[str]"
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        lease = await store.acquire("agent:a", owner="worker-8", take_over=True)
        holder.communicate("\n")
        leases = await store.leases()
        assert leases is not None
        assert [(each.is_live, "worker-8" in str(each.owner)) for each in leases] == [(True, True)]
        await lease.release()

    await use(url, scenario)


async def test_given_an_expired_lease_that_nobody_took_when_its_owner_wakes_then_it_is_renewed(
    url: str, holder: "subprocess.Popen[str]"
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        os.kill(holder.pid, signal.SIGSTOP)
        await until_free(store)
        os.kill(holder.pid, signal.SIGCONT)
        deadline = time.monotonic() + LONGEST_SECONDS
        while not await store.is_leased("agent:a"):
            assert time.monotonic() < deadline, "it was not renewed"
            await asyncio.sleep(0.02)
        holder.communicate("\n")
        assert await store.leases() == []

    await use(url, scenario)


async def test_given_an_erased_session_whose_lease_was_left_behind_when_bytes_are_removed_then_it_goes(
    url: str, holder: "subprocess.Popen[str]"
) -> None:
    async def scenario(store: RecorderEventStore) -> None:
        await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
        holder.kill()
        await until_free(store)
        await store.scrub()
        assert [each.stream for each in await store.leases() or ()] == ["agent:a"]
        await store.erase({"agent:a": 1}, at=1, by="ana", reason="asked")
        await store.scrub()
        assert await store.leases() == []

    await use(url, scenario)


async def test_given_leases_when_their_store_is_closed_then_they_are_free_at_once(url: str) -> None:
    async def scenario(store: RecorderEventStore) -> list[SeenLease] | None:
        other = open_store(url)
        for name in ("agent:a", "agent:b"):
            await other.acquire(name, owner="worker-7")
        assert await store.is_leased("agent:b") is True
        await other.close()
        seen = await store.leases()
        return None if seen is None else list(seen)

    assert await use(url, scenario) == []
