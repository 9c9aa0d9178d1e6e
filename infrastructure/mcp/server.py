"""A Model Context Protocol server as a source of tools.

Its tools are listed when it is entered and stay what they are until it is left: the agent is built from them. The
connection behind them may change, since a server that went away is connected to again by the next call.
"""

import asyncio
import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Self, TypedDict, Unpack, cast
from urllib.parse import urlsplit

from steptrail.domain.errors import ConfigurationError, MissingExtra
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_flag, a_kind_of, a_row, a_text, a_time
from steptrail.domain.secrets import hide_keys_of, hide_values_of
from steptrail.infrastructure.mcp.connection import Dial, McpConnection, SessionGone
from steptrail.infrastructure.mcp.description import McpToolSettings, Selection, specs_of
from steptrail.infrastructure.mcp.dialling import http_dial, stdio_dial
from steptrail.infrastructure.mcp.errors import McpServerUnavailable
from steptrail.infrastructure.mcp.tool import McpTool
from steptrail.infrastructure.portal import Portal
from steptrail.runtime.agent.tool_port import ToolContext

if TYPE_CHECKING:
    from mcp_types import CallToolResult, RequestParamsMeta

EFFECT_ID_KEY: Final = "steptrail/effectId"
"""Where every call carries its effect id, in the `_meta` of its parameters."""


class McpOptions(TypedDict, total=False):
    """The settings that both ways to a server share."""

    name: str
    """The name that errors use for it; by default the command's or the host's name."""
    prefix: str
    """Put before the name of each tool, so that two servers do not collide."""
    include: Iterable[str]
    """The only tools to take, by the server's names."""
    exclude: Iterable[str]
    """Tools not to take, by the server's names."""
    settings: Mapping[str, McpToolSettings]
    """Your settings for single tools, by the server's names."""
    timeout: float
    """Seconds per try of a call, unless `settings` says otherwise; by default what is left of the run."""
    trust_hints: bool
    """Whether a server's annotations choose the default effect class: say so of a server that you trust. Otherwise
    every tool is unsafe."""
    connect_timeout: float
    """Seconds to start or reach the server and to list its tools: 30."""


def _selection(about: str, options: McpOptions) -> Selection:
    if unknown := [each for each in options if each not in McpOptions.__annotations__]:
        # A misspelt `exclude` would let a tool through.
        known = ", ".join(McpOptions.__annotations__)
        raise ConfigurationError(f"{about}there is no setting {unknown[0]!r}; the settings are: {known}")
    include, settings = options.get("include"), options.get("settings", {})
    if not isinstance(settings, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{about}settings is a mapping from names of tools, not {type(settings).__name__}")
    for tool, said in settings.items():
        a_kind_of(McpToolSettings, said, f"{about}what settings has for {tool!r}")
    return Selection(
        prefix=a_text(options.get("prefix", ""), f"{about}prefix"),
        include=None if include is None else _names(include, about, "include"),
        exclude=_names(options.get("exclude", ()), about, "exclude"),
        settings=settings,
        timeout=options.get("timeout"),
        trust_hints=a_flag(options.get("trust_hints", False), f"{about}trust_hints"),
    )


def _names(given: Iterable[str], about: str, what: str) -> frozenset[str]:
    return frozenset(a_text(each, f"{about}a name in {what}") for each in a_row(given, f"{about}{what}"))


class McpServer:
    """A server and its tools: `async with McpServer.stdio(…) as server`, then `builder.with_tools(*server.tools)`.

    Entering connects and lists; it raises `McpServerUnavailable` when that fails and `ConfigurationError` when a tool
    cannot be taken or a name that was given fits none. The tools work inside the block, in any loop of the process.
    With the blocking API it is a plain `with`, and the connection has a loop of its own.
    """

    def __init__(self, name: str, dial: Dial, options: McpOptions) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise MissingExtra("McpServer", "mcp", "mcp")
        self._name = a_text(options.get("name", name), "the name of an MCP server")
        about = f"the MCP server {self._name!r}: "
        self._connect_timeout = a_time(options.get("connect_timeout", 30.0), f"{about}connect_timeout")
        self._selection = _selection(about, options)
        self._dial = dial
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: McpConnection | None = None
        self._connecting = asyncio.Lock()
        self._tools: tuple[McpTool, ...] = ()
        self._portal: Portal | None = None
        self._process = os.getpid()

    @classmethod
    def stdio(
        cls,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        **options: Unpack[McpOptions],
    ) -> Self:
        """Return the server that `command` starts, a process of its own that ends with the block.

        It inherits few variables (`PATH`, `HOME` and the like); `env` adds to them. Raises `MissingExtra` and
        `ConfigurationError`.
        """
        name = os.path.basename(a_text(command, "the command of an MCP server"))
        dial = stdio_dial(command, args, env, cwd)
        hide_values_of([*(env or {}).items(), *_named(args)])
        return cls(name, dial, options)

    @classmethod
    def http(cls, url: str, headers: Mapping[str, str] | None = None, **options: Unpack[McpOptions]) -> Self:
        """Return the server at an address that speaks streamable HTTP; `headers` go with every request.

        Raises `MissingExtra` and `ConfigurationError`.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigurationError("the address of an MCP server begins with http:// or https:// and names a host")
        dial = http_dial(url, headers)
        hide_keys_of(url)
        hide_values_of((headers or {}).items())
        return cls(parts.hostname, dial, options)

    def __repr__(self) -> str:
        return f"McpServer({self._name!r})"

    @property
    def is_connected(self) -> bool:
        """Tell whether the server was there when it was last heard of. Without it, the next call connects again."""
        return self._connection is not None and self._connection.is_open

    @property
    def tools(self) -> tuple[McpTool, ...]:
        """The selected tools, sorted by the server's names. Raises `ConfigurationError` outside the block."""
        if self._connection is None:
            raise ConfigurationError(f"the tools of the MCP server {self._name!r} are known inside its block")
        return self._tools

    async def __aenter__(self) -> Self:
        if self._connection is not None and not self._is_inherited:
            raise ConfigurationError(f"the MCP server {self._name!r} is entered already")
        connection = await McpConnection.open(self._name, self._dial, self._connect_timeout)
        try:
            specs = specs_of(self._name, connection.tools, self._selection, connection.unreadable)
        except BaseException:
            await connection.close()
            raise
        self._loop, self._connection, self._process = asyncio.get_running_loop(), connection, os.getpid()
        self._connecting = asyncio.Lock()  # one belongs to the loop in which somebody has waited for it
        self._tools = tuple(McpTool(spec=spec, remote_name=name, call=self._call) for name, spec in specs.items())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_inherited:
            return
        async with self._connecting:
            connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def __enter__(self) -> Self:
        portal = Portal()
        try:
            portal.call(self.__aenter__())
        except BaseException:
            portal.close()
            raise
        self._portal = portal
        return self

    def __exit__(self, *_: object) -> None:
        portal, self._portal = self._portal, None
        if portal is not None and not self._is_inherited:
            try:
                portal.call(self.__aexit__())
            finally:
                portal.close()

    async def _call(self, tool: str, arguments: Mapping[str, JsonValue], context: ToolContext) -> "CallToolResult":
        if self._connection is None or self._loop is None:
            raise McpServerUnavailable(self._name, "was left: its tools work inside its block")
        if self._is_inherited:
            raise McpServerUnavailable(
                self._name, "was entered before this process was forked: enter it again in the child"
            )
        call = self._call_here(tool, arguments, context)
        if asyncio.get_running_loop() is self._loop:
            return await call
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    @property
    def _is_inherited(self) -> bool:
        """Whether this process was forked since: the connection and its loop are the parent's, and are left alone."""
        return os.getpid() != self._process

    async def _call_here(self, tool: str, arguments: Mapping[str, JsonValue], context: ToolContext) -> "CallToolResult":
        async def report(progress: float, total: float | None, message: str | None) -> None:
            context.progress(message or "", done=progress, total=total)

        meta = cast("RequestParamsMeta", {EFFECT_ID_KEY: context.effect_id})
        watched = None if context.report is None else report
        connection: McpConnection | None = None
        for _ in range(2):
            connection = await self._connected(instead_of=connection)
            with suppress(SessionGone):  # the server was started anew and has not looked at the call
                return await connection.call(tool, arguments, meta, watched)
        raise McpServerUnavailable(self._name, "forgets its sessions at once")

    async def _connected(self, *, instead_of: McpConnection | None) -> McpConnection:
        async with self._connecting:
            connection = self._connection
            if connection is None:
                raise McpServerUnavailable(self._name, "was left: its tools work inside its block")
            if connection.is_open and connection is not instead_of:
                return connection
            # Two processes of one server might be in each other's way.
            await connection.close()
            self._connection = await McpConnection.open(self._name, self._dial, self._connect_timeout)
            return self._connection


def _named(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the values of a command line with their names: `--key x`, `--key=x`, `--header 'Name: x'`."""
    yield from pairwise(args)
    for arg in args:
        for mark in "=:":
            name, _, value = arg.partition(mark)
            yield name, value
