"""JSON as providers write it, read so that it can be stored: no NaN, no halves of characters, no surprises of type.

What stands in a place where something else belongs is taken as absent, because servers that speak one protocol differ
in the corners.
"""

import json
import math
from collections.abc import Callable
from typing import NoReturn, cast

from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, Part, TextPart, ToolCallPart
from steptrail.domain.provider_errors import read_error
from steptrail.infrastructure.models.errors import ModelFailed, ModelReplyInvalid

_MOST_LEVELS = 100
"""Of nesting: as many as a tool's result may have."""


def read_body(text: str) -> dict[str, JsonValue]:
    """Read the body of a successful response; one that is no object is empty. Raises `ModelReplyInvalid`."""
    try:
        parsed = _parse(text)
        if "\\u" in text:
            # An answer cut in the middle of a character may end in half of a surrogate pair, which nothing can store.
            parsed = _parse(clean(json.dumps(parsed, ensure_ascii=False)))
    except (ValueError, RecursionError):
        raise ModelReplyInvalid(f"the body ({len(text)} characters) is not JSON") from None
    return as_object(parsed)


def read_piece(text: str) -> JsonValue:
    """Read the data of an event, whose texts may end in half of a character. Raises `ModelReplyInvalid`."""
    try:
        return _parse(text)
    except (ValueError, RecursionError):
        raise ModelReplyInvalid(f"an event of the stream ({len(text)} characters) is not JSON") from None


def loads(text: str) -> JsonValue:
    """Parse JSON that will be stored. Raises `ValueError`, also for half of a surrogate pair, or `RecursionError`."""
    parsed = _parse(text)
    if "\\u" in text:
        json.dumps(parsed, ensure_ascii=False).encode()
    return parsed


def read_arguments(arguments: JsonValue) -> tuple[dict[str, JsonValue] | None, str | None]:
    """Return the arguments of a call as an object; when they are no object, None and the text that came.

    An object of more than 100 levels counts as no object: it could be written into the log and not be read again.
    """
    match arguments:
        case None:
            return {}, None
        case dict() if _is_flat(arguments):
            return arguments, None
        case str():
            if arguments.strip() in ("", "null"):
                return {}, None
            try:
                parsed = loads(arguments)
            except (ValueError, RecursionError):
                return None, clean(arguments)
            return (parsed, None) if isinstance(parsed, dict) and _is_flat(parsed) else (None, clean(arguments))
        case _:
            return None, json.dumps(arguments)


def arguments_text(call: ToolCallPart) -> tuple[dict[str, JsonValue], str]:
    """Return the arguments to send back, as an object and as its JSON text.

    Servers parse the arguments of earlier turns, and answer 4xx or 5xx for ever when one reply was not JSON.
    """
    arguments = as_arguments(call.arguments, call.raw)
    return arguments, json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def as_arguments(arguments: dict[str, JsonValue] | None, raw: str | None) -> dict[str, JsonValue]:
    """Return arguments as they are sent: an object, also where the model wrote none."""
    return {"invalid_json": raw or ""} if arguments is None else arguments


def content_of(message: Message, rendered: Callable[[Part], JsonValue]) -> JsonValue:
    """Return the content of a message in OpenAI's protocols: its text, or else its parts, each as it is `rendered`."""
    if all(isinstance(part, TextPart) for part in message.parts):
        return message.text
    return [part for part in map(rendered, message.parts) if part is not None]


def clean(text: str) -> str:
    """Return the text with halves of surrogate pairs joined, or replaced where the other half is missing."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def as_object(value: JsonValue) -> dict[str, JsonValue]:
    """Return an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return a list, or an empty one."""
    return value if isinstance(value, list) else []


def as_number(value: JsonValue) -> int | None:
    """Return a whole number, or None. JSON has one kind of number: `3.0` is a whole one, and some servers write it."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_text(value: JsonValue) -> str | None:
    """Return text that is not empty, or None."""
    return clean(value) if isinstance(value, str) and value else None


def failure(error: JsonValue, otherwise: str) -> ModelFailed:
    """Return the failure that an error object, or a text in its place, tells of; it says `otherwise` without words."""
    told = read_error(error)
    message = None if told.message is None else clean(told.message)
    return ModelFailed(message or otherwise, code=told.code, status_code=told.status)


def _is_flat(value: JsonValue, levels: int = _MOST_LEVELS) -> bool:
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_flat(each, levels - 1) for each in inner)


def _parse(text: str) -> JsonValue:
    return cast(JsonValue, json.loads(text, parse_constant=_refuse, parse_float=_finite))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
