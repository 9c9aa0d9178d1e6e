"""The event stream over real HTTP: what a reader gets who comes, comes again, is slow, may not, or stays to the end."""

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.testing import ScriptedModel, calls
from tests.web.served import agent_with, look
from tests.web.serving import AS_ANA, Heard, Served, bodies_of, ended, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(scope="module")
def told(served: Served) -> list[tuple[str, dict[str, Any]]]:
    """The messages of a session of two executions that is stored."""
    with Steptrail.open_sync(served.store) as trail:
        trail.run(agent_with(), "Where is the tea?", session="told")
        trail.session("told").send(agent_with(), "Thank you.")
    return list(bodies_of(served.store, "told"))


def is_end(message: Heard) -> bool:
    return message.data is not None and message.data["data"].get("status") == "completed"


def durable(messages: list[Heard]) -> list[tuple[str | None, Any]]:
    return [(each.id, each.data) for each in messages if each.id is not None]


def test_from_every_id_the_rest_comes_and_nothing_else(served: Served, told: list[tuple[str, dict[str, Any]]]) -> None:
    assert len(told) > 15
    assert durable(served.messages("told", len(told))) == told
    for place, (id_, _) in enumerate(told):
        rest = told[place + 1 :]
        assert durable(served.messages("told", len(rest), after=id_)) == rest


def test_a_reader_may_begin_after_the_conversation_that_it_has(
    served: Served, told: list[tuple[str, dict[str, Any]]]
) -> None:
    with Steptrail.open_sync(served.store) as trail:
        versions = range(trail.session("told").state().version + 1)
    for version in [*versions[::5], versions[-1]]:
        rest = [(id_, body) for id_, body in told if int(id_.split(".")[0]) > version]
        with (
            served.client as client,
            client.stream("GET", "/agent/sessions/told/events", params={"after": version}) as answered,
        ):
            first = next(answered.iter_lines())
            assert first == "retry: 200"
        assert durable(served.messages("told", len(rest), after=str(version))) == rest


def test_a_place_that_the_session_has_not_come_to_is_answered_with_everything(
    served: Served, told: list[tuple[str, dict[str, Any]]]
) -> None:
    assert durable(served.messages("told", len(told), after="999.1")) == told


@pytest.mark.parametrize("cut_after", [1, 2, 3, 5])
def test_who_is_cut_off_while_another_process_runs_misses_nothing_and_gets_nothing_twice(
    served: Served, cut_after: int
) -> None:
    session = f"cut-{cut_after}"

    async def ran() -> None:
        async with Steptrail.open(served.store) as trail:
            await trail.run(agent_with(), "Where is the tea?", session=session)

    running = threading.Thread(target=lambda: asyncio.run(ran()))
    running.start()
    served.has(session)
    seen: list[Heard] = []
    while not seen or not is_end(seen[-1]):
        last = seen[-1].id if seen else None
        with served.stream(session, after=last or "") as stream:
            for each in islice((each for each in stream if each.id), cut_after):
                seen.append(each)
                if is_end(each):
                    break
    running.join()
    assert durable(seen) == bodies_of(served.store, session)


def test_text_is_shown_as_it_is_written_and_never_after_the_message_that_ends_its_step(tmp_path: Path) -> None:
    with serving(tmp_path, "--gated") as gated:
        gated.say("s")
        gated.go(3)
        gated.has("s")
        with gated.stream("s") as stream:
            seen: list[Heard] = []
            while "".join(chunks(seen, step=1)) != "Let me look ":
                seen.append(next(stream))
            gated.go()
            for each in stream:
                seen.append(each)
                if is_end(each):
                    break
        assert durable(seen) == list(bodies_of(gated.store, "s"))
        assert "".join(chunks(seen, step=1)) == "Let me look in the attic first."
        assert "".join(chunks(seen, step=3)).startswith("There are three boxes")
        for step in (1, 3):
            kinds = [(each.data["event"], each.data["data"].get("step_number")) for each in seen if each.data]
            written = [i for i, kind in enumerate(kinds) if kind == ("agent.stream.chunk", step)]
            assert kinds.index(("agent.step.started", step)) < written[0]
            assert written[-1] < kinds.index(("agent.step.completed", step))
        assert all(each.id is None for each in seen if each.data and each.data["event"] == "agent.stream.chunk")


def chunks(seen: list[Heard], *, step: int) -> list[str]:
    told = [each.data for each in seen if each.data and each.data["event"] == "agent.stream.chunk"]
    return [each["data"]["content"] for each in told if each["data"]["step_number"] == step]


def test_a_reader_that_does_not_read_holds_up_nobody_and_gets_it_all_in_the_end(served: Served) -> None:
    with Steptrail.open_sync(served.store) as trail:
        trail.run(agent_with(), "Where is the tea?", session="slow")
        before = bodies_of(served.store, "slow")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(
            b"GET /agent/sessions/slow/events HTTP/1.1\r\nHost: 127.0.0.1\r\nx-user: ana\r\nConnection: close\r\n\r\n"
        )
        for turn in range(2, 42):
            served.say("slow", "Thank you.")
            ended(served.store, "slow", turn)
        told = bodies_of(served.store, "slow")
        assert len(told) > len(before) + 100
        last = f"id: {told[-1][0]}\n".encode()
        got = bytearray()
        while last not in got:
            got += slow.recv(65536)
    numbers = [line.removeprefix(b"id: ").decode() for line in got.split(b"\n") if line.startswith(b"id: ")]
    assert numbers == [id_ for id_, _ in told]


def test_a_server_that_is_asked_to_end_ends_its_streams_in_order(tmp_path: Path) -> None:
    with serving(tmp_path) as ending:
        ending.say("s")
        ended(ending.store, "s")
        with ending.stream("s") as stream:
            seen = list(islice((each for each in stream if each.data), 1))
            ending.process.send_signal(signal.SIGTERM)
            seen += stream  # raises when the line breaks off
            assert durable(seen) == list(bodies_of(ending.store, "s"))
        assert ending.process.wait(60) in (0, -signal.SIGTERM)


def test_a_server_with_a_time_for_its_end_waits_no_longer_for_a_reader_that_does_not_read(tmp_path: Path) -> None:
    with serving(tmp_path, "--graceful", "3") as ending:
        with Steptrail.open_sync(ending.store) as trail:
            model = ScriptedModel([calls(*[("look", {"where": "attic"})] * 100)] * 15 + ["Nowhere."])
            trail.run(AgentBuilder("keeper").with_model(model).with_tools(look).build(), "Look.", session="slow")
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            slow.connect(("127.0.0.1", ending.port))
            slow.sendall(b"GET /agent/sessions/slow/events HTTP/1.1\r\nHost: 127.0.0.1\r\nx-user: ana\r\n\r\n")
            while len(slow.recv(65536, socket.MSG_PEEK)) < 2000:
                ending.has("slow")  # the server has a turn
            for _ in range(10):
                ending.has("slow")
            assert ending.ends_with(signal.SIGTERM) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("path", ["events", "conversation"])
@pytest.mark.parametrize("after", ["", "1.1"])
def test_who_may_not_learns_nothing_and_who_may_that_there_is_no_session(
    served: Served, told: list[tuple[str, dict[str, Any]]], path: str, after: str
) -> None:
    assert told
    headers = {"Last-Event-ID": after} if after else {}

    def answered(session: str, user: str) -> httpx.Response:
        return httpx.get(f"{served.url}/agent/sessions/{session}/{path}", headers={**headers, "x-user": user})

    missing = answered("nobody", "ana")
    assert (missing.status_code, missing.json()) == (404, {"error": "not found"})
    assert missing.headers["cache-control"] == "no-store"  # or a proxy says so when the session has begun
    answers = [
        answered(session, user)
        for session, user in [("told", "bob"), ("told", ""), ("nobody", "bob"), ("no%20id", "ana")]
    ]
    assert {(each.status_code, each.content) for each in answers} == {(403, b'{"error":"forbidden"}')}
    assert len({tuple(sorted((k, v) for k, v in each.headers.items() if k != "date")) for each in answers}) == 1


@pytest.mark.parametrize("after", ["x", "1.2.3", "-1", "1e3", "٣"])
def test_what_is_no_id_is_said_to_be_none(served: Served, told: list[tuple[str, dict[str, Any]]], after: str) -> None:
    assert told
    answered = httpx.get(f"{served.url}/agent/sessions/told/events", params={"after": after}, headers=AS_ANA)
    assert answered.status_code == 400


def test_who_asks_for_the_head_of_a_stream_leaves_a_line_that_is_of_use(
    served: Served, told: list[tuple[str, dict[str, Any]]]
) -> None:
    assert told
    with served.client as client:  # as a proxy does, on a line that it keeps for everybody
        head = client.head("/agent/sessions/told/events")
        assert head.headers["cache-control"] == "no-store, no-transform"
        assert client.get("/agent/sessions/told/conversation").status_code == 200


def test_the_conversation_is_the_stored_one(served: Served, told: list[tuple[str, dict[str, Any]]]) -> None:
    assert told
    answered = httpx.get(f"{served.url}/agent/sessions/told/conversation", headers=AS_ANA)
    assert answered.headers["cache-control"] == "no-store"
    shown = answered.json()
    assert [each["role"] for each in shown["messages"]] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant"),
        *("user", "assistant"),
    ]
    assert shown["last_response"] == "You are welcome."


def test_anybody_gets_the_client_that_belongs_to_the_server_and_asks_for_it_anew(served: Served) -> None:
    answered = httpx.get(f"{served.url}/agent/steptrail.js", timeout=60)
    assert answered.status_code == 200
    assert answered.headers["content-type"].startswith("text/javascript")
    assert answered.headers["cache-control"] == "no-cache"
    assert "export class SteptrailSession" in answered.text
