"""One connection to a server, and the task that owns it.

The SDK's scopes must be left by the task that entered them, while calls come from many: so a task of its own opens the
connection, holds it and closes it, and notices when the server is gone.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from steptrail.domain.exception_words import words_of
from steptrail.domain.version import VERSION
from steptrail.infrastructure.mcp.answering import read_again
from steptrail.infrastructure.mcp.errors import McpCallFailed, McpServerUnavailable
from steptrail.infrastructure.mcp.listing import fault_of, without_unreadable
from steptrail.runtime.kernel.cancellation import wait_to_the_end

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.shared.message import SessionMessage
    from mcp_types import CallToolResult, RequestParamsMeta, Tool

Dial: TypeAlias = "Callable[[Callable[[Exception], None]], AbstractAsyncContextManager[TransportStreams]]"
"""Starts or reaches the server. It is handed what to tell why nothing more is read of it."""

_MOST_PAGES = 1000
_SECONDS_TO_LEARN_WHY = 1.0
_SESSION_GONE = {(-32600, "Session terminated"), (-32600, "Session not found"), (-32001, "Session not found")}
"""How the SDK reports HTTP 404, and the answers that servers of the official SDKs give before they look at a request.
"""
_NO_ANSWER = ("Connection closed", "SSE stream ")
"""How what the SDK says begins when no answer of the server will come."""
_UNREADABLE = (
    (-32603, "Server returned an error response"),
    (-32600, "server answered a request with 202"),
    (-32600, "Unexpected content type: "),
    (-32700, "Failed to parse JSON response: "),
    (-32700, "Failed to parse SSE message: "),
)
"""How the SDK reports an HTTP response that is no answer of the server, such as a gateway's that waited for one."""


class SessionGone(Exception):
    """The server does not know this connection's session any more, and has not looked at the call."""


class McpConnection:
    """A connection that is open until its server ends or somebody closes it. `open` makes one."""

    def __init__(self, server: str, dial: Dial, seconds: float) -> None:
        self._server, self._dial, self._seconds = server, dial, seconds
        self._client: Client | None = None
        self._error: Exception | None = None
        self._settled, self._over = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._hold(), name=f"steptrail-mcp-{server}")
        self.tools: tuple[Tool, ...] = ()
        self.unreadable: dict[str, str] = {}
        """The faults of the tools of the list that cannot be read, by their names."""

    @classmethod
    async def open(cls, server: str, dial: Dial, seconds: float) -> Self:
        """Connect and list the tools within so many seconds. Raises `McpServerUnavailable`."""
        connection = cls(server, dial, seconds)
        try:
            await connection._settled.wait()
        except BaseException:
            await connection.close()
            raise
        if connection._client is None:
            error = connection._error
            raise McpServerUnavailable(server, f"cannot be reached: {_why(error)}") from error
        return connection

    @property
    def is_open(self) -> bool:
        """Tell whether the server was there when it was last heard of."""
        return not self._over.is_set() and not self._task.done()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], meta: "RequestParamsMeta", progress: "ProgressFnT | None"
    ) -> "CallToolResult":
        """Make one call. A caller that is cancelled has the server told so.

        Raises `McpCallFailed`, `McpServerUnavailable`, `SessionGone`, and what the SDK raises for a result that
        breaks the tool's own output schema.
        """
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
        from pydantic import ValidationError

        client = self._client
        assert client is not None  # noqa: S101 - `open` returns no other connection
        try:
            return await client.call_tool(tool, {**arguments}, progress_callback=progress, meta=meta)
        except MCPError as error:
            has_session = client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
            if has_session and (error.code, error.message) in _SESSION_GONE:
                raise SessionGone from error
            # Servers answer with this code too: it is the first of those that are theirs.
            is_ours = self._over.is_set() or error.message.startswith(_NO_ANSWER)
            if error.code != CONNECTION_CLOSED or not is_ours:
                if any(error.code == code and error.message.startswith(said) for code, said in _UNREADABLE):
                    raise self._unreadable(_why(error)) from error
                raise McpCallFailed(f"the MCP server {self._server!r} refused the call: {error.message}") from error
            if self._over.is_set():  # the task that holds the connection knows more, a moment later
                await asyncio.wait({self._task}, timeout=_SECONDS_TO_LEARN_WHY)
            why = f"ended during the call: {_why(self._error or error)}"
            raise McpServerUnavailable(self._server, why, may_have_run=True) from (self._error or error)
        except ValidationError as error:
            raise self._unreadable(fault_of(error)) from error

    def _unreadable(self, why: str) -> McpServerUnavailable:
        return McpServerUnavailable(self._server, f"gave no answer that can be read: {why}", may_have_run=True)

    async def close(self) -> None:
        """End it, and wait until the server's process, if it is ours, has ended."""
        self._end(self._error)
        await wait_to_the_end(self._task)

    def _end(self, error: Exception | None) -> None:
        """Begin to end it, because of an error in what the server has sent or because nobody needs it any more."""
        self._error = error
        self._over.set()
        if not self._settled.is_set():
            self._task.cancel()

    async def _hold(self) -> None:
        patience: asyncio.Timeout | None = None
        try:
            # A second's work, which would hold up everything else of the loop.
            await asyncio.to_thread(import_module, "mcp")
            from mcp import Client
            from mcp_types import Implementation

            ourselves = Implementation(name="steptrail", version=VERSION)
            transport = _watched(self._dial(self._end), self._over, self.unreadable)
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._seconds) as patience:
                    client = await stack.enter_async_context(Client(transport, cache=None, client_info=ourselves))
                    self.tools = await _list_tools(client)
                self._client = client
                self._settled.set()
                await self._over.wait()
        except Exception as error:
            # The SDK's scopes wrap what passes through them, also that the time is over.
            late = TimeoutError(f"no answer within {self._seconds:g} seconds")
            self._error = self._error or (late if patience is not None and patience.expired() else error)
        finally:
            self._over.set()
            self._settled.set()


async def _list_tools(client: "Client") -> "tuple[Tool, ...]":
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            return tuple(tools)
    raise RuntimeError(f"the list of tools has more than {_MOST_PAGES} pages")


def _why(error: BaseException | None) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    # Also for the terminal: what a client says of a header that it refuses is the header.
    words = words_of(error) if error is not None else ""
    return " ".join(words.split()) or type(error).__name__


@asynccontextmanager
async def _watched(
    dialled: "AbstractAsyncContextManager[TransportStreams]", over: asyncio.Event, unreadable: dict[str, str]
) -> "AsyncGenerator[TransportStreams]":
    async with dialled as (read, write):
        yield cast("ReadStream[SessionMessage | Exception]", _Watched(read, over, unreadable)), write


class _Watched:
    """The stream of a server's messages, as the SDK goes through it. It sets `over` as soon as the stream ends.

    Nothing else in the SDK tells of that end before the next request is made. Tools that cannot be read are taken out
    of lists, with which the SDK would refuse a list as a whole, and put into `unreadable`.
    """

    def __init__(
        self, stream: "ReadStream[SessionMessage | Exception]", over: asyncio.Event, unreadable: dict[str, str]
    ) -> None:
        self._stream, self._over, self._unreadable = stream, over, unreadable

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        try:
            received = await self._stream.__anext__()
        except BaseException:
            self._over.set()
            raise
        message = read_again(received) if isinstance(received, Exception) else received
        return without_unreadable(message, self._unreadable)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._stream.__aexit__(*raised)
