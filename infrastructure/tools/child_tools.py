"""The common part of tools whose calls run a stream of their own: their spec, their depth, and how they fail.

Whatever else such a stream comes to is a failed call, a call that waits with it, or a call that was cut off.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from steptrail.domain.errors import ConfigurationError, InvalidSetting
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_whole
from steptrail.domain.tools import ApprovalRule, ToolEffect, ToolSpec
from steptrail.infrastructure.tools.arguments import Bindable
from steptrail.infrastructure.tools.execution import bound_or_error, unfit
from steptrail.runtime.agent.capture import CapturedFailure
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolFailed, ToolOutcome, ToolSuspended, ToolTimedOut
from steptrail.runtime.kernel.child import ChildEnd
from steptrail.runtime.kernel.child_place import ChildPlace

MOST_CHARACTERS = 8000
"""How much of an answer the model of the parent is shown; the whole of it is in the log."""


class ChildOptions(TypedDict, total=False):
    """The settings that all of these tools share."""

    timeout: float | None
    """Seconds that bound a call beside the limits of what it runs, and beside what is left of the caller's time."""
    max_depth: int
    """How many levels below the first stream the stream of a call may stand: 3."""
    max_calls: int | None
    approval: ApprovalRule | bool
    concurrent: bool
    """Whether calls run beside each other, which they do unless this is false."""


class NoChild(CapturedFailure):
    """A call runs no stream: `info` says why it fails."""


class ChildTool(ABC):
    """A tool whose calls run streams of a `kind`. `what` names it in errors.

    Raises `ConfigurationError` for what makes no tool.
    """

    def __init__(
        self,
        kind: str,
        what: str,
        parameters: Bindable,
        *,
        name: str,
        description: str,
        schema: dict[str, JsonValue],
        timeout: float | None = None,
        max_depth: int = 3,
        max_calls: int | None = None,
        approval: ApprovalRule | bool = False,
        concurrent: bool = True,
    ) -> None:
        self._what, self._parameters = what, parameters
        self._max_depth = a_whole(max_depth, f"`max_depth` of {what} {name!r}", least=1)
        try:
            self.spec = ToolSpec(
                name=name,
                description=description,
                parameters=schema,
                effect=ToolEffect.IDEMPOTENT,
                timeout=timeout,
                max_calls=max_calls,
                approval=ApprovalRule() if approval is True else approval or None,
                concurrent=concurrent,
                runs_children=kind,
            )
        except InvalidSetting as error:
            raise ConfigurationError(f"{what} {name!r} makes no tool: {error.problem}") from error

    @abstractmethod
    async def _answered(
        self, given: dict[str, object], context: ToolContext, timeout: float | None, capture: Capture
    ) -> ToolOutcome:
        """Run the stream of a call with what that gives to it. Raises `NoChild`."""

    def check_arguments(
        self, arguments: Mapping[str, JsonValue] | None, raw: str | None, capture: Capture
    ) -> ErrorInfo | None:
        """Return why arguments do not fit; None when they do."""
        return unfit(self._parameters, arguments, raw, capture)

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        """Run one call; see `RunnableTool`. A call that nobody's run makes has no stream and fails."""
        bound = bound_or_error(self._parameters, arguments, raw, context, capture)
        if isinstance(bound, ErrorInfo):
            return ToolFailed(bound)
        try:
            return await self._answered(bound, context, timeout, capture)
        except NoChild as refused:
            return ToolFailed(refused.info)

    def _place(self, context: ToolContext, name: str) -> ChildPlace:
        """Return the place below a call. Raises `NoChild` when nobody's run makes the call, or it is too deep."""
        what = self._what
        if context.child is None:
            raise NoChild(error_of("NoSession", f"{what} {name!r} was called outside of a run"))
        depth = context.child.parent.depth
        if depth > self._max_depth:
            why = f"{what}s may be nested {self._max_depth} deep, and {what} {name!r} would be {depth} deep"
            raise NoChild(error_of("TooDeep", f"{why}: do the work yourself"))
        return context.child

    def _outcome(
        self, name: str, child_id: str, end: ChildEnd[Any], answer: Callable[[Any], ToolOutcome]
    ) -> ToolOutcome:
        """Return the outcome of a call: `answer` makes it of the state of a stream that has come to its own end."""
        if end.is_late:
            said = f"{self._what} {name!r} did not end within its time"
            late = error_of(f"{self._what.title()}Timeout", said, ErrorType.TIMEOUT)
            return ToolTimedOut(late, cancelled=True, usage=end.usage)
        if end.ended is None:
            return ToolSuspended(child_id, end.why_it_rests, end.until, end.usage)
        return answer(end.ended)


def error_of(kind: str, message: str, error_type: ErrorType = ErrorType.TOOL) -> ErrorInfo:
    """Return an error of such a call."""
    return ErrorInfo(type=error_type, error_class=f"steptrail:{kind}", message=message)


def tool_name(name: str) -> str:
    """Return the name of an agent or a workflow as the name of a tool."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[:64]
