"""The refusals of the real services for the schemas to which they are to keep."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from steptrail.domain.json_value import JsonValue
from steptrail.domain.output_schema import FORMATS
from steptrail.infrastructure.models.wire import as_object

NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The names of functions and of schemas that OpenAI's services take."""

_NEVER: Final = frozenset({"allOf", "default", "not", "oneOf", "patternProperties", "prefixItems", "uniqueItems"})
_NOT_AT_THE_TOP: Final = frozenset({"allOf", "anyOf", "oneOf"})
_BOUNDS: Final = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maxLength", "maximum", "minLength", "minimum"})


def why_no_schema(schema: JsonValue, *, has_bounds: bool) -> str | None:
    """Return why a schema is refused; None when it is taken. `has_bounds` says that bounds of values may be in it."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or "anyOf" in schema:
        return "Invalid schema: the root must be an object"
    unknown = _NEVER if has_bounds else _NEVER | _BOUNDS
    for node in _nodes(schema):
        if found := sorted(unknown & node.keys()):
            return f"Invalid schema: {found[0]!r} is not permitted"
        if node.keys() <= {"description", "title"}:
            return "Invalid schema: schema must have a 'type' key"
        if has_bounds and "format" in node and node["format"] not in FORMATS:
            return f"Invalid schema: {node['format']!r} is not a valid format"
        if "$ref" in node and node.keys() - {"$ref", "$defs"}:
            return "Invalid schema: $ref cannot have keywords beside it"
        properties = node.get("properties")
        if node.get("type") == "object" and isinstance(properties, dict):
            if node.get("additionalProperties") is not False:
                return "Invalid schema: 'additionalProperties' is required to be supplied and to be false"
            if node.get("required") != list(properties):
                return "Invalid schema: 'required' is required to include every key in properties"
    return None


def why_no_tools(
    tools: Iterable[JsonValue], names: re.Pattern[str], *, schema: str, with_properties: bool
) -> str | None:
    """Return why declarations of tools are refused, whose arguments stand under `schema`; None when they are taken."""
    for tool in map(as_object, tools):
        name = tool.get("name")
        if not isinstance(name, str) or not names.fullmatch(name):
            return f"Invalid 'tools': the name {name!r}"
        if (why := _why_no_parameters(tool.get(schema), with_properties=with_properties)) is not None:
            return why
    return None


def _why_no_parameters(schema: JsonValue, *, with_properties: bool) -> str | None:
    if not isinstance(schema, dict) or schema.get("type") != "object" or not _NOT_AT_THE_TOP.isdisjoint(schema):
        return "Invalid schema: it must have type 'object' and not have 'oneOf'/'anyOf'/'allOf' at the top level"
    is_bare = with_properties and not isinstance(schema.get("properties"), dict)
    return "Invalid schema: object schema missing properties" if is_bare else None


def _nodes(schema: Mapping[str, JsonValue]) -> Iterator[Mapping[str, JsonValue]]:
    """Yield a schema and all schemas in it."""
    yield schema
    for key, value in schema.items():
        inner: list[JsonValue] = []
        if key in {"properties", "$defs"} and isinstance(value, dict):
            inner = list(value.values())
        elif key == "anyOf" and isinstance(value, list):
            inner = value
        elif key == "items":
            inner = [value]
        for each in inner:
            if isinstance(each, dict):
                yield from _nodes(each)
