"""What operators see of a fleet: on the command line, on the page of the inspector, and as metrics."""

import asyncio
import re
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from steptrail import Agent, AgentBuilder, Steptrail, tool
from steptrail.inspector import Access, inspector
from steptrail.runtime.kernel import woken
from steptrail.telemetry import Telemetry
from steptrail.testing import ScriptedModel, call
from tests.inspector.test_pages import words
from tests.unit.cli.command import Type
from tests.unit.cli.conftest import typed as typed


class Desk:
    def __init__(self) -> None:
        self.inside, self.gate = asyncio.Event(), asyncio.Event()

        @tool
        async def serve() -> str:
            """Serve somebody."""
            self.inside.set()
            await self.gate.wait()
            return "served"

        model = ScriptedModel([call("serve"), "Done."])
        self.agent = AgentBuilder("desk").with_model(model).with_tools(serve).build()


def stranger() -> Agent:
    return AgentBuilder("stranger").with_model(ScriptedModel(["Hm."])).build()


def read(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], float]]]:
    data: Any = reader.get_metrics_data()
    return {
        each.name: [(dict(point.attributes), point.value) for point in each.data.data_points]
        for each in data.resource_metrics[0].scope_metrics[0].metrics
        if each.name.startswith(("steptrail.fleet.", "steptrail.worker."))
    }


@pytest.mark.acceptance("9.2-6")
async def test_what_waits_and_who_works_is_on_the_health_page_and_in_the_metrics(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(woken, "_SAY_SECONDS", 0.1)
    desk, reader = Desk(), InMemoryMetricReader()
    telemetry = Telemetry(processor=SimpleSpanProcessor(InMemorySpanExporter()), metrics=reader)
    async with asyncio.timeout(60), Steptrail.open(postgres_url, engine="procrastinate", telemetry=telemetry) as trail:
        await trail.start(desk.agent, "go", session="s")
        await trail.start(stranger(), "go", session="t")
        transport = httpx.ASGITransport(inspector(trail, authorize=lambda _: Access()))
        ofacme = httpx.ASGITransport(inspector(trail, authorize=lambda _: Access(tenant="acme")))
        async with trail.work(desk.agent) as worker:
            await desk.inside.wait()
            while not (fleet := await trail.fleet()) or not any(each.running for each in fleet.workers):
                await asyncio.sleep(0.02)
            found = await asyncio.to_thread(read, reader)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                said = words((await client.get("/health")).text)
            async with httpx.AsyncClient(transport=ofacme, base_url="http://127.0.0.1") as client:
                of_acme = words((await client.get("/health")).text)
            desk.gate.set()
        report = worker.report()
    assert re.search(r" stranger 1 [^,]{1,20} 0 no worker has it ", said), said
    assert re.search(rf" {re.escape(report.worker)} [^,]{{1,20}} 1 of 8 s 1 1, 0 for nothing ", said), said
    assert "Fleet" not in of_acme
    waiting = {attributes["steptrail.topic"]: value for attributes, value in found["steptrail.fleet.waiting"]}
    assert waiting == {"agent:desk": 0, "agent:stranger": 1}
    assert all(value >= 0 for _, value in found["steptrail.fleet.oldest"])
    assert found["steptrail.worker.running"] == [({}, 1)]
    wakes = [({"steptrail.had_effect": False}, 0), ({"steptrail.had_effect": True}, 1)]
    assert sorted(found["steptrail.worker.wakes"], key=str) == wakes


def test_the_command_lists_what_waits_and_who_works(postgres_url: str, typed: Type) -> None:
    desk = Desk()
    with Steptrail.open_sync(postgres_url, engine="procrastinate") as trail:
        trail.start(desk.agent, "go", session="s")
    asked = ("fleet", "--store", postgres_url, "--engine", "procrastinate")
    shown, data = typed(*asked), typed(*asked, "--json").json
    assert shown.lines[0].split() == ["AGENT", "WAITING", "OLDEST", "LATER", "SERVED"]
    assert shown.lines[1].split()[:2] == ["desk", "1"]
    assert shown.lines[1].endswith("no worker has it")
    assert data["workers"] == []
    (topic,) = data["topics"]
    assert topic.pop("waitingSince").endswith("+00:00")
    assert topic == {"kind": "agent", "agent": "desk", "waiting": 1, "later": 0, "isServed": False}


def test_the_command_says_what_it_needs(postgres_url: str, typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    none = typed("fleet", "--store", postgres_url)
    assert (none.code, none.err.count("\n")) == (2, 1)
    assert "--engine or $STEPTRAIL_ENGINE" in none.err
    monkeypatch.setenv("STEPTRAIL_ENGINE", "procrastinate")
    assert "needs PostgreSQL, and the store is" in typed("fleet", "--store", "sqlite:///x.db").err
    for limit, why in (("desk=0", "not a whole number from 1"), ("=3", "no name before the =")):
        refused = typed("work", "app.py", "--store", postgres_url, "--per-agent", limit)
        assert (refused.code, why in refused.err) == (2, True)
