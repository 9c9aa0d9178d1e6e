"""What a server is asked is found by indexes, and no question is one about the whole store."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
import pytest

from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store.core import auxiliary_tables
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.store.postgres import recorder
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import fetch_all
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.postgres_server import PostgresServer
from tests.harness.waiting_rows import WaitingRows

_SMALL = {"types", "positions"}


def plans(url: str, asked: Mapping[str, Any], how: str = "EXPLAIN") -> Mapping[str, list[str]]:
    """Return the plan of each statement, as a connection of ours has it."""
    connections = PostgresConnections(PostgresAddress.parse(url), durability="normal", patience=5.0)

    def explained(statement: str, values: Any) -> list[str]:
        said: Any = f"{how} {statement}"
        return [row[0] for row in connections.read(lambda connection: fetch_all(connection, said, values))]

    try:
        return {statement: explained(statement, values) for statement, values in asked.items()}
    finally:
        connections.close()


def plan_of_any(url: str, statement: str, values: Sequence[Any]) -> str:
    """Return the plan of a statement for any values, as it went with these."""
    marks, said = iter(range(1, len(values) + 1)), ", ".join("NULL" if each is None else f"'{each}'" for each in values)
    prepared: Any = f"PREPARE one AS {re.sub('%s', lambda _: f'${next(marks)}', statement)}"
    connections = PostgresConnections(PostgresAddress.parse(url), durability="normal", patience=5.0)
    try:
        connections.read(lambda connection: connection.execute(prepared))
        explain: Any = f"EXPLAIN ANALYZE EXECUTE one ({said})"
        return str(connections.read(lambda connection: connection.execute(explain).fetchall()))
    finally:
        connections.close()


async def test_an_erasure_looks_at_no_more_of_the_store_where_many_others_are(
    postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    store, asked = open_store(postgres_store_url), dict[str, Any]()
    await store.append("agent:gone", EMPTY_STREAM, commit_of("c", Noted(text="to be forgotten")))
    await asyncio.to_thread(lambda: WaitingRows(postgres_store_url).add(3_000, later=0))
    execute: Callable[..., Any] = psycopg.Connection.execute

    def noted(connection: Any, statement: Any, parameters: Any = None, **given: Any) -> Any:
        if re.match("SELECT|DELETE|UPDATE", str(statement)):
            asked[statement] = parameters
        return execute(connection, statement, parameters, **given)

    # when
    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", noted)
        await store.erase({"agent:gone": 1}, at=1, by="ana", reason="asked to")
    await store.close()
    # then
    found = await asyncio.to_thread(plans, postgres_store_url, asked)
    read = {
        (table, statement) for statement, plan in found.items() for table in re.findall(r"Seq Scan on (\w+)", str(plan))
    }
    assert len(found) > 5
    assert [each for each in sorted(read) if each[0] not in _SMALL] == []


async def test_events_of_no_commit_and_blobs_that_are_missing_are_looked_for_in_pieces_of_the_log(
    postgres_store_url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    store, asked = open_store(postgres_store_url), list[tuple[Any, Any]]()
    heads = dict.fromkeys(("agent:a", "agent:b", "agent:c"), EMPTY_STREAM)
    for number in range(12):
        for stream, head in heads.items():
            heads[stream] = await store.append(stream, head, commit_of(f"{stream}-{number}", Noted(), Noted()))
    database = postgres_store_url.rpartition("/")[2]
    remove = "DELETE FROM steptrail.commits WHERE commit_id IN ('agent:a-0', 'agent:a-9', 'agent:c-11')"
    postgres_server.execute(remove, "UPDATE steptrail.streams SET id = 'x' WHERE id = 'agent:c'", database=database)
    monkeypatch.setattr(auxiliary_tables, "_PIECE", 10)

    def noted(connection: Any, statement: Any, parameters: Any = ()) -> Any:
        asked.append((statement, parameters))
        return fetch_all(connection, statement, parameters)

    # when
    monkeypatch.setattr(recorder, "fetch_all", noted)
    strays = await store.strays()
    assert await store.blob_faults() == []
    await store.close()
    # then
    assert sorted(strays) == [("agent:a", 1), ("x", 23)]
    plans_of = [plans(postgres_store_url, {statement: values}, how="EXPLAIN ANALYZE") for statement, values in asked]
    read = [int(rows) for plan in plans_of for rows in re.findall(r" on events .*?actual[^)]*? rows=(\d+)", str(plan))]
    assert len(read) > 7
    assert max(read) <= 10


async def test_a_page_of_a_stream_is_read_without_a_look_at_what_others_store_behind_it(
    postgres_store_url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    store, asked = open_store(postgres_store_url), list[tuple[Any, Any]]()
    heads = dict.fromkeys(("agent:a", "agent:b"), EMPTY_STREAM)
    for number in range(60):
        for stream, head in heads.items():
            heads[stream] = await store.append(stream, head, commit_of(f"{stream}-{number}", *[Noted()] * 25))
    seen = await store.last_position()
    await store.append("agent:a", heads["agent:a"], commit_of("new", Noted(text="new")))
    database = postgres_store_url.rpartition("/")[2]
    # A server takes one plan for all parameters once a connection has asked for a few pages.
    forced = f"ALTER DATABASE {database} SET plan_cache_mode = force_generic_plan"
    postgres_server.execute(forced, "ANALYZE", database=database)

    def noted(connection: Any, statement: Any, parameters: Any = ()) -> Any:
        asked.append((statement, parameters))
        return fetch_all(connection, statement, parameters)

    # when
    monkeypatch.setattr(recorder, "fetch_all", noted)
    assert len([1 async for _ in store.log(stream="agent:a", limit=20)]) == 20
    assert [each.record.event async for each in store.log(after=seen, stream="agent:a")] == [Noted(text="new")]
    await store.close()
    # then
    found = [await asyncio.to_thread(plan_of_any, postgres_store_url, *each) for each in asked]
    read = [int(rows) for plan in found for rows in re.findall(r" on events .*?actual[^)]*? rows=(\d+)", plan)]
    passed = [int(rows) for plan in found for rows in re.findall(r"Removed by Filter: (\d+)", plan)]
    assert len(found) == 2
    assert max(read) <= 20
    assert sum(passed) < 10
