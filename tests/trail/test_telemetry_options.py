"""Metrics, content that is asked for and masked, and what one trace is made of, as receivers get them."""

import asyncio
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.errors import ConfigurationError
from steptrail.infrastructure.telemetry import metrics
from steptrail.interfaces.python import has_workers
from steptrail.projections.telemetry.span import trace_id
from steptrail.runtime.kernel.engine import EngineStatus
from steptrail.telemetry import Telemetry
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.tools import SubagentTool
from steptrail.workflow import Workflow
from tests.flow.kit import World
from tests.harness.otlp_receiver import OtlpReceiver
from tests.runner.families import asks, boss, look, named
from tests.trail.receivers import receiver as receiver
from tests.trail.test_waking import Told
from tests.unit.cli.command import Type
from tests.unit.cli.conftest import typed as typed

SECRET = "sk-ant-api03-" + "A" * 30


@tool(effect=ToolEffect.READ)
def search(query: str, password: str = "") -> dict[str, JsonValue]:
    """Search for something."""
    if query == "boom":
        raise KeyError(f"no {SECRET}")
    return {"found": query, "token": "hidden-1", "Colour": "hidden-2", "note": "hidden-3"}


def desk(*script: Reply) -> Agent:
    return AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(search).build()


def kept(exporter: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.acceptance("8.8-4")
async def test_a_receiver_gets_the_metrics_of_runs_and_of_what_is_open(receiver: OtlpReceiver, tmp_path: Path) -> None:
    url, world = f"sqlite:///{tmp_path / 'runs.db'}", World()
    telemetry = Telemetry(receiver.url, metrics=True, sample=0.0, service="shop")
    async with Steptrail.open(url, telemetry=telemetry) as trail:
        child = named("reader", call("look"), "42").with_tools(look).build()
        await trail.run(boss([SubagentTool(child)], asks("reader", "go"), "Done.").build(), "go", session="s")
        await trail.run(Workflow("outer").function("x", world.function("x")).build(), {}, session="f")
        await trail.views.wait()
        await trail.start(desk("Hello."), "later", session="p")
    found = receiver.metrics

    def points(name: str) -> list[list[Any]]:
        return sorted(found[name]["points"], key=str)

    assert receiver.spans == []
    assert {each["service"] for each in found.values()} == {"shop"}
    ended = {"steptrail.status": "completed", "steptrail.stop_reason": "completed"}
    assert points("steptrail.runs") == [
        [{"gen_ai.agent.name": "boss", **ended}, 1],
        [{"gen_ai.agent.name": "reader", **ended}, 1],
        [{"gen_ai.workflow.name": "outer", **ended}, 1],
    ]
    model = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
    }
    assert points("gen_ai.client.operation.duration") == [[model, 4]]
    assert [[each["gen_ai.token.type"], count] for each, count in points("gen_ai.client.token.usage")] == [
        ["input", 4],
        ["output", 4],
    ]
    tools = {each["gen_ai.tool.name"]: count for each, count in points("gen_ai.execute_tool.duration")}
    assert tools == {"look": 1, "reader": 1}
    assert [count for _, count in points("gen_ai.invoke_agent.duration")] == [1, 1]
    assert points("steptrail.open") == [[{"steptrail.status": "pending"}, 1]]
    assert points("steptrail.oldest_due")[0][1] >= 0
    ((name, lag),) = points("steptrail.projection.lag")
    assert (name, lag > 0) == ({"steptrail.projection": "runs"}, True)
    units = {name: each["unit"] for name, each in found.items() if not name.startswith("gen_ai.")}
    assert units == {
        "steptrail.decisions": "{decision}",
        "steptrail.node.duration": "s",
        "steptrail.oldest_due": "s",
        "steptrail.open": "{run}",
        "steptrail.projection.lag": "{position}",
        "steptrail.runs": "{run}",
    }


async def test_a_reader_is_told_what_is_open_now_and_not_when_it_began() -> None:
    reader = InMemoryMetricReader()
    telemetry = Telemetry(processor=SimpleSpanProcessor(InMemorySpanExporter()), metrics=reader)

    def read() -> dict[str, Any]:
        data: Any = reader.get_metrics_data()
        if data is None:
            return {}
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return {
            each.name: [(dict(point.attributes), point.value) for point in each.data.data_points]
            for each in metrics
            if each.name in {"steptrail.open", "steptrail.projection.lag"}
        }

    async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry) as trail:
        await trail.start(desk("Hello."), "later", session="p")
        assert await asyncio.to_thread(read) == {"steptrail.open": [({"steptrail.status": "pending"}, 1)]}
        # In the loop itself it cannot be looked up: what was seen last is told.
        assert read() == {"steptrail.open": [({"steptrail.status": "pending"}, 1)]}


def gauges(reader: InMemoryMetricReader) -> dict[str, list[float]]:
    data: Any = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics if data is not None else ()
    return {
        each.name: [point.value for point in each.data.data_points]
        for each in metrics
        if each.name in {"steptrail.open", "steptrail.oldest_due"}
    }


async def test_what_is_open_is_told_while_an_engine_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(Told):
        async def status(self) -> EngineStatus:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(has_workers, "_PATIENCE_SECONDS", 0.05)
    reader = InMemoryMetricReader()
    telemetry = Telemetry(processor=SimpleSpanProcessor(InMemorySpanExporter()), metrics=reader)
    async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry, engine=Away()) as trail:
        await trail.start(desk("Hello."), "later", session="p")
        told = await asyncio.to_thread(gauges, reader)
    assert told["steptrail.open"] == [1]
    assert told["steptrail.oldest_due"][0] > 0


async def test_a_reader_waits_once_for_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    async def hangs(_: object) -> NoReturn:
        nonlocal looks
        looks += 1
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(metrics, "open_counts", hangs)
    monkeypatch.setattr(metrics, "_PATIENCE_SECONDS", 0.05)
    reader = InMemoryMetricReader()
    telemetry = Telemetry(processor=SimpleSpanProcessor(InMemorySpanExporter()), metrics=reader)
    async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry):
        await asyncio.to_thread(gauges, reader)
        assert looks == 1


async def test_what_another_process_did_between_is_told_by_that_one_alone(tmp_path: Path) -> None:
    url, agent = f"sqlite:///{tmp_path / 'runs.db'}", desk("One.", "Two.", "Three.")
    exporters, readers = [InMemorySpanExporter() for _ in range(2)], [InMemoryMetricReader() for _ in range(2)]

    def runs(reader: InMemoryMetricReader) -> int:
        data: Any = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data is not None else ()
        return sum(point.value for each in metrics if each.name == "steptrail.runs" for point in each.data.data_points)

    def opened(number: int) -> Any:
        processor = SimpleSpanProcessor(exporters[number])
        return Steptrail.open(url, telemetry=Telemetry(processor=processor, metrics=readers[number]))

    async with opened(0) as first, opened(1) as second:
        await first.run(agent, "1", session="s")
        await second.session("s").send(agent, "2")
        await first.session("s").send(agent, "3")
        while sum(counted := [runs(reader) for reader in readers]) < 3:
            await asyncio.sleep(0.01)
        assert counted == [2, 1]
    told = [[about(span)["steptrail.execution.id"] for span in kept(each)["invoke_agent desk"]] for each in exporters]
    assert told == [["s:1", "s:3"], ["s:2"]]


@pytest.mark.acceptance("8.8-5")
def test_content_is_told_to_those_who_ask_and_is_masked(typed: Type, receiver: OtlpReceiver, tmp_path: Path) -> None:
    def mask(key: str, value: JsonValue) -> JsonValue:
        return "(gone)" if key == "note" else value

    url = f"sqlite:///{tmp_path / 'runs.db'}"
    plain, exporter = InMemorySpanExporter(), InMemorySpanExporter()
    asked = Telemetry(processor=SimpleSpanProcessor(exporter), content=True, mask_keys=["colour"], mask=mask)
    script = (call("search", query="tea", password="hidden-4"), call("search", query="boom"))  # noqa: S106
    with Steptrail.open_sync(url, telemetry=asked) as trail:
        trail.run(desk(*script), f"My key is {SECRET}, find tea.", session="s")
    plainly = Telemetry(processor=SimpleSpanProcessor(plain))
    with Steptrail.open_sync("sqlite:///:memory:", telemetry=plainly) as trail:
        trail.run(desk(*script), "canary", session="s")
    assert "canary" not in str([about(span) for span in plain.get_finished_spans()])
    spans = kept(exporter)
    told = str([about(span) for span in exporter.get_finished_spans()])
    assert SECRET not in told
    assert "hidden-" not in told
    first, second = spans["execute_tool search"]
    assert json.loads(about(first)["gen_ai.tool.call.arguments"])["query"] == "tea"
    result = json.loads(about(first)["gen_ai.tool.call.result"])
    assert (result["found"], result["note"], result["Colour"]) == ("tea", "(gone)", "••••")
    assert about(second)["exception.message"].startswith("'no ")
    asked_first, asked_second = (json.loads(about(span)["gen_ai.input.messages"]) for span in spans["chat scripted"])
    assert [message["role"] for message in asked_second] == ["user", "assistant", "tool"]
    assert asked_first == asked_second[:1]
    assert "find tea" in asked_first[0]["parts"][0]["content"]
    (said,) = json.loads(about(spans["chat scripted"][0])["gen_ai.output.messages"])
    assert (said["role"], said["finish_reason"]) == ("assistant", "tool_calls")
    # The same of the recording, with the keys that the command hides.
    assert typed("export", "--otlp", receiver.url, "--content", "--redact", "note", "--store", url).code == 0
    by_command = str([span["attributes"] for span in receiver.spans])
    assert SECRET not in by_command
    assert {number for number in "1234" if f"hidden-{number}" in by_command} == {"2"}
    assert "find tea" in by_command


@pytest.mark.parametrize("is_open", [True, False])
def test_the_content_of_a_fork_holds_what_was_said_before_it(
    is_open: bool, receiver: OtlpReceiver, typed: Type, tmp_path: Path
) -> None:
    url, exporter = f"sqlite:///{tmp_path / 'runs.db'}", InMemorySpanExporter()
    live = Telemetry(processor=SimpleSpanProcessor(exporter), content=True)
    script = (call("search", query="tea"), "Found.", call("search", query="milk"), "Found, too.")
    with Steptrail.open_sync(url) as trail:
        trail.run(desk(*script), "Find tea.", session="s")
        history = trail.session("s").history()
        stepped = next(record.version for record in history if record.event.TYPE == "step.completed.v1")
        trail.session("s").fork(at=stepped if is_open else None, session="f")
    with Steptrail.open_sync(url, telemetry=live) as trail:
        fork, agent = trail.session("f"), desk(*script)
        _ = fork.resume(agent) if is_open else fork.send(agent, "And milk?")
    assert typed("export", "f", "--otlp", receiver.url, "--content", "--store", url).code == 0
    spans = kept(exporter)
    asked = [about(span)["gen_ai.input.messages"] for span in spans["chat scripted"]]
    roles = ["user", "assistant", "tool"] if is_open else ["user", "assistant", "tool", "assistant", "user"]
    assert [message["role"] for message in json.loads(asked[0])] == roles
    assert all("Find tea." in each for each in asked)
    recorded = [span["attributes"] for span in receiver.spans if span["name"] == "chat scripted"]
    assert [each["gen_ai.input.messages"] for each in recorded] == asked


async def test_a_mask_that_raises_harms_no_run_and_tells_no_content() -> None:
    def mask(key: str, value: JsonValue) -> JsonValue:
        raise RuntimeError("no")

    exporter = InMemorySpanExporter()
    telemetry = Telemetry(processor=SimpleSpanProcessor(exporter), content=True, mask=mask)
    async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry) as trail:
        result = await trail.run(desk(call("search", query="canary"), "Done."), "canary")
    assert result.answered
    assert "canary" not in str([about(span) for span in exporter.get_finished_spans()])


@pytest.mark.acceptance("8.8-6")
@pytest.mark.parametrize("per", ["session", "run", "segment"])
def test_a_trace_is_a_session_a_run_or_a_segment(per: Any, receiver: OtlpReceiver, typed: Type, tmp_path: Path) -> None:
    url, exporter = f"sqlite:///{tmp_path / 'runs.db'}", InMemorySpanExporter()
    telemetry = Telemetry(processor=SimpleSpanProcessor(exporter), trace_per=per)
    child = named("reader", "42").build()
    with Steptrail.open_sync(url, telemetry=telemetry) as trail:
        script = (asks("reader", "one"), "Done.", asks("reader", "two"), "Done.")
        agent = boss([SubagentTool(child)], *script).build()
        trail.run(agent, "one", session="s")
        trail.run(agent, "two", session="s")
    contexts = [span.context for span in exporter.get_finished_spans() if span.context]
    live = {(f"{each.trace_id:032x}", f"{each.span_id:016x}") for each in contexts}
    assert typed("export", "--otlp", receiver.url, "--trace-per", per, "--store", url).code == 0
    assert {(span["trace_id"], span["span_id"]) for span in receiver.spans} == live
    segments = [span for span in receiver.spans if span["name"].startswith("invoke_agent")]
    traces = [span["trace_id"] for span in segments]
    assert len(segments) == 4
    assert len(set(traces)) == {"session": 1, "run": 2, "segment": 4}[per]
    if per == "run":
        assert set(traces) == {trace_id("agent:s", "s:1"), trace_id("agent:s", "s:2")}
    ids = {span["span_id"]: span["trace_id"] for span in receiver.spans}
    assert all(ids[span["parent_id"]] == span["trace_id"] for span in receiver.spans if span["parent_id"] in ids)
    below = [span for span in segments if span["name"].endswith("reader")]
    assert all((span["parent_id"] is None) == (per == "segment") for span in below)
    effects = {span["attributes"].get("steptrail.effect_id") for span in receiver.spans}
    if per == "segment":
        assert {span["attributes"]["steptrail.parent.effect_id"] for span in below} <= effects


async def test_a_receiver_of_openinference_gets_its_names_beside_the_others() -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(processor=SimpleSpanProcessor(exporter), content=True, flavour="openinference")
    async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry) as trail:
        await trail.run(desk(call("search", query="tea"), "Found."), "Find tea.", session="s")
    spans = kept(exporter)
    kinds = {name: about(found[0])["openinference.span.kind"] for name, found in spans.items()}
    assert kinds == {
        "chat scripted": "LLM",
        "execute_tool search": "TOOL",
        "invoke_agent desk": "AGENT",
        "step 1": "CHAIN",
        "step 2": "CHAIN",
    }
    assert {about(span)["session.id"] for found in spans.values() for span in found} == {"s"}
    first, second = map(about, spans["chat scripted"])
    assert first["llm.token_count.total"] == first["gen_ai.usage.input_tokens"] + first["gen_ai.usage.output_tokens"]
    assert first["llm.input_messages.0.message.content"] == "Find tea."
    called = "llm.output_messages.0.message.tool_calls.0.tool_call.function"
    assert (first[f"{called}.name"], json.loads(first[f"{called}.arguments"])) == ("search", {"query": "tea"})
    assert second["llm.input_messages.2.message.tool_call_id"] == about(spans["execute_tool search"][0])["tool.id"]
    assert second["llm.output_messages.0.message.content"] == "Found."
    assert second["input.value"] == second["gen_ai.input.messages"]


def test_options_that_cannot_be_meant_are_refused_before_anything_begins() -> None:
    processor = SimpleSpanProcessor(InMemorySpanExporter())
    refused: list[dict[str, Any]] = [
        {"metrics": True, "processor": processor},
        {"metrics": "yes", "processor": processor},
        {"metrics": None},
        {"flavour": "vanilla"},
        {"trace_per": "day"},
        {"mask_keys": ["a"]},
        {"mask_keys": "a", "content": True},
    ]
    for options in refused:
        with pytest.raises(ConfigurationError):
            Telemetry(**options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": 1},
        {"service": 1},
        {"headers": "Authorization=Bearer"},
        {"headers": {"Authorization": 1}},
        {"sample": "0.5"},
        {"sample": None},
        {"content": "false"},
        {"steps": "no"},
        {"content": True, "mask": "card"},
        {"content": True, "mask_keys": [1]},
        {"content": True, "mask_keys": 5},
    ],
)
def test_settings_of_wrong_types_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Telemetry(**wrong)


async def test_a_processor_that_fails_as_it_ends_leaves_the_trail_closed(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(SimpleSpanProcessor):
        def shutdown(self) -> None:
            raise RuntimeError("the receiver has gone: api_key=abcdef123456")

    telemetry = Telemetry(processor=Failing(InMemorySpanExporter()))
    async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry) as trail:
        assert (await trail.run(desk("Done."), "hi")).output == "Done."
    assert "did not end as it should" in caplog.text
    assert "the receiver has gone: api_key=…" in caplog.text


async def test_the_variable_that_turns_opentelemetry_off_turns_off_what_runs_tell(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    for telemetry in (
        Telemetry(receiver.url, metrics=True),
        Telemetry(processor=SimpleSpanProcessor(exporter), metrics=reader),
    ):
        async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry) as trail:
            await trail.run(desk("Hello."), "Hi.", session="s")
    assert (receiver.spans, receiver.metrics, exporter.get_finished_spans()) == ([], {}, ())
    assert reader.get_metrics_data() is None
