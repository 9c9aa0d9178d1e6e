"""The two ways to a server: a process of our own that speaks on its standard streams, and an address."""

import asyncio
import codecs
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TextIO

import orjson

from steptrail.domain.kernel.given import a_mapping, a_row, a_text
from steptrail.infrastructure.bounded_http import ASKS_FOR, MOST_BYTES, bounded, certificates
from steptrail.infrastructure.mcp.connection import Dial

CODEC: Final = "steptrail_lines"
"""The name of the codec: UTF-8, line by line."""

refusing: ContextVar[Callable[[Exception], None]] = ContextVar("refusing")
"""The function that is told of a line that is too long, in the task that reads and in the one that began it."""


class _WholeLines(codecs.IncrementalDecoder):
    """Decodes UTF-8 into whole lines. After one that is too long it decodes nothing more.

    The SDK collects a line however long it is, and decodes what it reads with a codec that it is told the name of.
    """

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._begun, self._is_over = bytearray(), False

    def decode(self, input: bytes, final: bool = False) -> str:  # type: ignore[override]  # noqa: A002 - of the class
        """Return the lines that have ended. When all has been read the last one need not end."""
        if self._is_over:
            return ""
        self._begun += input
        end = len(self._begun) if final else self._begun.rfind(b"\n", len(self._begun) - len(input)) + 1
        if len(self._begun) - end > MOST_BYTES:
            self._is_over = True
            self._begun.clear()
            refusing.get()(ValueError(f"it wrote a line of more than {MOST_BYTES:,} bytes"))
            return ""
        lines = bytes(self._begun[:end])
        del self._begun[:end]
        return lines.decode("utf-8", self.errors)


def _find(name: str) -> codecs.CodecInfo | None:
    if name != CODEC:
        return None
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_WholeLines, name=CODEC)


codecs.register(_find)


if TYPE_CHECKING:
    from httpx2 import Request, Response
    from mcp.client._transport import TransportStreams

_CONNECT_SECONDS = 30.0
_TELL_SECONDS = 5.0
"""For a server to take what it is told and need not answer."""


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
            encoding_error_handler="replace",  # else one byte that is no UTF-8 would have nothing more read
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

        class Client(httpx2.AsyncClient):
            async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
                if await _wants_an_answer(request):
                    return await _told(await super().send(request, **options))
                # The SDK sends nothing else meanwhile, and closes nothing.
                try:
                    async with asyncio.timeout(_TELL_SECONDS):
                        response = await super().send(request, **options)
                        await response.aread()
                        return response
                except TimeoutError:
                    return httpx2.Response(HTTPStatus.ACCEPTED, request=request)

        async with (
            Client(headers=sent, timeout=timeout, event_hooks=hooks, verify=certificates()) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=MOST_BYTES) as streams,
        ):
            yield streams

    return dial


async def _told(response: "Response") -> "Response":
    """Return a response that says its status in words, where no server's answer does: the SDK tells nobody of it."""
    is_known = not response.is_error or response.status_code == HTTPStatus.NOT_FOUND
    is_json = response.headers.get("content-type", "").lower().startswith("application/json")
    if is_known or (is_json and b'"jsonrpc"' in await response.aread()):
        return response
    await response.aclose()  # nobody reads what a gateway says instead, which may have no end
    why = f"Server returned an error response: {response.status_code} {response.reason_phrase}"
    told = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": why}}
    return type(response)(response.status_code, json=told, request=response.request)


async def _wants_an_answer(request: "Request") -> bool:
    """Tell a call, or the wait for what a server says unasked, from what a server is told: to cancel, or that we go."""
    if request.method == "POST":
        message = orjson.loads(await request.aread())  # a request that was sent on to another path is not read yet
        return "method" in message and "id" in message
    return request.method == "GET"


def _texts_by_name(given: Mapping[str, str], what: str) -> dict[str, str]:
    texts = a_mapping(given, what).items()
    return {a_text(name, f"a name among {what}"): a_text(text, f"{name!r} of {what}") for name, text in texts}


def _stderr(stack: ExitStack) -> TextIO:
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # a notebook's, or none at all
        return stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
    return sys.stderr
