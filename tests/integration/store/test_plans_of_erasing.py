"""What an erasure asks a server is found by indexes, however many sessions are in the store."""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
import pytest

from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.store.postgres.address import PostgresAddress
from steptrail.infrastructure.store.postgres.connections import PostgresConnections
from steptrail.infrastructure.store.postgres.driver import fetch_all
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.waiting_rows import WaitingRows

_SMALL = {"types", "positions"}


def plans(url: str, asked: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """Return the plan of each statement, as a connection of ours has it."""
    connections = PostgresConnections(PostgresAddress.parse(url), durability="normal", patience=5.0)

    def explained(statement: str, values: Any) -> list[str]:
        said: Any = f"EXPLAIN {statement}"
        return [row[0] for row in connections.read(lambda connection: fetch_all(connection, said, values))]

    try:
        return {statement: explained(statement, values) for statement, values in asked.items()}
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
