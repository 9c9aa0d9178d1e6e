"""The common part of tools whose calls run a stream of their own: their spec, their depth, and how they fail."""

import re
from collections.abc import Mapping
from typing import Any

from steptrail.domain.errors import ConfigurationError, InvalidSetting
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_whole
from steptrail.domain.tools import ApprovalRule, ToolEffect, ToolSpec
from steptrail.infrastructure.tools.arguments import Bindable, InvalidArguments, bind_arguments
from steptrail.runtime.agent.tool_port import Capture, ToolContext
from steptrail.runtime.kernel.child_place import ChildPlace

MOST_CHARACTERS = 8000
"""How much of an answer the model of the parent is shown; the whole of it is in the log."""
MAX_DEPTH = 3


def child_spec(
    kind: str,
    what: str,
    *,
    name: str,
    description: str,
    parameters: dict[str, JsonValue],
    timeout: float | None,
    max_calls: int | None,
    approval: ApprovalRule | bool,
    concurrent: bool,
    max_depth: int,
) -> ToolSpec:
    """Return the spec of a tool whose calls run streams of a kind. `what` names it in errors.

    Raises `ConfigurationError`.
    """
    a_whole(max_depth, f"`max_depth` of {what} {name!r}", least=1)
    try:
        return ToolSpec(
            name=name,
            description=description,
            parameters=parameters,
            effect=ToolEffect.IDEMPOTENT,
            timeout=timeout,
            max_calls=max_calls,
            approval=ApprovalRule() if approval is True else approval or None,
            concurrent=concurrent,
            runs_children=kind,
        )
    except InvalidSetting as error:
        raise ConfigurationError(f"{what} {name!r} makes no tool: {error.problem}") from error


def place_of(context: ToolContext, name: str, what: str, max_depth: int) -> ChildPlace | ErrorInfo:
    """Return the place below a call, or why there is none: nobody's run makes the call, or it is too deep."""
    if context.child is None:
        return error_of("NoSession", f"{what} {name!r} was called outside of a run")
    depth = context.child.parent.depth
    if depth > max_depth:
        why = f"{what}s may be nested {max_depth} deep, and {what} {name!r} would be {depth} deep"
        return error_of("TooDeep", f"{why}: do the work yourself")
    return context.child


def error_of(kind: str, message: str, error_type: ErrorType = ErrorType.TOOL) -> ErrorInfo:
    """Return an error of such a call."""
    return ErrorInfo(type=error_type, error_class=f"steptrail:{kind}", message=message)


def given_to_child(
    parameters: Bindable,
    arguments: Mapping[str, JsonValue] | None,
    raw: str | None,
    context: ToolContext[Any, Any],
    capture: Capture,
) -> dict[str, object] | ErrorInfo:
    """Return what a call gives to the stream that it runs, or why its arguments do not fit."""
    try:
        return bind_arguments(parameters, arguments, raw, context)
    except InvalidArguments as error:
        return error_of("InvalidArguments", str(error), ErrorType.VALIDATION)
    except Exception as error:  # a model brings validators of its own
        return capture(error)


def tool_name(name: str) -> str:
    """Return the name of an agent or a workflow as the name of a tool."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[:64]
