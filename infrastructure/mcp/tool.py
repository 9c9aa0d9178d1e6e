"""A tool of a server as the runner sees it. Its arguments go to the server as they are, which validates them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from msgspec import structs

from steptrail.domain.failures import ErrorInfo
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import ToolEffect, ToolSpec, misnamed
from steptrail.infrastructure.mcp.content import error_text, files_of, result_of
from steptrail.infrastructure.mcp.errors import McpCallFailed, McpServerUnavailable
from steptrail.infrastructure.tools.arguments import Bindable, InvalidArguments
from steptrail.infrastructure.tools.execution import execute, late, patience_of, unfit
from steptrail.infrastructure.tools.reply import ToolReply
from steptrail.runtime.agent.tool_port import Capture, Patience, ToolContext, ToolOutcome, ToolTimedOut

if TYPE_CHECKING:
    from mcp_types import CallToolResult


class _AsTheyAre:
    def bind(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> dict[str, object]:
        return {"arguments": arguments, "context": context}


class _ByName:
    def __init__(self, spec: ToolSpec) -> None:
        self._spec = spec

    def bind(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> dict[str, object]:
        if (wrong := misnamed(self._spec, arguments)) is not None:
            raise InvalidArguments(f"Invalid arguments: {wrong}")
        return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class McpTool:
    """A tool of a server. `remote_name` is the server's name for it; the model uses the one of `spec`."""

    spec: ToolSpec
    remote_name: str
    call: "Callable[[str, Mapping[str, JsonValue], ToolContext], Awaitable[CallToolResult]]" = field(repr=False)
    parameters: Bindable = field(default=_AsTheyAre(), init=False, repr=False)
    is_async: bool = field(default=True, init=False, repr=False)

    @property
    def name(self) -> str:
        """The name that the model uses."""
        return self.spec.name

    def retries(self, error: BaseException) -> bool:
        """Tell whether its own rule has such an error tried again.

        That of an unsafe tool has only what its server says has failed, and what the server was never asked.
        """
        not_asked = isinstance(error, McpServerUnavailable) and not error.may_have_run
        is_sure = not_asked or isinstance(error, McpCallFailed)
        return self.spec.retry is not None and (is_sure or self.spec.effect is not ToolEffect.UNSAFE)

    async def invoke(self, bound: Mapping[str, object]) -> ToolReply:
        """Make the call. Raises `McpCallFailed` for what the server calls an error, and what the connection raises."""
        arguments = cast(Mapping[str, JsonValue], bound["arguments"])
        result = await self.call(self.remote_name, arguments, cast(ToolContext, bound["context"]))
        if result.is_error:
            raise McpCallFailed(error_text(result))
        return ToolReply(result_of(result), *files_of(result))

    @property
    def patience(self) -> Patience | None:
        """The patience with a call that was cancelled."""
        usual = patience_of(self)
        return usual and Patience(usual.seconds, self._left_behind)

    def _left_behind(self, timeout: float | None) -> ToolTimedOut:
        return self._late(late(self, timeout, cancelled=False), timeout)

    def check_arguments(
        self, arguments: Mapping[str, JsonValue] | None, raw: str | None, capture: Capture
    ) -> ErrorInfo | None:
        """Return why the names of arguments do not fit; None when they do. Of values the server knows more."""
        return unfit(_ByName(self.spec), arguments, raw, capture)

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        """Run one call for the runner; see `execute`."""
        outcome = await execute(self, arguments, raw, context, timeout=timeout, capture=capture)
        called = timeout is not None and timeout > 0
        return self._late(outcome, timeout) if isinstance(outcome, ToolTimedOut) and called else outcome

    def _late(self, outcome: ToolTimedOut, timeout: float | None) -> ToolTimedOut:
        # Only our side of the call is sure to have ended.
        said = f"tool {self.name!r} did not end within {timeout} seconds; its MCP server was told to cancel it"
        return structs.replace(outcome, cancelled=False, error=structs.replace(outcome.error, message=said))
