"""Takes tools that cannot be read out of a server's list, so that one of them does not make the others unusable."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage
    from pydantic import ValidationError


def without_unreadable(
    received: "SessionMessage | Exception", unreadable: dict[str, str]
) -> "SessionMessage | Exception":
    """Return a message without the tools that the SDK cannot read, and add what is wrong with them to `unreadable`.

    Only a tool that has a name is taken out: nobody could exclude another one.
    """
    if isinstance(received, Exception):
        return received
    result: object = getattr(received.message, "result", None)
    answer = cast("dict[str, object]", result) if isinstance(result, dict) else {}
    if not isinstance(tools := answer.get("tools"), list):
        return received
    kept: list[object] = []
    for tool in cast("list[object]", tools):
        if (name := _name(tool)) is not None and (problem := _problem(tool)) is not None:
            unreadable[name] = problem
        else:
            kept.append(tool)
    answer["tools"] = kept
    return received


def _name(tool: object) -> str | None:
    name = cast("Mapping[str, object]", tool).get("name") if isinstance(tool, Mapping) else None
    return name if isinstance(name, str) else None


def _problem(tool: object) -> str | None:
    from mcp_types import Tool
    from pydantic import ValidationError

    try:
        Tool.model_validate(tool)
    except ValidationError as error:
        return fault_of(error)
    return None


def fault_of(error: "ValidationError") -> str:
    """Return the first thing that is wrong with what a server has sent, on one line and without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
