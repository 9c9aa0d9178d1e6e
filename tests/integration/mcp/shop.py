"""A shop that speaks MCP: a process on its standard streams, or one behind an address, and what it has seen."""

import json
import socket
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from steptrail.domain.failures import ErrorType
from steptrail.runtime.agent.capture import capture
from steptrail.runtime.agent.tool_port import Report, ToolContext, ToolOutcome
from steptrail.tools.mcp import McpOptions, McpServer, McpTool
from tests.harness.ready_python import KILL, ready_python

_PROGRAM = str(Path(__file__).with_name("shop_server.py"))
_LONGEST_SECONDS = 60


class Shop:
    """The other side, and the ways to it."""

    def __init__(self, folder: Path, way: str) -> None:
        self.folder, self.way = folder, way
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/mcp"
        self._extra = ["--legacy"] if way == "legacy" else []
        if way != "stdio":
            self.open()

    def server(self, **options: Unpack[McpOptions]) -> McpServer:
        if self.way == "stdio":
            env = {"SHOP_SECRET": "tea leaves"}
            return McpServer.stdio(ready_python(), [_PROGRAM, str(self.folder)], env=env, **options)
        return McpServer.http(self.url, {"X-Shop": "tea"}, **options)

    def open(self) -> None:
        """Start the process behind the address; on standard streams the client does."""
        line = [ready_python(), _PROGRAM, str(self.folder), "--http", str(self._port), *self._extra]
        self._process = subprocess.Popen(line)
        until = time.monotonic() + _LONGEST_SECONDS
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the server does not come up")

    def close(self) -> None:
        if self._process is not None:
            self._process.send_signal(KILL)
            self._process.wait()

    def seen(self, what: str) -> list[dict[str, Any]]:
        path = self.folder / "seen.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["what"] == what]


async def call(
    server: McpServer,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    effect_id: str = "e-1",
    timeout: float | None = 60.0,
    report: Report | None = None,
) -> ToolOutcome:
    """Call a tool by its server's name, as the runner does."""
    context = ToolContext(
        effect_id=effect_id, session_id="a", execution_id="x", step=1, call_id="c", attempt=1, report=report
    )
    classify = partial(capture, default=ErrorType.TOOL, now=0.0)
    return await by_name(server)[tool].run(arguments or {}, None, context, timeout=timeout, capture=classify)


def by_name(server: McpServer) -> dict[str, McpTool]:
    return {tool.remote_name: tool for tool in server.tools}
