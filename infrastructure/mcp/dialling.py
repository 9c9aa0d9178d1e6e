"""The two ways to a server: a process of our own that speaks on its standard streams, and an address."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TextIO

from steptrail.domain.kernel.given import a_mapping, a_row, a_text
from steptrail.infrastructure.bounded_http import ASKS_FOR, MOST_BYTES, bounded, certificates
from steptrail.infrastructure.mcp.connection import Dial
from steptrail.infrastructure.mcp.lines import CODEC, refusing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcp.client._transport import TransportStreams

_CONNECT_SECONDS = 30.0


def stdio_dial(
    command: str, args: Sequence[str], env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None
) -> Dial:
    """Return what starts the command; its standard error is ours. Raises `ConfigurationError` for what is no text."""
    words = [a_text(each, "an argument of an MCP server") for each in a_row(args, "the arguments of an MCP server")]
    variables = None if env is None else _texts_by_name(env, "the variables of an MCP server")

    @asynccontextmanager
    async def dial(refuse: Callable[[Exception], None]) -> "AsyncGenerator[TransportStreams]":
        from mcp import StdioServerParameters, stdio_client

        server = StdioServerParameters(
            command=command,
            args=words,
            env=variables,
            cwd=None if cwd is None else os.fspath(cwd),
            encoding=CODEC,
        )
        refusing.set(refuse)
        with ExitStack() as stack:
            async with stdio_client(server, errlog=_stderr(stack)) as streams:
                yield streams

    return dial


def http_dial(url: str, headers: Mapping[str, str] | None) -> Dial:
    """Return what opens the address, with these headers on every request. Raises `ConfigurationError` as above."""
    sent = {**ASKS_FOR, **_texts_by_name(headers or {}, "the headers of an MCP server")}

    @asynccontextmanager
    async def dial(refuse: Callable[[Exception], None]) -> "AsyncGenerator[TransportStreams]":
        del refuse  # a response that is too long raises where it is read
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        # How long a call may take is its tool's business: a server that says nothing may be at work.
        timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None)
        hooks = {"response": [bounded(httpx2.DecodingError, with_streams=False)]}
        async with (
            httpx2.AsyncClient(headers=sent, timeout=timeout, event_hooks=hooks, verify=certificates()) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=MOST_BYTES) as streams,
        ):
            yield streams

    return dial


def _texts_by_name(given: Mapping[str, str], what: str) -> dict[str, str]:
    texts = a_mapping(given, what).items()
    return {a_text(name, f"a name among {what}"): a_text(text, f"{name!r} of {what}") for name, text in texts}


def _stderr(stack: ExitStack) -> TextIO:
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # a notebook's, or none at all
        return stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
    return sys.stderr
