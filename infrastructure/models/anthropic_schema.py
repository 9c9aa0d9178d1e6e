"""The JSON schemas that the Messages API keeps to: strict ones, without bounds of numbers and lengths.

What it does not know goes into the descriptions, where the model may still read it.
"""

from collections.abc import Mapping
from typing import Final

from steptrail.domain.json_value import JsonValue
from steptrail.domain.output_schema import FORMATS, told_in_words

_KNOWN: Final = frozenset(
    {"$defs", "$ref", "additionalProperties", "anyOf", "description", "enum", "items", "properties", "required", "type"}
)


def messages_schema(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a strict schema as the Messages API takes it."""
    made: dict[str, JsonValue] = {}
    told: dict[str, JsonValue] = {}
    for key, value in schema.items():
        match key, value:
            case (("properties" | "$defs"), dict()):
                made[key] = {name: _below(each) for name, each in value.items()}
            case "items", _:
                made[key] = _below(value)
            case "anyOf", list():
                made[key] = [_below(each) for each in value]
            case "const", _:
                made["enum"] = [value]
            case _ if (
                key in _KNOWN or (key == "format" and value in FORMATS) or (key == "minItems" and value in (0, 1))
            ):
                made[key] = value
            case _:
                told[key] = value
    return told_in_words(made, told)


def _below(node: JsonValue) -> JsonValue:
    return messages_schema(node) if isinstance(node, dict) else node
