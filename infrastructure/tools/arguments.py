"""A model's arguments become a call, or a sentence that the model can act on."""

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from steptrail.domain.exception_words import cut_text, kept_text
from steptrail.domain.json_value import JsonValue
from steptrail.runtime.agent.tool_port import ToolContext

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SHOWN_ERRORS = 10
_cut = partial(cut_text, most=200)


class Bindable(Protocol):
    """Makes keyword arguments of a model's arguments."""

    def bind(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> dict[str, object]:
        """Return the keyword arguments of the call."""
        ...


class InvalidArguments(ValueError):
    """The arguments do not fit the tool's parameters; the message is for the model."""


def bind_arguments(
    parameters: Bindable, arguments: Mapping[str, JsonValue] | None, raw: str | None, context: ToolContext
) -> dict[str, object]:
    """Return the keyword arguments of the call.

    `raw` is the model's text when it was not an object; blank text stands for no arguments. Raises
    `InvalidArguments`, and whatever else a type's own validator raises.
    """
    if arguments is None:
        if raw and raw.strip():
            raise InvalidArguments(f"The arguments are not a JSON object: {_cut(raw)}")
        arguments = {}
    try:
        return parameters.bind(arguments, context)
    except ValueError as error:
        from pydantic import ValidationError

        if isinstance(error, ValidationError):
            raise InvalidArguments(_explain(error.errors(include_url=False))) from error
        # Text that is not Unicode.
        raise InvalidArguments(f"The arguments are not JSON: {_cut(str(error))}") from error


def _explain(errors: "list[ErrorDetails]") -> str:
    missing = [str(error["loc"][0]) for error in errors if error["type"] == "missing" and len(error["loc"]) == 1]
    if missing:
        return f"Missing required parameters: {', '.join(missing)}"
    lines = [_line(error) for error in errors[:_SHOWN_ERRORS]]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"and {len(errors) - _SHOWN_ERRORS} more")
    return "Invalid arguments: " + "; ".join(lines)


def _line(error: "ErrorDetails") -> str:
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return f"{place}: there is no such parameter"
    shown = json.dumps(error["input"], ensure_ascii=False, default=repr)
    text = f"{_cut(kept_text(error['msg']))} (got {_cut(shown)})"
    return f"{place}: {text}" if place else text
