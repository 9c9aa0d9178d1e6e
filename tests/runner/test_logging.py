"""What the library says through `logging`, and where its records, and those of the user's tools, come from."""

import asyncio
import contextvars
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from steptrail import AgentBuilder, ContinuationCriteria, ErrorPolicy, HookType, Steptrail, tool
from steptrail.broadcasting import AgentEventEnvelopeAdapter, BroadcastEnvelope, InProcessTransport
from steptrail.continuation import CallableCriterion
from steptrail.domain.json_value import JsonValue
from steptrail.errors import ConfigurationError
from steptrail.hooks import CallableHook
from steptrail.interfaces.python.modules import load_module
from steptrail.lifecycle import AgentExecutionStarted
from steptrail.output import OutputContext, OutputRejected
from steptrail.runtime.kernel.log_context import LogPlace, log_place, logged_at
from steptrail.telemetry import Telemetry
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.tools import SubagentTool
from steptrail.workflow import FlowTool, Workflow
from tests.harness.kept_log import KeptLog, kept_log

own = logging.getLogger("shop")


@pytest.fixture
def kept() -> Iterator[KeptLog]:
    with kept_log("steptrail", "shop") as log:
        yield log


@tool
def broken() -> str:
    """Fail."""
    own.info("about to fail")
    raise KeyError("missing")


@tool
async def careful() -> str:
    """Work."""
    await asyncio.sleep(0)
    own.info("working")
    return "done"


def run(builder: AgentBuilder) -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        trail.run(builder.build(), "go", session="order-7")


def agent(*replies: Reply) -> AgentBuilder:
    return AgentBuilder("shop").with_model(ScriptedModel(list(replies))).with_tools(broken, careful)


def test_a_run_says_where_it_began_and_how_it_ended(kept: KeptLog) -> None:
    run(agent(call("careful"), "Here you are."))
    assert kept.of(logging.INFO) == [
        "session order-7: execution order-7:1 of agent shop runs as segment 1",
        "session order-7: execution order-7:1 completed after 2 steps (completed)",
    ]
    assert kept.of(logging.WARNING) == kept.of(logging.ERROR) == []
    assert any("step 2 asks the model" in said for said in kept.of(logging.DEBUG))


def test_a_failed_call_is_a_warning_with_its_traceback_and_a_failed_run_an_error(kept: KeptLog) -> None:
    run(agent(call("broken")))
    (warning,) = kept.of(logging.WARNING)
    assert warning.startswith("session order-7: tool broken failed: KeyError: 'missing' (tests/runner/test_logging.py:")
    ((said, trace),) = kept.traced()
    assert said == warning
    assert 'raise KeyError("missing")' in trace
    (error,) = kept.of(logging.ERROR)
    assert error.startswith("session order-7: execution order-7:1 failed after 1 step (error), decided by")
    assert "KeyError: 'missing' (tests/runner/test_logging.py:" in error


def test_a_retry_is_a_warning(kept: KeptLog) -> None:
    run(agent(ConnectionError("cut off"), "ok").with_error_policy(ErrorPolicy.retry_all(2)))
    failed, again = kept.of(logging.WARNING)
    assert failed == "session order-7: model scripted failed: ConnectionError: cut off"
    assert again.startswith("session order-7: again in ")
    assert again.endswith(" s after failure 1 (model)")


@pytest.mark.parametrize("place", ["hook", "criterion", "nested criterion", "listener"])
def test_whatever_raises_in_the_users_code_is_logged_with_its_traceback(place: str, kept: KeptLog) -> None:
    def judge(state: object) -> bool:
        raise ArithmeticError("no such sum")

    builder = agent("done")
    if place == "hook":
        builder.with_hook(HookType.BEFORE_STEP, CallableHook(judge))  # type: ignore[arg-type]
    elif place == "criterion":
        builder.with_criteria(CallableCriterion(judge))
    elif place == "nested criterion":
        builder.with_criteria(ContinuationCriteria(CallableCriterion(judge)))
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        if place == "listener":
            trail.wiretap(judge)
        trail.run(builder.build(), "go", session="order-7")
    assert kept.traced()
    for said, trace in kept.traced():
        assert "order-7" in said
        assert 'raise ArithmeticError("no such sum")' in trace


def test_every_record_says_where_it_was_made_also_on_the_thread_of_a_tool(kept: KeptLog) -> None:
    run(agent(call("careful"), call("broken")))
    own.info("outside")
    said = {
        record.getMessage(): tuple(getattr(record, name) for name in ("session", "execution", "step", "effect_id"))
        for record in kept.records
        if record.name == "shop"
    }
    assert said == {
        "working": ("order-7", "order-7:1", 1, "order-7:1:1:0"),
        "about to fail": ("order-7", "order-7:1", 2, "order-7:1:2:0"),
        "outside": (None, None, None, None),
    }
    ours = [record for record in kept.records if "asks the model" in record.getMessage()]
    assert [(getattr(record, "session", ""), getattr(record, "step", "")) for record in ours] == [
        ("order-7", 1),
        ("order-7", 2),
    ]


def test_what_a_record_says_itself_is_kept(kept: KeptLog) -> None:
    own.info("mine", extra={"session": "of the database"})
    assert [getattr(record, "session", None) for record in kept.records] == ["of the database"]


async def test_runs_side_by_side_do_not_mix_their_records(kept: KeptLog) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        builders = [agent(call("careful"), "ok").build() for _ in range(5)]
        await asyncio.gather(*(trail.run(each, "go", session=f"s{at}") for at, each in enumerate(builders)))
        own.info("after")
    working = [getattr(record, "session", "") for record in kept.records if record.getMessage() == "working"]
    assert sorted(working) == ["s0", "s1", "s2", "s3", "s4"]
    assert [getattr(record, "session", "") for record in kept.records if record.getMessage() == "after"] == [None]


@tool
def leaky(note: str) -> str:
    """Fail, with a password in the words and in the source."""
    raise ConnectionError(f"postgresql://ana:s3cr3t@db refused {len(note)} letters, api_key=abcdef123456")


@tool
def weigh(grams: int) -> str:
    """Take a number and nothing else."""
    return f"{grams} g"


class Grams(BaseModel):
    grams: str


async def in_the_books(answer: str, context: OutputContext) -> str:
    raise OutputRejected(f"{answer} is in no book")


@tool
def answered_at_length() -> str:
    """Fail with all that a server has answered."""
    raise ConnectionError("password=s3cr3t " + "word " * 2_000_000)


def test_a_message_without_an_end_is_cut_in_the_log(kept: KeptLog) -> None:
    run(agent(call("answered_at_length"), "over").with_tools(answered_at_length))
    (failed,) = kept.of(logging.WARNING)
    assert "in answered_at_length" in failed
    assert "ConnectionError: password=… word " in failed
    assert failed.endswith("…")
    assert max(map(len, kept.texts())) < 110_000


@pytest.mark.acceptance("8.5-7")
def test_no_record_holds_a_credential_or_what_was_said_and_made(kept: KeptLog) -> None:
    run(agent(call("leaky", note="ana@example.com"), "over").with_tools(leaky))
    run(agent('{"value": "ana@example.com"}').with_output(str, retries=0).with_output_validator(in_the_books))
    run(agent(call("weigh", grams="ana@example.com")).with_tools(weigh))
    (failed, *_) = [each for each in kept.of(logging.WARNING) if "leaky" in each]
    assert "ConnectionError: postgresql://…@db refused 15 letters, api_key=…" in failed
    assert "in leaky" in failed  # the traceback, as a text: its words are not those of the exception
    assert "session order-7: tool weigh failed: InvalidArguments" in kept.of(logging.WARNING)
    for text in kept.texts():
        assert "s3cr3t" not in text
        assert "abcdef123456" not in text
        assert "ana@example.com" not in text


async def test_what_a_child_failed_of_is_said_by_its_own_records_and_quoted_by_none(kept: KeptLog) -> None:
    child = agent(call("weigh", grams="ana@example.com")).with_tools(weigh).build()
    flow = Workflow("scales").tool("weigh", weigh, args={"grams": "{{ input.grams }}"}).build()
    above = agent(call("shop", prompt="go")).with_tools(SubagentTool(child)).build()
    tool_of_flow = FlowTool(flow, name="weigh_it", parameters=Grams)
    around = agent(call("weigh_it", grams="ana@example.com")).with_tools(tool_of_flow)
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(above, "go", session="a")
        await trail.run(around.build(), "go", session="b")
        await trail.run(Workflow("above").agent("below", child, prompt="go").build(), session="c")
    failed = [text.removeprefix("session ").removeprefix("flow ") for text in kept.of(logging.WARNING)]
    assert "a: tool shop failed: SubagentFailed" in failed
    assert "b: tool weigh_it failed: WorkflowFailed" in failed
    assert "c: node below failed: ChildFailed" in failed
    assert sum("weigh failed: InvalidArguments" in text for text in failed) == 3
    assert "ana@example.com" not in "".join(kept.texts())


async def test_what_listeners_watchers_and_transports_raise_is_a_warning_without_credentials(kept: KeptLog) -> None:
    def leaks(told: object) -> None:
        raise ConnectionError(f"cannot tell of {type(told).__name__}, api_key=abcdef123456, half \ud800")

    class Leaking(InProcessTransport):
        async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
            leaks(messages)

    async with Steptrail.open("sqlite:///:memory:") as trail, AgentEventEnvelopeAdapter(Leaking()) as adapter:
        trail.on(AgentExecutionStarted, leaks)
        trail.on(AgentExecutionStarted, adapter)
        await trail.run(agent("ok").build(), "go", on_update=leaks, on_commit=leaks)
        await adapter.aclose(within=0.01)
    failed = [text for text in kept.texts() if "ConnectionError" in text]
    assert {" ".join(text.split()[:3]) for text in failed} == {
        "WARNING steptrail.runs listener",  # of events, and of live updates
        "WARNING steptrail.runs a",  # a watcher
        "WARNING steptrail messages",  # that wait for their transport
    }
    assert all("in leaks" in text and "api_key=…" in text for text in failed)
    assert "abcdef123456" not in "".join(failed)
    assert all(text.isprintable() for line in kept.texts() for text in line.split("\n"))


async def test_what_a_mask_of_spans_raises_is_written_without_credentials(kept: KeptLog) -> None:
    def mask(key: str, value: JsonValue) -> JsonValue:
        raise ConnectionError("cannot ask what to hide, api_key=abcdef123456")

    telemetry = Telemetry(processor=SimpleSpanProcessor(InMemorySpanExporter()), content=True, mask=mask)
    async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry) as trail:
        await trail.run(agent(call("careful"), "ok").build(), "go")
    failed = [text for text in kept.texts() if text.startswith("ERROR steptrail.telemetry spans of ")]
    assert failed
    assert all("api_key=…" in text and "abcdef123456" not in text for text in failed)


async def test_what_is_told_of_a_worker_and_what_ends_telemetry_raise_without_credentials(
    kept: KeptLog, tmp_path: Path
) -> None:
    def leaks(*told: object) -> None:
        raise ConnectionError(f"cannot tell of {len(told)}, api_key=abcdef123456")

    class Leaking(SimpleSpanProcessor):
        def shutdown(self) -> None:
            leaks()

    class Reader(InMemoryMetricReader):
        def shutdown(self, timeout_millis: float = 30_000, **options: Any) -> None:
            leaks()

    telemetry = Telemetry(processor=Leaking(InMemorySpanExporter()), metrics=Reader())
    other = AgentBuilder("other").with_model(ScriptedModel(["ok"])).build()
    async with Steptrail.open("sqlite:///:memory:", telemetry=telemetry) as trail:
        await trail.start(agent("ok").build(), "go")
        async with asyncio.timeout(60), trail.work(other, on_left=leaks) as worker:
            while not worker.left:
                await asyncio.sleep(0.01)
    code = tmp_path / "leaky_code.py"
    code.write_text("raise ConnectionError('no settings, api_key=abcdef123456')")
    with pytest.raises(ConfigurationError, match="api_key=…"):
        load_module(str(code), "AGENT")
    failed = [text for text in kept.texts() if "ConnectionError" in text]
    assert {" ".join(text.split()[:4]) for text in failed} == {
        "ERROR steptrail.runs what is",  # told of a session that is left
        "ERROR steptrail.telemetry the processor",
        "ERROR steptrail.telemetry the metric",
        "WARNING steptrail.runs what was",  # named cannot be loaded
    }
    assert all("api_key=…" in text and "abcdef123456" not in text for text in failed)


def test_the_handlers_of_a_service_format_a_traceback_of_their_own(kept: KeptLog) -> None:
    run(agent(call("broken")))
    assert [record.exc_info[0] for record in kept.records if record.exc_info] == [KeyError]


SILENT = """
import logging
from steptrail import AgentBuilder, Steptrail, tool
from steptrail.testing import ScriptedModel, call

@tool
def broken() -> str:
    "Fail."
    raise KeyError("missing")

agent = AgentBuilder("a").with_model(ScriptedModel([call("broken")])).with_tools(broken).build()
with Steptrail.open_sync("sqlite:///:memory:") as trail:
    print(trail.run(agent, "go").status)
print(logging.getLogger("steptrail").handlers)
"""


@pytest.mark.slow("starts a process")
def test_it_is_silent_until_logging_is_set_up() -> None:
    ended = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    assert ended.stdout == "failed\n[<NullHandler (NOTSET)>]\n"


def test_a_place_that_a_loop_ends_in_another_context_ends_without_an_error() -> None:
    place = logged_at(LogPlace("order-7"))
    contextvars.copy_context().run(place.__enter__)
    contextvars.copy_context().run(place.__exit__, None, None, None)
    assert log_place.get().session == ""
