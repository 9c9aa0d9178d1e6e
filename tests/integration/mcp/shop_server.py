"""A server of the official SDK, in a process of its own: `shop_server.py DIRECTORY [--http PORT] [--legacy]`.

It writes down what reaches it, a line of JSON each, so that a test can see the other side.
"""

import argparse
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    METHOD_NOT_FOUND,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    ToolAnnotations,
)

PIXEL = b"not really a picture" * 3
directory = Path()


def note(what: str, **more: object) -> None:
    with (directory / "seen.jsonl").open("a") as file:
        file.write(json.dumps({"what": what, "pid": os.getpid(), **more}) + "\n")


def header_of(request: Any) -> str | None:
    return None if request is None else request.headers.get("x-shop")


async def watch(ctx: Any, call_next: Any) -> Any:
    if ctx.method == "server/discover" and "--legacy" in sys.argv:
        raise MCPError(METHOD_NOT_FOUND, "there is no such method")
    if ctx.method == "tools/call":
        note("call", tool=ctx.params["name"], meta=ctx.params.get("_meta", {}), header=header_of(ctx.request))
    return await call_next(ctx)


server = MCPServer("shop", log_level="WARNING", middleware=[watch])


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def stock(item: str) -> dict[str, int]:
    """Count what is left of an item."""
    return {item: {"tea": 3}.get(item, 0)}


@server.tool(name="order.place", title="Place an order")
def place(item: str, count: int = 1) -> CallToolResult:
    note("placed", item=item, count=count)
    return CallToolResult(content=[TextContent(text=f"{count} {item}"), TextContent(text="ordered")])


@server.tool(annotations=ToolAnnotations(idempotent_hint=True), structured_output=False)
def rename(item: str, name: str) -> str:
    """Rename an item."""
    return f"{item} is {name}"


@server.tool(structured_output=False)
def refuse(why: str) -> str:
    """Refuse."""
    raise ToolError(why)


@server.tool()
def picture() -> CallToolResult:
    """Show an item."""
    data = base64.b64encode(PIXEL).decode()
    return CallToolResult(
        content=[
            TextContent(text="a cup"),
            ImageContent(data=data, mime_type="image/png"),
            EmbeddedResource(resource=BlobResourceContents(uri="shop://cup", blob=data)),
            ResourceLink(uri="shop://cup/more", name="more"),
        ]
    )


@server.tool(structured_output=False)
async def count_up(to: int, ctx: Context) -> str:
    """Count."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "counted"


@server.tool(structured_output=False)
async def hang() -> str:
    """Never end."""
    note("hanging")
    try:
        await anyio.sleep_forever()
    finally:
        note("cancelled")
    return "never"


@server.tool(structured_output=False)
def die() -> str:
    """End the server."""
    note("dying")
    os._exit(3)


async def a_page_at_a_time(ctx: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
    tools = await server.list_tools()
    cursor = int(params.cursor) if params and params.cursor else 0
    following = str(cursor + 1) if cursor + 1 < len(tools) else None
    # In another order than by name, as a server may have it.
    return ListToolsResult(tools=[tools[::-1][cursor]], next_cursor=following)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--http", type=int)
    parser.add_argument("--legacy", action="store_true")
    given = parser.parse_args()
    directory = given.directory
    note("started", secret=os.environ.get("SHOP_SECRET"))
    below = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
    below.add_request_handler("tools/list", PaginatedRequestParams, a_page_at_a_time)
    if given.http is None:
        server.run("stdio")
    else:
        server.run("streamable-http", port=given.http)
