"""The client that front ends use, `@ag-ui/client`, on a real server: runs, questions, endings, cut connections."""

import json
import re
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from steptrail import Steptrail
from steptrail.interfaces.http.agui.config import AguiConfig
from steptrail.interfaces.http.agui.conversation import wire_messages
from tests.agui.server import MARK
from tests.examples.running import environment, until
from tests.harness.ready_python import KILL, ready_python
from tests.npm import command, installed

CLIENTS = {"1.0": "1.0.0", "before 1.0": "0.0.59"}
"""The releases of the client by the generation of the protocol that they speak; CopilotKit comes with the older one."""


@dataclass(frozen=True)
class Tab:
    """A browser tab: one client of one thread."""

    clients: "subprocess.Popen[str]"
    thread: str

    def run(self, say: str | None = None, **how: Any) -> "Seen":
        self.begin(say, **how)
        return self.end()

    def begin(self, say: str | None = None, **how: Any) -> None:
        assert self.clients.stdin is not None
        asked = {"thread": self.thread, **({"say": say} if say is not None else {}), **how}
        self.clients.stdin.write(json.dumps(asked) + "\n")
        self.clients.stdin.flush()

    def end(self) -> "Seen":
        assert self.clients.stdout is not None
        return Seen(**json.loads(self.clients.stdout.readline()))


@dataclass(frozen=True)
class Seen:
    """What a client saw of a run, and what it holds since."""

    events: list[dict[str, Any]]
    failed: str | None
    messages: list[dict[str, Any]]
    state: Any
    pending: list[dict[str, Any]]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def one(self, kind: str) -> dict[str, Any]:
        (found,) = [event for event in self.events if event["type"] == kind]
        return found

    @property
    def contents(self) -> list[str]:
        return [message.get("content", "") for message in self.messages]


@dataclass(frozen=True)
class Place:
    folder: Path
    url: str
    process: "subprocess.Popen[bytes]"


@dataclass(frozen=True)
class Front:
    """A thread of a server, and the process of the client in which tabs of it are opened."""

    place: Place
    release: str
    clients: "subprocess.Popen[str]"
    thread: str

    @property
    def tab(self) -> Tab:
        return Tab(self.clients, self.thread)

    @property
    def outcome_when_called_off(self) -> dict[str, str] | None:
        return {"type": "cancelled"} if self.release == "1.0" else None

    def file(self, name: str) -> Path:
        return self.place.folder / name

    def stop(self) -> None:
        with Steptrail.open_sync(f"sqlite:///{self.file('runs.db')}") as trail:
            trail.session(self.thread).stop(by="ben")

    def stored(self) -> list[dict[str, Any]]:
        with Steptrail.open_sync(f"sqlite:///{self.file('runs.db')}") as trail:
            messages, _ = wire_messages(trail.session(self.thread).state(), AguiConfig())
        return [message.model_dump(mode="json", by_alias=True) for message in messages]


def without_ids(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in message.items() if key != "id"} for message in messages]


@contextmanager
def serving(folder: Path, name: str = "server", store: str | None = None) -> Generator[Place]:
    log = folder / f"{name}.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [ready_python(), "-m", "tests.agui.server", str(folder), *(["--store", store] if store else [])],
            env=environment(),
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    try:
        while (found := re.search(r"running on (http://127\.0\.0\.1:\d+)", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            time.sleep(0.02)
        yield Place(folder, found[1], process)
    finally:
        process.send_signal(KILL)
        process.wait()
    log_text = log.read_text()
    assert "ASGI application" not in log_text, log_text


@pytest.fixture(scope="module", params=CLIENTS)
def started(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Front]:
    """A server and a client. Both take a second of a processor to start, and keep threads apart."""
    version = CLIENTS[request.param]
    script = installed(f"ag-ui-{version}", {"@ag-ui/client": version}).parent / "client.mjs"
    script.write_text((Path(__file__).parent / "client.mjs").read_text(encoding="utf-8"), encoding="utf-8")
    with (
        serving(tmp_path_factory.mktemp("served")) as place,
        subprocess.Popen(
            [command("node"), str(script), place.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as clients,
    ):
        try:
            yield Front(place, request.param, clients, "none")
        finally:
            clients.kill()


@pytest.fixture
def front(started: Front) -> Front:
    """A thread that nobody has spoken in, and none of the files by which a test and the model wait for each other."""
    for name in ("began", "go-on"):
        started.file(name).unlink(missing_ok=True)
    return replace(started, thread=str(uuid4()))


def test_a_client_consumes_a_run_with_streamed_text_and_a_tool_call_and_ends_with_what_is_stored(front: Front) -> None:
    tab = front.tab
    # The model writes on when the client has seen its first words.
    seen = tab.run("coffee", id="mine", runId="r1", touch=str(front.file("go-on")))
    assert seen.failed is None
    assert seen.one("RUN_STARTED") == {"type": "RUN_STARTED", "threadId": front.thread, "runId": "r1"}
    assert seen.types.count("TEXT_MESSAGE_CONTENT") > 1
    assert [each for each in seen.types if each.startswith(("TOOL", "STEP", "RUN"))] == [
        "RUN_STARTED",
        "STEP_STARTED",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "STEP_STARTED",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
    assert seen.contents[-1] == "slowly I tell: 3 packets of coffee."
    assert seen.messages[0]["id"] == "mine"
    assert without_ids(seen.messages) == without_ids(front.stored())
    assert seen.state == {"owner": "ana"}
    finished = seen.one("RUN_FINISHED")
    assert finished["outcome"] == {"type": "success"}
    assert (finished["result"]["stopReason"], finished["result"]["steps"]) == ("completed", 2)
    assert finished["usage"] == [{"model": "scripted", "inputTokens": 20, "outputTokens": 10, "totalTokens": 30}]
    decisions = [event["value"]["stopReason"] for event in seen.events if event["type"] == "CUSTOM"]
    assert len(decisions) == 3


def test_a_second_run_on_the_thread_begins_with_what_is_stored_and_keeps_the_ids_of_the_client(front: Front) -> None:
    tab = front.tab
    first = tab.run("hello", id="u1")
    second = tab.run("tea", id="u2")
    assert second.failed is None
    assert second.types[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    assert second.types.count("MESSAGES_SNAPSHOT") == 1
    assert [message["id"] for message in second.messages][:3] == [
        "u1",
        first.messages[1]["id"],
        "u2",
    ]
    assert without_ids(second.messages) == without_ids(front.stored())


def test_a_question_interrupts_the_run_and_its_answer_replaces_the_arguments(front: Front) -> None:
    tab = front.tab
    asked = tab.run("order", id="u1")
    (question,) = asked.pending
    assert asked.types[-3:] == ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert (question["reason"], question["toolCallId"]) == ("tool_call", "call-1")
    assert question["responseSchema"]["properties"]["editedArgs"]["required"] == ["item", "packets"]
    yes = {"approved": True, "editedArgs": {"item": "tea", "packets": 2}}
    resume = [{"interruptId": question["id"], "status": "resolved", "payload": yes}]
    done = tab.run(resume=resume)
    again = tab.run(resume=resume)
    assert done.failed is None
    assert "TOOL_CALL_START" not in done.types
    assert done.one("TOOL_CALL_RESULT")["content"] == "2 packets of tea are ordered"
    assert done.contents[-1] == "I have heard: 2 packets of tea are ordered."
    assert without_ids(done.messages) == without_ids(front.stored())
    assert done.pending == []
    assert (again.failed, again.messages) == (None, done.messages)


def test_a_question_that_is_cancelled_is_a_no(front: Front) -> None:
    tab = front.tab
    (question,) = tab.run("order").pending
    done = tab.run(resume=[{"interruptId": question["id"], "status": "cancelled"}])
    assert "ana denied it" in done.one("TOOL_CALL_RESULT")["content"]


@pytest.mark.acceptance("10.3-3")
def test_a_tool_of_the_page_is_called_by_the_model_and_answered_by_the_page(front: Front) -> None:
    tab = front.tab
    tools = [{"name": "look", "description": "Look at the page.", "parameters": {"type": "object"}}]
    asked = tab.run("look", tools=tools)
    assert (asked.failed, asked.pending, asked.one("RUN_FINISHED")["outcome"]) == (None, [], {"type": "success"})
    (call,) = asked.messages[-1]["toolCalls"]
    assert (call["function"]["name"], call["function"]["arguments"]) == ("look", '{"at":"page"}')
    done = tab.run(result={"toolCallId": call["id"], "content": "tea and cake"}, tools=tools)
    assert (done.failed, done.contents[-1]) == (None, "I have heard: tea and cake.")
    assert [message["role"] for message in done.messages] == ["user", "assistant", "tool", "assistant"]
    assert without_ids(done.messages) == without_ids(front.stored())


@pytest.mark.acceptance("10.6-3")
def test_a_page_that_has_a_message_edited_or_answered_again_goes_on_with_what_it_shows(front: Front) -> None:
    tab, other = front.tab, replace(front, thread=front.thread).tab
    tab.run("hello", id="u1")
    told = tab.run("tea", id="u2")
    edited = tab.run("coffee?", id="u3", cut=2)
    assert edited.failed is None
    assert edited.one("RUN_STARTED")["threadId"] == front.thread
    assert edited.contents == ["hello", "You said: hello", "coffee?", "You said: coffee?"]
    assert [each["id"] for each in edited.messages[:3]] == ["u1", told.messages[1]["id"], "u3"]
    again = tab.run(cut=1)
    assert (again.failed, again.contents) == (None, ["hello", "You said: hello"])
    assert again.messages[1]["id"] != told.messages[1]["id"]
    assert tab.run("so?", id="u4").contents == [*again.contents, "so?", "You said: so?"]
    assert other.run(reload=True).contents == [*again.contents, "so?", "You said: so?"]
    assert [message["content"] for message in front.stored() if message["role"] == "user"] == ["hello", "tea"]


def test_a_limit_ends_a_run_with_success_and_says_so_in_the_result(front: Front) -> None:
    tab = front.tab
    seen = tab.run("for ever")
    finished = seen.one("RUN_FINISHED")
    assert (seen.failed, finished["outcome"]) == (None, {"type": "success"})
    assert finished["result"] == {
        "status": "completed",
        "stopReason": "steps_limit",
        "resolvedBy": "StepsLimit",
        "answered": False,
        "steps": 3,
    }


def test_what_a_person_stops_is_called_off_in_the_words_that_the_client_knows(front: Front) -> None:
    tab = front.tab
    tab.begin("slow", id="u1", touch=str(front.file("began")))
    until(front.file("began").exists)
    front.stop()
    seen = tab.end()
    again = tab.run(reload=True)
    for each in (seen, again):
        finished = each.one("RUN_FINISHED")
        assert each.failed is None
        assert finished.get("outcome") == front.outcome_when_called_off
        assert finished["result"]["stopReason"] == "user_requested"


def test_an_agent_that_waits_for_its_subagent_is_told_in_words_that_the_client_knows(front: Front) -> None:
    tab = front.tab
    seen = tab.run("ask the clerk", id="u1")
    assert seen.failed is None
    assert [each for each in seen.types if each.startswith("SUB")] == ["SUBAGENT_STARTED", "SUBAGENT_FINISHED"]
    assert seen.one("SUBAGENT_FINISHED")["outcome"] == {"type": "suspended"}
    finished = seen.one("RUN_FINISHED")
    assert finished.get("outcome") == front.outcome_when_called_off
    assert finished["result"]["status"] == "waiting"


def test_a_failure_is_an_error_with_our_reason_and_without_what_the_error_says(front: Front) -> None:
    tab = front.tab
    seen = tab.run("fail")
    error = seen.one("RUN_ERROR")
    assert error == {"type": "RUN_ERROR", "message": "The run failed (error).", "code": "error"}
    assert MARK not in json.dumps(seen.events)


def test_a_run_goes_on_when_its_client_goes_away_and_the_next_one_sees_it_from_there(front: Front) -> None:
    tab = front.tab
    gone = tab.run("slow", id="u1", drop="TEXT_MESSAGE_CONTENT")
    assert "RUN_FINISHED" not in gone.types
    # The reply is still being written, and goes on when the new client has seen what there is of it.
    seen = tab.run(reload=True, touch=str(front.file("go-on")))
    assert seen.failed is None
    assert seen.types[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    text = "".join(event["delta"] for event in seen.events if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert text == "slowly said: slow"
    assert seen.messages == front.stored()


def test_a_tab_that_comes_late_is_shown_the_conversation(front: Front) -> None:
    tab = front.tab
    tab.run("tea")
    seen = tab.run(reload=True)
    assert seen.types == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert seen.messages == front.stored()


def test_what_is_refused_says_why(front: Front) -> None:
    tab = front.tab
    assert "there is no such thread" in str(tab.run().failed)
    refused = tab.run("hello", tools=[{"name": "order", "description": "", "parameters": {}}])
    assert "two tools named 'order'" in str(refused.failed)
    tab = replace(front, thread="not/an/id").tab
    assert "threadId" in str(tab.run("hello").failed)
    answered = httpx.post(front.place.url, json={"threadId": front.thread, "runId": "r", "messages": []})
    assert answered.status_code == 403
