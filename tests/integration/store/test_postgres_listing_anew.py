"""The row of a stream in the index is written anew, as `doctor --reindex` does, while another process changes it."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store import open_store
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.postgres_server import PostgresServer

LONGEST_SECONDS = 60
"""Whatever takes this long hangs; no assertion is about time."""
HOLD_UP = (
    "CREATE FUNCTION steptrail.hold() RETURNS trigger LANGUAGE plpgsql "
    "AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN new; END $$",
    "CREATE TRIGGER hold AFTER UPDATE ON steptrail.streams FOR EACH ROW "
    "WHEN (new.version = 2 OR new.status = 'erased') EXECUTE FUNCTION steptrail.hold()",
)
"""Behind the change of the row, and before its transaction ends."""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
ROW = RunSummary(kind="agent", session_id="a", version=1, name="triage")


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("what", ["an append", "an erasure"])
async def test_given_a_change_of_a_row_in_flight_when_an_older_row_is_written_anew_then_the_change_stays(
    postgres_server: PostgresServer, postgres_url: str, what: str
) -> None:
    database = postgres_url.rpartition("/")[2]
    store, mender = (open_store(postgres_url, busy_timeout=LONGEST_SECONDS) for _ in range(2))
    head = await store.append("agent:a", EMPTY_STREAM, replace(commit_of("c1", Noted()), summary=ROW))
    postgres_server.execute(*HOLD_UP, database=database)
    with postgres_server.session(database, "SELECT pg_advisory_xact_lock(1)"):
        if what == "an append":
            newer = replace(commit_of("c2", Noted()), summary=replace(ROW, version=2, name="newer"))
            change: asyncio.Future[Any] = asyncio.ensure_future(store.append("agent:a", head, newer))
        else:
            change = asyncio.ensure_future(store.erase({"agent:a": 1}, at=1, by="ana", reason="asked"))
        await until(lambda: postgres_server.execute(WAITING, database=database) == [(1,)])
        mending = asyncio.create_task(mender.list_anew(ROW))
        await until(lambda: postgres_server.execute(WAITING, database=database) == [(2,)])
    await asyncio.gather(change, mending)
    rows = await store.index(IndexQuery(streams=["agent:a"]))
    assert [(row.version, row.name) for row in rows] == ([(2, "newer")] if what == "an append" else [])
    assert len(await store.index(IndexQuery(erased=True))) == (what == "an erasure")
    await store.close()
    await mender.close()
