"""A worker ends also when the database of its engine is gone, however long the engine would wait for it."""

import asyncio

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.infrastructure.fleet import procrastinate
from steptrail.testing import ScriptedModel
from tests.harness.postgres_server import PostgresServer


async def test_a_worker_whose_engine_is_gone_ends(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procrastinate, "_OPEN_SECONDS", 3600.0)
    database = postgres_server.create_database()
    agent = AgentBuilder("desk").with_model(ScriptedModel(["Done."])).build()
    url = postgres_server.url(database)
    trail = Steptrail.open("sqlite:///:memory:", engine=f"procrastinate+{url}")
    async with asyncio.timeout(60), trail, trail.work(agent):
        session = await trail.start(agent, "hi")
        while (await session.state()).status != "completed":
            await asyncio.sleep(0.01)
        await asyncio.to_thread(postgres_server.drop_database, database)
