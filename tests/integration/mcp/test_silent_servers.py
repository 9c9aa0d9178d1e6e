"""Servers with a session that take a connection, and then say nothing."""

import asyncio
import json
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import pytest

from steptrail.infrastructure.mcp import dialling
from steptrail.infrastructure.mcp.errors import McpServerUnavailable
from steptrail.runtime.agent.tool_port import ToolSucceeded, ToolTimedOut
from steptrail.tools.mcp import McpServer
from tests.integration.mcp.shop import call


@asynccontextmanager
async def server_silent_on(methods: Collection[str]) -> AsyncGenerator[str]:
    """Yield the address of a server that answers all but these methods, of its protocol or of HTTP."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length: ")[2].partition("\r")[0] or 0)
            asked = json.loads(await reader.readexactly(length) or json.dumps({"method": head.split()[0]}))
            if asked["method"] in {*methods, "GET"}:
                await reader.read()  # until the client has gone
                return
            body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), **_told(asked)})
            status = "200 OK" if "id" in asked else "202 Accepted"
            told = f"Content-Type: application/json\r\nMcp-Session-Id: s\r\nContent-Length: {len(body)}"
            writer.write(f"HTTP/1.1 {status}\r\n{told}\r\nConnection: close\r\n\r\n{body}".encode())
            await writer.drain()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        host, port = listening.sockets[0].getsockname()
        yield f"http://{host}:{port}/mcp"


def _told(asked: dict[str, Any]) -> dict[str, Any]:
    match asked["method"]:
        case "initialize":
            server = {"name": "shop", "version": "1"}
            version = asked["params"]["protocolVersion"]
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}}
        case "tools/list":
            return {"result": {"tools": [{"name": "order", "inputSchema": {"type": "object"}}]}}
        case "tools/call":
            return {"result": {"content": [{"type": "text", "text": "ordered"}]}}
        case _:
            return {"error": {"code": -32601, "message": "no such method"}}


@pytest.fixture(autouse=True)
def impatient_with_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialling, "_TELL_SECONDS", 0.1)


@pytest.mark.timeout(60)
async def test_a_server_that_does_not_take_a_cancellation_is_called_again() -> None:
    silent = {"tools/call", "notifications/cancelled"}
    async with server_silent_on(silent) as url, McpServer.http(url) as server:
        first = await call(server, "order", timeout=0.1)
        silent.remove("tools/call")
        second = await call(server, "order", timeout=None)
    assert isinstance(first, ToolTimedOut)
    assert isinstance(second, ToolSucceeded)


@pytest.mark.timeout(60)
async def test_a_server_that_does_not_hear_that_we_go_is_left() -> None:
    async with server_silent_on({"DELETE"}) as url:
        async with McpServer.http(url) as server:
            assert isinstance(await call(server, "order"), ToolSucceeded)
        assert not server.is_connected


@pytest.mark.timeout(60)
async def test_a_server_that_falls_silent_while_it_is_connected_to_cannot_be_reached() -> None:
    async with server_silent_on({"tools/list", "DELETE"}) as url:
        with pytest.raises(McpServerUnavailable, match=r"no answer within 0\.5 seconds"):
            await McpServer.http(url, connect_timeout=0.5).__aenter__()
