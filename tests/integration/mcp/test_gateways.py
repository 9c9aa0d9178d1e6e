"""Servers behind a gateway that puts something of its own in the place of their answer to a call."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from steptrail.infrastructure.mcp.errors import McpServerUnavailable
from steptrail.runtime.agent.tool_port import ToolFailed
from steptrail.tools import ToolEffect, ToolRetry
from steptrail.tools.mcp import McpServer, McpToolSettings
from tests.integration.mcp.shop import call

_JSON, _ENDLESS = "application/json", "text/endless"
_NO_ANSWERS = [
    ("502 Bad Gateway", "text/html", "<html>"),
    ("503 Service Unavailable", _ENDLESS, "<html>"),
    ("504 Gateway Timeout", _JSON, '{"error": "too late"}'),
    ("200 OK", "text/html", "<html>"),
    ("200 OK", _JSON, '{"jsonrpc": "2.0", "id'),
    ("200 OK", "text/event-stream", "data: {\n\n"),
    ("202 Accepted", _JSON, ""),
    ("200 OK", _JSON, '{"jsonrpc": "2.0", "id": ID, "result": {"content": 5}}'),
]
_REFUSED = ("400 Bad Request", _JSON, '{"jsonrpc": "2.0", "id": ID, "error": {"code": -32603, "message": "closed"}}')


def _usual(asked: dict[str, Any]) -> tuple[str, str, str]:
    told: dict[str, Any] = {"error": {"code": -32601, "message": "no such method"}}
    if asked["method"] == "initialize":
        server = {"name": "shop", "version": "1"}
        version = asked["params"]["protocolVersion"]
        told = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}}
    elif asked["method"] == "tools/list":
        told = {"result": {"tools": [{"name": "order", "inputSchema": {"type": "object"}}]}}
    return "200 OK", _JSON, json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), **told})


@asynccontextmanager
async def gateway(
    answer: tuple[str, str, str], *, is_at: str = "/mcp", to: Sequence[str] = ("tools/call",)
) -> AsyncGenerator[str]:
    """Yield the address of a server that gives this answer `to` calls: a status, a type and a body.

    It redirects the requests for that address to the path where it is. A body of the type `_ENDLESS` never ends.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r")[0] or 0)
            asked = json.loads(await reader.readexactly(length) or b'{"method": ""}')
            status, kind, body = answer if asked["method"] in to else _usual(asked)
            body = body.replace("ID", str(asked.get("id")))
            if head.split()[1] != is_at:
                status, kind, body = f"307 Temporary Redirect\r\nLocation: {is_at}", "text/plain", ""
            length = len(body) + (kind == _ENDLESS)
            told = f"Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close"
            writer.write(f"HTTP/1.1 {status}\r\n{told}\r\n\r\n{body}".encode())
            await writer.drain()
            if kind == _ENDLESS:
                await reader.read()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        host, port = listening.sockets[0].getsockname()
        yield f"http://{host}:{port}/mcp"


async def ordered(url: str, effect: ToolEffect) -> ToolFailed:
    settings = {"order": McpToolSettings(effect=effect, retry=ToolRetry(attempts=2))}
    async with McpServer.http(url, settings=settings) as server:
        outcome = await call(server, "order", timeout=30.0)
    assert isinstance(outcome, ToolFailed)
    return outcome


@pytest.mark.parametrize("answer", _NO_ANSWERS, ids=lambda answer: " ".join(answer[:2]))
async def test_an_unsafe_call_without_a_readable_answer_may_have_run_and_is_not_tried_again(
    answer: tuple[str, str, str],
) -> None:
    async with gateway(answer) as url:
        unsafe, again = await ordered(url, ToolEffect.UNSAFE), await ordered(url, ToolEffect.IDEMPOTENT)
    assert "whether the call took effect is unknown" in unsafe.error.message
    assert "\n" not in unsafe.error.message
    assert answer[0].startswith("20") or answer[0] in unsafe.error.message
    assert (unsafe.may_retry, again.may_retry) == (False, True)


async def test_a_call_that_is_refused_has_not_run_and_may_be_tried_again() -> None:
    async with gateway(_REFUSED) as url:
        refused = await ordered(url, ToolEffect.UNSAFE)
    assert refused.error.message.endswith("refused the call: closed")
    assert refused.may_retry


async def test_a_server_that_redirects_to_the_path_where_it_is_is_reached() -> None:
    async with gateway(_REFUSED, is_at="/mcp/") as url:
        assert (await ordered(url, ToolEffect.READ)).error.message.endswith("refused the call: closed")


async def test_a_server_that_takes_no_such_key_is_named_with_what_it_says() -> None:
    refused = ("401 Unauthorized", _JSON, '{"error": "invalid_token"}')
    async with gateway(refused, to=["initialize", "server/discover"]) as url:
        with pytest.raises(McpServerUnavailable, match=r"cannot be reached: .* 401 Unauthorized$"):
            async with McpServer.http(url, {"Authorization": "Bearer tea"}):
                pass
