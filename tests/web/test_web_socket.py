"""The event stream over a real WebSocket: the same messages, one text each."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from steptrail import Steptrail
from steptrail.broadcasting.asgi import event_stream
from tests.web.served import agent_with
from tests.web.serving import AS_ANA, Served, bodies_of, ended, is_heartbeat, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), "--gated") as running:
        yield running


@pytest.fixture(scope="module")
def told(served: Served) -> list[dict[str, Any]]:
    with Steptrail.open_sync(served.store) as trail:
        trail.run(agent_with(), "Where is the tea?", session="told")
    return [body for _, body in bodies_of(served.store, "told")]


def received(socket: ClientConnection, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < count:
        body = json.loads(socket.recv(timeout=60))
        found += [] if is_heartbeat(body) else [body]
    return found


def is_written(body: dict[str, Any]) -> bool:
    return bool(body["event"] == "agent.stream.chunk")


def test_from_every_message_the_rest_comes_and_nothing_else(served: Served, told: list[dict[str, Any]]) -> None:
    for place in range(len(told)):
        after = told[place - 1]["sequence"] if place else ""
        with connect(served.socket_url("told", after), additional_headers=AS_ANA) as socket:
            assert received(socket, len(told) - place) == told[place:]
    with connect(served.socket_url("told", told[-1]["sequence"]), additional_headers=AS_ANA) as socket:
        socket.send("nobody listens to this")
        assert [is_heartbeat(json.loads(socket.recv(timeout=60))) for _ in range(3)] == [True] * 3


def test_who_says_more_than_a_line_or_two_is_sent_away(served: Served, told: list[dict[str, Any]]) -> None:
    with connect(served.socket_url("told", told[-1]["sequence"]), additional_headers=AS_ANA) as socket:
        with suppress(ConnectionClosed):  # the line may end while the rest is still being said
            for _ in range(5):
                socket.send("x" * 20_000)
        with pytest.raises(ConnectionClosed):
            received(socket, 1)


@pytest.mark.parametrize("refused", ["websocket.send", "websocket.close"])
async def test_a_server_that_has_hung_up_and_takes_no_more_of_us_leaves_no_traceback(refused: str) -> None:
    # So does uvicorn on a client whose bytes are no WebSocket, and on one whose line broke without a word.
    sent: list[str] = []
    coming: list[dict[str, Any]] = [{"type": "websocket.connect"}]
    if refused == "websocket.close":
        coming.append({"type": "websocket.disconnect", "code": 1006})

    async def receive() -> Any:
        return coming.pop(0) if coming else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message["type"])
        if message["type"] == refused:
            raise RuntimeError(f"Unexpected ASGI message '{refused}', after sending 'websocket.close'.")

    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent_with(), "Where is the tea?", session="told")
        app = event_stream(trail, authorize=lambda _, __: True)
        where = {"type": "websocket", "path": "/sessions/told/events", "query_string": b""}
        await app({**where, "headers": [], "subprotocols": []}, receive, send)
    assert (sent[0], sent[-1]) == ("websocket.accept", refused)
    assert sent.count(refused) == 1


def test_text_comes_as_it_is_written(served: Served) -> None:
    served.say("live")
    served.go(2)
    served.has("live")
    with connect(served.socket_url("live"), additional_headers=AS_ANA) as socket:
        seen = received(socket, 1)
        while "".join(body["data"]["content"] for body in seen if is_written(body)) != "Let me ":
            seen += received(socket, 1)
        served.go()
        while seen[-1]["data"].get("status") != "completed":
            seen += received(socket, 1)
    assert [body for body in seen if not is_written(body)] == [body for _, body in bodies_of(served.store, "live")]


@pytest.mark.parametrize(
    ("session", "headers"),
    [
        ("told", {}),
        ("told", {"x-user": "bob"}),
        ("nobody", AS_ANA),
        ("told", {**AS_ANA, "origin": "https://elsewhere.example"}),
    ],
)
def test_who_may_not_and_pages_of_others_are_refused_before_anything_is_said(
    served: Served, told: list[dict[str, Any]], session: str, headers: dict[str, str]
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        connect(served.socket_url(session, told[0]["sequence"]), additional_headers=headers)
    assert refused.value.response.status_code == 403


def test_a_page_of_ours_is_let_in(served: Served, told: list[dict[str, Any]]) -> None:
    with connect(served.socket_url("told"), additional_headers={**AS_ANA, "origin": served.url}) as socket:
        assert received(socket, len(told)) == told


def test_a_server_that_is_asked_to_end_closes_the_socket(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory.mktemp("ending")) as ending:
        ending.say("s")
        told = ended(ending.store, "s")
        with connect(ending.socket_url("s"), additional_headers=AS_ANA) as socket:
            assert received(socket, len(told)) == [body for _, body in told]
            ending.process.send_signal(signal.SIGTERM)
            with pytest.raises(ConnectionClosed):
                received(socket, 1)
        assert ending.process.wait(60) in (0, -signal.SIGTERM)
