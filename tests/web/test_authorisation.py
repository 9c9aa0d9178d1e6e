"""The hook that says who may see a session, and what is said without it: nothing."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from steptrail import Steptrail
from steptrail.broadcasting import BroadcastConfig
from steptrail.broadcasting.asgi import event_stream
from steptrail.errors import ConfigurationError, MissingExtra
from tests.web.served import agent_with

Answer = Callable[[HTTPConnection, str], Any]


async def asked(answer: Answer, *paths: str, config: BroadcastConfig | None = None) -> list[httpx.Response]:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent_with(), "Where is the tea?", session="told")
        transport = httpx.ASGITransport(event_stream(trail, authorize=answer, config=config))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return [await client.get(path) for path in paths]


def says(answer: object) -> Answer:
    def hook(connection: HTTPConnection, session: str) -> object:
        assert connection.path_params["session"] == session
        return answer() if callable(answer) else answer

    return hook


async def late(answer: object) -> object:
    await asyncio.sleep(0)
    return answer


@pytest.mark.parametrize("answer", [False, None, 1, "yes", object()])
@pytest.mark.parametrize("is_async", [False, True])
async def test_anything_but_true_is_a_no(answer: object, is_async: bool) -> None:
    paths = ["/sessions/told/events", "/sessions/told/conversation"]
    refused = await asked(says((lambda: late(answer)) if is_async else answer), *paths)
    assert [(each.status_code, each.json()) for each in refused] == [(403, {"error": "forbidden"})] * 2


async def test_a_hook_that_waits_may_say_yes_and_is_asked_each_time_with_the_request_and_the_session() -> None:
    seen: list[tuple[str, str]] = []

    def look(connection: HTTPConnection, session: str) -> Awaitable[object]:
        seen.append((connection.url.path, session))
        return late(True)

    paths = ["/sessions/told/conversation", "/sessions/other/events", "/sessions/told/conversation"]
    assert [each.status_code for each in await asked(look, *paths)] == [200, 404, 200]
    assert seen == [(paths[0], "told"), (paths[1], "other"), (paths[2], "told")]


async def test_the_conversation_shows_no_more_than_the_messages() -> None:
    (open_one,) = await asked(says(True), "/sessions/told/conversation")
    assert b"attic'" in open_one.content
    assert b'three boxes of tea"' in open_one.content
    (closed,) = await asked(
        says(True), "/sessions/told/conversation", config=BroadcastConfig(include_tool_summaries=False)
    )
    assert b"attic'" not in closed.content
    assert b'three boxes of tea"' not in closed.content


@pytest.mark.parametrize(
    ("scheme", "origin", "is_ours"),
    [
        ("wss", "https://here", True),
        ("wss", "http://here", False),
        ("ws", "http://here", True),
        ("ws", "https://here", True),  # behind a proxy that ends TLS and does not say so
        ("wss", "https://elsewhere", False),
        ("wss", "https://here:444", False),
        ("wss", "null", False),
        ("ws", "http://[", False),
        ("ws", "http://[here", False),
        ("wss", "https://app.example.com", True),
        ("wss", "http://app.example.com", False),
    ],
)
async def test_a_page_without_tls_opens_no_socket_of_a_service_with_it(scheme: str, origin: str, is_ours: bool) -> None:
    sent: list[str] = []
    coming = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}]

    async def receive() -> Any:
        return coming.pop(0) if coming else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent_with(), "Where is the tea?", session="told")
        app = event_stream(trail, authorize=says(True), origins=["https://app.example.com"])
        headers = [(b"host", b"here"), (b"origin", origin.encode())]
        where = {"type": "websocket", "scheme": scheme, "path": "/sessions/told/events", "query_string": b""}
        await app({**where, "headers": headers, "subprotocols": []}, receive, send)
    assert sent[0] == ("websocket.accept" if is_ours else "websocket.close")


async def test_a_heartbeat_that_never_comes_is_refused() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        for never in (0, -1, float("inf")):
            with pytest.raises(ConfigurationError, match="heartbeat_seconds"):
                event_stream(trail, authorize=says(True), heartbeat_seconds=never)


async def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sse_starlette", None)
    async with Steptrail.open("sqlite:///:memory:") as trail:
        with pytest.raises(MissingExtra, match=r"steptrail\[web\]"):
            event_stream(trail, authorize=says(True))


async def test_a_hook_that_fails_lets_nobody_in_and_the_log_says_why_without_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def away(*_: object) -> bool:
        raise ConnectionError("the directory is away, api_key=abcdef123456")

    paths = ["/sessions/told/events", "/sessions/told/conversation"]
    answered = await asked(away, *paths)
    assert [(each.status_code, each.json()) for each in answered] == [(500, {"error": "internal server error"})] * 2
    assert "the directory is away, api_key=…" in caplog.text
    assert "abcdef123456" not in caplog.text


async def test_an_answer_of_its_own_that_the_hook_raises_is_given() -> None:
    def login(*_: object) -> bool:
        raise HTTPException(401, "Who are you?", {"www-authenticate": "Basic"})

    (answered,) = await asked(login, "/sessions/told/events")
    assert (answered.status_code, answered.headers["www-authenticate"]) == (401, "Basic")
