"""Live and recorded spans are the same, arrive over OTLP, and are complete after a kill of the export anywhere."""

import asyncio
import os
import signal
import threading
import time
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from steptrail import Agent, Steptrail, ToolEffect, tool
from steptrail.domain.tools import OnUnknown
from steptrail.errors import ConfigurationError, OwnershipLost
from steptrail.infrastructure.telemetry.live import LiveSpans
from steptrail.infrastructure.telemetry.otlp import SpanSender, endpoint_of
from steptrail.infrastructure.telemetry.recorded import export_spans
from steptrail.infrastructure.telemetry.span_folds import SpanFolds
from steptrail.lifecycle import ToolCallCompleted
from steptrail.projections.telemetry.names import SCHEMA_URL
from steptrail.projections.telemetry.span import Span, is_sampled, trace_id
from steptrail.runtime.kernel.follower import Follower
from steptrail.telemetry import Telemetry
from steptrail.testing import call
from steptrail.tools import SubagentTool
from steptrail.workflow import Workflow
from tests.flow.kit import World
from tests.harness.otlp_receiver import OtlpReceiver
from tests.harness.spans import drawn, hold_together, spans_of
from tests.runner.families import asks, boss, look, named
from tests.runner.kit import agent_of
from tests.trail.receivers import receiver as receiver
from tests.unit.cli.command import Type
from tests.unit.cli.conftest import typed as typed


def family(secret: str = "go") -> Agent:  # noqa: S107 - no password
    child = named("reader", call("look"), "42").with_tools(look).build()
    return boss([SubagentTool(child)], asks("reader", secret), "Done.").build()


def flow(world: World) -> Any:
    inner = Workflow("inner").function("x", world.function("x")).build()
    return Workflow("outer").flow("below", inner).build()


async def run_all(trail: Steptrail) -> None:
    """Run an agent with a subagent, and a workflow with a child that fails and is retried."""
    await trail.run(family(), "go", session="s")
    world = World()
    world.fails["x"] = [RuntimeError("no"), None]
    outer = flow(world)
    await trail.run(outer, {}, session="f")
    await trail.flow("f").retry(outer)


async def recorded(trail: Steptrail, **options: Any) -> list[Span]:
    spans: list[Span] = []

    async def send(batch: list[Span]) -> int:
        spans.extend(batch)
        return len(batch)

    async with trail.subscribe(follow=False) as entries:
        assert await export_spans(entries, SpanFolds(trail.store), send, **options) == len(spans)
    return spans


def as_sent(span: Span) -> dict[str, Any]:
    """Return a span as the receiver shows it."""
    listed = {name: list(each) if isinstance(each, tuple) else each for name, each in span.attributes.items()}
    return {
        "service": "steptrail",
        "schema": SCHEMA_URL,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_id": span.parent_id,
        "name": span.name,
        "start": span.start * 1_000,
        "end": span.end * 1_000,
        "is_error": span.is_error,
        "attributes": listed,
        "events": [[each.name, each.at * 1_000, dict(each.attributes)] for each in span.events],
        "links": [list(link) for link in span.links],
    }


def by_id(spans: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {span["span_id"]: span for span in spans}


@pytest.mark.acceptance("8.8-1")
async def test_a_receiver_gets_live_the_spans_that_follow_from_the_log(receiver: OtlpReceiver, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url, telemetry=Telemetry(receiver.url, headers={"x-key": "k"})) as trail:
        await run_all(trail)
    assert all(each["x-key"] == "k" for each in receiver.headers)
    async with Steptrail.open(url, read_only=True) as trail:
        spans = await recorded(trail)
    hold_together(spans)
    assert by_id(receiver.spans) == {span.span_id: as_sent(span) for span in spans}
    assert len(receiver.spans) == len(spans)
    of_first = [span for span in spans if span.trace_id == trace_id("flow:f", "f:1")]
    assert drawn(of_first)[:6] == [
        "invoke_workflow outer !",
        "  node below",
        "    try below !",
        "      invoke_workflow inner !",
        "        node x",
        "          try x !",
    ]


@pytest.mark.acceptance("8.8-2")
def test_the_command_sends_the_same_spans_of_recorded_runs(receiver: OtlpReceiver, typed: Type, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    exporter = InMemorySpanExporter()
    with Steptrail.open_sync(url, telemetry=Telemetry(processor=SimpleSpanProcessor(exporter))) as trail:
        trail.run(family("sk-ant-secret-word"), "sk-ant-secret-word", session="s")
        trail.run(family(), "go", session="t")
    live = {f"{span.context.span_id:016x}" for span in exporter.get_finished_spans() if span.context}
    assert typed("export", "--otlp", receiver.url, "--store", url).code == 0
    assert {span["span_id"] for span in receiver.spans} == live
    assert "secret-word" not in str(receiver.spans)
    receiver.spans.clear()
    done = typed("export", "s", "--otlp", receiver.url, "--store", url, "--json")
    assert done.json == {"spans": len(receiver.spans)}
    names = {span["name"] for span in receiver.spans}
    assert {"invoke_agent boss", "invoke_agent reader"} <= names
    assert {span["trace_id"] for span in receiver.spans} == {receiver.spans[0]["trace_id"]}
    receiver.spans.clear()
    assert typed("export", "s", "--otlp", receiver.url, "--no-steps", "--store", url).code == 0
    assert {span["name"] for span in receiver.spans} == names - {"step 1", "step 2"}
    receiver.spans.clear()
    assert typed("export", "--otlp", receiver.url, "--sample", "0", "--store", url).out == "sent 0 spans\n"
    assert receiver.spans == []


def test_an_export_that_follows_goes_on_where_it_was(receiver: OtlpReceiver, typed: Type, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    def followed(session: str) -> set[str]:
        receiver.spans.clear()
        with Steptrail.open_sync(url) as trail:
            trail.run(family(), "go", session=session)

        def end() -> None:
            while not any(span["parent_id"] is None for span in receiver.spans):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)

        ending = threading.Thread(target=end)
        ending.start()
        assert typed("export", "--otlp", receiver.url, "--follow", "--store", url).code == 0
        ending.join()
        return {span["trace_id"] for span in receiver.spans}

    assert followed("a") == {trace_id("agent:a", "a:1")}
    assert trace_id("agent:b", "b:1") in followed("b")


def test_a_receiver_that_is_away_is_said(typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    with Steptrail.open_sync(url) as trail:
        trail.run(family(), "go")
    done = typed("export", "--otlp", "http://127.0.0.1:9", "--store", url)
    assert done.code == 7
    assert "did not take" in done.err


def test_the_command_says_what_cannot_be_meant(typed: Type) -> None:
    assert "all runs" in typed("export", "s", "--otlp", "--follow").err
    assert "no content" in typed("export", "--otlp", "--redact", "x").err
    assert "ID is missing" in typed("export").err
    assert "add --otlp" in typed("export", "s", "--follow").err
    assert "from 0 to 1" in typed("export", "--otlp", "--sample", "2").err
    assert "not 's'" in typed("export", "--otlp", "s").err


async def test_a_trace_is_told_whole_or_not_at_all() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        for number in range(20):
            await trail.run(family(), "go", session=f"s{number}")
        spans = await recorded(trail)
        some = await recorded(trail, share=0.5)
    told = {span.trace_id for span in some}
    assert 0 < len(told) < 20
    assert {span.span_id for span in some} == {span.span_id for span in spans if span.trace_id in told}
    assert is_sampled("f" * 32, 1.0)
    assert not is_sampled("0" * 32, 0.0)


class Killed(Exception):
    """The export ends between two lines."""


async def test_an_export_that_is_killed_anywhere_misses_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steptrail.infrastructure.telemetry.recorded._REST_SECONDS", 0.0)
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await run_all(trail)
        whole = {span.span_id: span for span in await recorded(trail)}
        for number in range(1, 60, 7):
            assert await _killed_again_and_again(trail, number) == whole


async def _killed_again_and_again(trail: Steptrail, number: int) -> dict[str, Span]:
    """Export all, cut off after the given number of spans and kept places, and then to the end."""
    told: dict[str, Span] = {}
    left, place, name = number, 0, f"killed-{number}"
    end = await trail.store.last_position()

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Killed

    async def send(batch: list[Span]) -> int:
        for span in batch:
            count()
            told[span.span_id] = span
        return len(batch)

    while place < end:
        try:
            async with trail.follower(name) as follower:
                entries = trail.subscribe(follower.kept, follow=False)

                async def keep(position: int, follower: Follower = follower) -> None:
                    await follower.keep(position)
                    count()

                await export_spans(entries, SpanFolds(trail.store, remembered=1), send, keep=keep)
        except Killed:
            pass
        place = await trail.store.place(name)
    return told


@pytest.mark.parametrize("dropped", [1, 2, 7])
async def test_commits_that_were_dropped_are_told_when_their_stream_grows(dropped: int) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(family(), "go", session="s")
        told: list[Span] = []
        live = LiveSpans(SpanFolds(trail.store), told.append, most=1)
        records = await trail.session("s").history()
        live.committed("agent:s", records[:1])
        await live.aclose()
        for begin in range(1, len(records), dropped + 1):
            for record in records[begin : begin + dropped + 1]:
                live.committed("agent:s", [record])
            await live.aclose()
        spans = [span for span in await recorded(trail) if span.attributes["steptrail.session.id"] == "s"]
    assert told == spans


async def test_what_cannot_be_told_harms_no_run() -> None:
    class Broken(SimpleSpanProcessor):
        def on_end(self, span: Any) -> None:
            raise RuntimeError("no")

    exporter = InMemorySpanExporter()
    async with Steptrail.open("sqlite:///:memory:", telemetry=Telemetry(processor=Broken(exporter))) as trail:
        result = await trail.run(family(), "go")
    assert result.answered


async def test_a_span_that_cannot_be_told_costs_no_other_of_its_commit() -> None:
    told: list[Span] = []

    def tell(span: Span) -> None:
        told.append(span)
        if len(told) == 1:
            raise RuntimeError("no")

    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(family(), "go", session="s")
        live = LiveSpans(SpanFolds(trail.store), tell)
        live.committed("agent:s", await trail.session("s").history())
        await live.aclose()
        assert told == [span for span in await recorded(trail) if span.attributes["steptrail.session.id"] == "s"]


async def test_no_more_dropped_streams_are_kept_than_folds() -> None:
    class Name(str):
        """A name whose end can be seen."""

    async with Steptrail.open("sqlite:///:memory:") as trail:
        live = LiveSpans(SpanFolds(trail.store, remembered=2), lambda _: None, most=1)
        names = deque(Name(f"agent:{number}") for number in range(9))
        kept = [weakref.ref(name) for name in names]
        while names:
            live.committed(names.popleft(), [])
        assert sum(each() is not None for each in kept) == 3  # two that were dropped, and one that waits


def test_the_address_is_that_of_a_receiver_or_of_its_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("http://h:4318", "http://h:4318/", "http://h:4318/v1/traces"):
        assert endpoint_of(url) == "http://h:4318/v1/traces"
    assert endpoint_of("https://h/api/otel") == "https://h/api/otel/v1/traces"
    assert endpoint_of(None) == "http://localhost:4318/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://e")
    assert endpoint_of(None) == "http://e/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x")
    assert endpoint_of(None) == "http://t/x"
    with pytest.raises(ConfigurationError):
        endpoint_of("localhost:4318")
    with pytest.raises(ConfigurationError):
        SpanSender("ftp://h")


def test_settings_that_cannot_be_meant_are_refused() -> None:
    processor = SimpleSpanProcessor(InMemorySpanExporter())
    with pytest.raises(ConfigurationError):
        Telemetry("http://h", processor=processor)
    with pytest.raises(ConfigurationError):
        Telemetry(processor=processor, sample=1.5)


async def test_what_a_process_learns_of_a_call_after_a_take_over_is_told_by_it(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.PARK)
    async def charge() -> str:
        """Charge a card."""
        begun.set()
        await go_on.wait()
        return "charged"

    exporters = InMemorySpanExporter(), InMemorySpanExporter()
    first, second = (Telemetry(processor=SimpleSpanProcessor(each)) for each in exporters)
    url, ended = f"sqlite:///{tmp_path / 'runs.db'}", list[ToolCallCompleted]()
    agent = agent_of([call("charge"), "Done."]).with_tools(charge).build()
    async with Steptrail.open(url, telemetry=first) as owner, Steptrail.open(url, telemetry=second) as other:
        owner.on(ToolCallCompleted, ended.append)
        running = asyncio.create_task(owner.run(agent, "go", session="s"))
        await begun.wait()
        assert (await other.session("s").resume(agent, take_over=True)).status == "waiting"
        go_on.set()
        with pytest.raises(OwnershipLost):
            await running
        assert (await other.session("s").resume(agent)).output == "Done."
        wanted = {span.span_id for span in spans_of("agent:s", await owner.session("s").history())}
    told = {f"{span.context.span_id:016x}" for each in exporters for span in each.get_finished_spans() if span.context}
    assert told == wanted
    assert [each.tool for each in ended] == ["charge"]
