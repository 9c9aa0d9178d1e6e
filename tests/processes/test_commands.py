"""Stop, pause and send, from a process that does not run the session."""

import pytest

from steptrail.domain.agent.events import (
    ExecutionPaused,
    InferenceCompleted,
    InferenceInterrupted,
    MessagesAppended,
    StopRequested,
    ToolCallCancelled,
    ToolExecutionCompleted,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.domain.json_value import JsonValue
from steptrail.testing.crash import repeated
from steptrail.testing.model_script import answer, tool_calls
from steptrail.testing.model_server import ModelServer, RecordedRequest
from tests.processes.agents.agents import Options
from tests.processes.stage import COMPLETED, Stage, on_both_stores

STOPPED = ("completed", "user_requested", None)
CUTS = ["after-append:1", "before-inference:1", "after-tool:1", "before-tool:3", "before-hooks:7", "after-hooks:9"]
"""Where a process is killed before somebody speaks to what it left: between steps, in model calls, tools and hooks."""


def test_a_reply_that_arrives_within_the_grace_of_a_stop_is_kept_and_starts_nothing(stage: Stage) -> None:
    running = stage.start("run", "gated_model", {"stop_grace": 60.0})
    stage.wait_for("model-0")
    stage.session(lambda session: session.stop(by="ops"))
    stage.open("model-0")
    assert stage.end(running).result == STOPPED
    assert len(stage.of(InferenceCompleted)) == 1
    assert stage.of(ToolExecutionStarted) == []
    assert len(stage.of(ToolCallCancelled)) == 1
    assert stage.ledger.entries() == []


@on_both_stores
def test_a_model_call_is_cut_when_the_grace_of_a_stop_is_over(stage: Stage) -> None:
    running = stage.start("run", "gated_model", {"stop_grace": 0.0})
    stage.wait_for("model-0")
    stage.session(lambda session: session.stop(by="ops"))
    assert stage.end(running).result == STOPPED
    assert [event.reason for event in stage.of(InferenceInterrupted)] == ["stop"]
    assert stage.of(InferenceCompleted) == []


def test_a_tool_is_cut_when_the_grace_of_a_stop_is_over_and_the_next_never_starts(stage: Stage) -> None:
    options: Options = {"async": True, "stop_grace": 0.0}
    running = stage.start("run", "gated_tool", options)
    stage.wait_for("tool")
    stage.session(lambda session: session.stop(by="ops"))
    assert stage.end(running).result == STOPPED
    assert [event.reason for event in stage.of(ToolExecutionInterrupted)] == ["stop"]
    assert stage.ledger.counts() == {"slow": 1}


@on_both_stores
def test_a_pause_lets_the_tool_end_and_starts_nothing_new(stage: Stage) -> None:
    running = stage.start("run", "gated_tool")
    stage.wait_for("tool")
    stage.session(lambda session: session.pause(reason="deploy", by="ops"))
    stage.open("tool")
    assert stage.end(running).result == ("paused", None, None)
    assert [event.tool for event in stage.of(ToolExecutionStarted)] == ["slow"]
    assert len(stage.of(ToolExecutionCompleted)) == 1
    assert [(event.by, event.reason) for event in stage.of(ExecutionPaused)] == [("ops", "deploy")]

    assert stage.perform("resume", "gated_tool").result == COMPLETED
    assert stage.ledger.counts() == {"slow": 1, "after": 1, "done": 2}


def test_a_pause_lets_the_model_answer_and_starts_no_tool(stage: Stage) -> None:
    running = stage.start("run", "gated_model")
    stage.wait_for("model-0")
    stage.session(lambda session: session.pause(by="ops"))
    stage.open("model-0")
    assert stage.end(running).result == ("paused", None, None)
    assert len(stage.of(InferenceCompleted)) == 1
    assert stage.ledger.entries() == []

    stage.open("model-1")
    assert stage.perform("resume", "gated_model").result == COMPLETED
    assert len(stage.of(InferenceCompleted)) == 2


@pytest.mark.parametrize(
    ("stage", "cut"),
    [*(("sqlite", cut) for cut in CUTS), ("postgresql", "after-tool:1"), ("postgresql", "before-tool:3")],
    indirect=["stage"],
)
def test_a_crashed_session_is_paused_at_once_and_can_be_resumed(stage: Stage, cut: str) -> None:
    assert stage.perform("run", "errands", fault=cut).code == -9
    paused = stage.session(lambda session: session.pause(by="ops"))
    assert paused.status == "paused"
    assert stage.perform("resume", "errands").result == COMPLETED
    assert repeated(stage.ledger.entries(), stage.records()) == []
    assert stage.ledger.counts()["pay"] == (0 if cut == "before-tool:3" else 1)


@pytest.mark.parametrize("cut", CUTS)
def test_a_crashed_session_is_stopped_at_once(stage: Stage, cut: str) -> None:
    assert stage.perform("run", "errands", fault=cut).code == -9
    done = stage.ledger.entries()
    stopped = stage.session(lambda session: session.stop(by="ops"))
    assert (stopped.status, stopped.stop_reason) == ("completed", "user_requested")
    assert stage.ledger.entries() == done


def test_a_request_that_its_owner_took_to_the_grave_is_carried_out_when_it_is_repeated(stage: Stage) -> None:
    running = stage.start("run", "gated_model")
    stage.wait_for("model-0")
    stage.session(lambda session: session.stop(by="ops"))
    running.kill()
    running.end()
    assert stage.session(lambda session: session.state()).status == "in_progress"
    stopped = stage.session(lambda session: session.stop(by="ops"))
    assert (stopped.status, stopped.stop_reason) == ("completed", "user_requested")
    assert len(stage.of(StopRequested)) == 1


def roles(request: RecordedRequest) -> list[JsonValue]:
    messages = request.body["messages"]
    assert isinstance(messages, list)
    return [message["role"] for message in messages if isinstance(message, dict)]


@on_both_stores
def test_a_message_that_comes_mid_step_joins_at_the_boundary_in_an_order_that_the_provider_takes(stage: Stage) -> None:
    script = [tool_calls(("look", {})), answer("The first answer."), answer("All done.")]
    with ModelServer(script) as server:
        stage.open("model-0")
        running = stage.start("run", "over_http", {"url": server.url})
        stage.wait_for("tool")
        sent = stage.perform("send", "over_http", {"url": server.url}, text="Look twice.")
        assert sent.result == ("in_progress", None, None)
        stage.open("tool")
        stage.wait_for("model-1")
        stage.perform("send", "over_http", {"url": server.url}, text="And once more.")
        for gate in ("model-1", "model-2"):
            stage.open(gate)
        assert stage.end(running).result == COMPLETED
        requests = [roles(request) for request in server.requests()]

    assert requests == [
        ["user"],
        ["user", "assistant", "tool", "user"],
        ["user", "assistant", "tool", "user", "assistant", "user"],
    ]
    assert len(stage.of(MessagesAppended)) == 2
