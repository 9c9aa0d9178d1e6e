"""Writers that meet at the same rows of a PostgreSQL store in another order: both go on, and neither is told of it."""

import asyncio
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from steptrail.domain.errors import ConcurrencyConflict
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.postgres_server import PostgresServer

LONGEST_SECONDS = 60
"""Whatever takes this long hangs; no assertion is about time."""
HOLD_UP_APPENDS = (
    "CREATE FUNCTION steptrail.hold() RETURNS trigger LANGUAGE plpgsql "
    "AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN new; END $$",
    "CREATE TRIGGER hold BEFORE INSERT ON steptrail.events FOR EACH ROW EXECUTE FUNCTION steptrail.hold()",
)
"""Behind the row of the commit, and before the row of the stream in the index is written."""
TAKE_ITS_PLACE = (
    "INSERT INTO steptrail.commits (stream, version, position, segment, size, commit_id, actor, digest) "
    "SELECT stream, 2, 1000, segment, 1, 'other', actor, digest FROM steptrail.commits ON CONFLICT DO NOTHING"
)
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def database(postgres_url: str) -> str:
    return postgres_url.rpartition("/")[2]


def listed(commit: Commit, version: int) -> Commit:
    """Return a commit that writes the row of its stream in the index, too."""
    return replace(commit, summary=RunSummary(kind="agent", session_id="a", version=version))


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.01)


async def test_given_an_append_in_flight_when_its_stream_is_erased_then_neither_stands_in_the_others_way(
    postgres_server: PostgresServer, postgres_url: str, database: str
) -> None:
    """The server looks for deadlocks too late to help."""
    blind = f"{postgres_url}?options=-c%20deadlock_timeout%3D1h"
    store, eraser = (open_store(blind, busy_timeout=LONGEST_SECONDS) for _ in range(2))
    head = await store.append("agent:a", EMPTY_STREAM, listed(commit_of("c1", Noted()), 1))
    postgres_server.execute(*HOLD_UP_APPENDS, database=database)
    with postgres_server.session(database, "SELECT pg_advisory_xact_lock(1)"):
        append = asyncio.create_task(store.append("agent:a", head, listed(commit_of("c2", Noted()), 2)))
        await until(lambda: postgres_server.execute(WAITING, database=database) == [(1,)])
        erasing = asyncio.create_task(eraser.erase({"agent:a": 1}, at=1, by="ana", reason="asked"))
        await until(lambda: postgres_server.execute(WAITING, database=database) == [(2,)])
    assert (await append).version == 2
    with pytest.raises(ConcurrencyConflict):
        await erasing
    await store.close()
    await eraser.close()


async def test_given_an_append_that_the_server_undoes_for_a_deadlock_then_it_is_stored_once_behind_the_other_one(
    postgres_server: PostgresServer, postgres_url: str, database: str
) -> None:
    store = open_store(postgres_url, busy_timeout=LONGEST_SECONDS)
    head = await store.append("agent:a", EMPTY_STREAM, listed(commit_of("c1", Noted()), 1))
    postgres_server.execute(*HOLD_UP_APPENDS, database=database)
    row = "SELECT 1 FROM steptrail.streams WHERE id = 'agent:a' FOR UPDATE"
    # The append is the one that finds the deadlock.
    with postgres_server.session(database, "SET deadlock_timeout = '1h'", row) as other:
        with postgres_server.session(database, "SELECT pg_advisory_xact_lock(1)"):
            append = asyncio.create_task(store.append("agent:a", head, listed(commit_of("c2", Noted()), 2)))
            await until(lambda: postgres_server.execute(WAITING, database=database) == [(1,)])
            taking = asyncio.create_task(asyncio.to_thread(other.execute, TAKE_ITS_PLACE))
            await until(lambda: postgres_server.execute(WAITING, database=database) == [(2,)])
        await taking
        other.rollback()
        assert (await append).version == 2
    assert [record.version for record in (await store.read("agent:a")).records] == [1, 2]
    assert await store.verify("agent:a") is None
    await store.close()
