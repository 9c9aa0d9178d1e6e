"""JSON values as nodes compare them: their types, their texts, and which of them are equal."""

import json
import math

from steptrail.domain.json_value import JsonValue

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
"""The names of the types of JSON schemas."""


def has_type(value: JsonValue, name: str) -> bool:
    """Tell whether a value has a type of `TYPES`. No value has a type of another name."""
    match name:
        case "string":
            return isinstance(value, str)
        case "number":
            return number_in(value) is not None
        case "integer":
            return isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return name == "null" and value is None


def number_in(value: JsonValue) -> float | None:
    """Return a number as it is, because a float would round large whole ones; None for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def text_of(value: JsonValue) -> str:
    """Return a value as a text: a text as it is, else compact JSON. A whole number has no decimals."""
    return value if isinstance(value, str) else identity(value)


def identity(value: JsonValue) -> str:
    """Return a text that is the same for equal values: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_whole(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _whole(value: JsonValue) -> JsonValue:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole(item) for item in value]
        case dict():
            return {key: _whole(item) for key, item in value.items()}
        case _:
            return value
