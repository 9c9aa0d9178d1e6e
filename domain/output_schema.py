"""The narrow JSON schemas of structured output: what providers take who keep to a schema exactly.

A schema is changed so that it fits where that loses nothing but the freedom to leave fields out: every field is
required, and defaults are left out. A rule for values that the subset does not have, such as a format, is told in the
description. What cannot be said so is refused with its place.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from steptrail.domain.json_value import JsonValue

_MOST_PROPERTIES: Final = 5_000
_MOST_LEVELS: Final = 10
_MOST_ENUM_VALUES: Final = 1_000
_MOST_NAME_CHARACTERS: Final = 120_000
_REFUSED: Final = ("allOf", "not", "patternProperties", "prefixItems", "if", "dependentSchemas", "propertyNames")
FORMATS: Final = ("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid")
"""The formats of texts that the subset has."""
_BOUNDS: Final = ("exclusiveMaximum", "exclusiveMinimum", "maximum", "maxItems", "maxLength", "minimum", "minItems")
_KEPT: Final = frozenset({"$ref", "const", "description", "minLength", "multipleOf", "type", *_BOUNDS})
_LOOKS_AROUND: Final = re.compile(r"\(\?<?[=!]")
_SAYS_WHAT: Final = frozenset({"$ref", "anyOf", "const", "enum", "oneOf", "type"})

Schema = dict[str, JsonValue]


class NotStrict(ValueError):
    """A schema cannot be said in the strict subset. The text names the place and the reason."""


def object_schema(schema: Mapping[str, JsonValue], wrapped_in: str) -> tuple[Schema, bool]:
    """Return a schema whose root is an object, and whether the type was wrapped in a field `wrapped_in` for that."""
    defs = schema.get("$defs")
    root: Schema = {key: value for key, value in schema.items() if key != "$defs"}
    reference = root.get("$ref")
    if isinstance(reference, str) and isinstance(defs, dict):
        target = defs.get(reference.removeprefix("#/$defs/"))
        root = dict(target) if isinstance(target, dict) else root
    is_wrapped = root.get("type") != "object" or "anyOf" in root
    if is_wrapped:
        root = {"type": "object", "properties": {wrapped_in: root}, "required": [wrapped_in]}
    if defs:
        root = {**root, "$defs": defs}
    return root, is_wrapped


def is_recursive(schema: Mapping[str, JsonValue]) -> bool:
    """Tell whether any definition of the schema refers to itself, at once or through others."""
    defs = schema.get("$defs")
    below = {name: set(_references(each)) for name, each in defs.items()} if isinstance(defs, dict) else {}

    def reaches(start: str, name: str, seen: set[str]) -> bool:
        new = below.get(name, set[str]()) - seen
        return start in below.get(name, set[str]()) or any(reaches(start, each, seen | new) for each in new)

    return any(reaches(name, name, set()) for name in below)


def _references(node: JsonValue) -> Iterator[str]:
    match node:
        case dict():
            for key, value in node.items():
                if key == "$ref" and isinstance(value, str):
                    yield value.removeprefix("#/$defs/")
                else:
                    yield from _references(value)
        case list():
            for each in node:
                yield from _references(each)
        case _:
            return


def strict_schema(schema: Mapping[str, JsonValue]) -> Schema:
    """Return the schema of an object in the strict subset. Raises `NotStrict`."""
    counts = _Counts()
    made = counts.strict(schema, "", 1)
    if counts.properties > _MOST_PROPERTIES:
        raise NotStrict(f"it has {counts.properties} fields, and {_MOST_PROPERTIES} are allowed")
    if counts.enum_values > _MOST_ENUM_VALUES:
        raise NotStrict(f"it has {counts.enum_values} values of enumerations, and {_MOST_ENUM_VALUES} are allowed")
    if counts.characters > _MOST_NAME_CHARACTERS:
        raise NotStrict(f"its names have {counts.characters} characters, and {_MOST_NAME_CHARACTERS} are allowed")
    return made


class _Counts:
    def __init__(self) -> None:
        self.properties = self.enum_values = self.characters = 0

    def strict(self, node: Mapping[str, JsonValue], at: str, level: int) -> Schema:
        if level > _MOST_LEVELS:
            raise NotStrict(f"{at}: it is nested more than {_MOST_LEVELS} levels deep")
        for key in _REFUSED:
            if key in node:
                raise NotStrict(f"{at or 'the root'}: the strict subset has no {key!r}")
        if _SAYS_WHAT.isdisjoint(node):
            raise NotStrict(f"{at or 'the root'}: anything may stand there")
        if "$ref" in node:  # nothing may stand beside a reference
            node = {key: value for key, value in node.items() if key in {"$ref", "$defs"}}
        made: Schema = {}
        told: Schema = {}
        for key, value in node.items():
            match key, value:
                case (("default" | "title" | "discriminator" | "required" | "additionalProperties"), _):
                    pass
                case "$defs", dict():
                    made[key] = {name: self._below(each, name, 1) for name, each in value.items()}
                    self.characters += sum(map(len, value))
                case "properties", dict():
                    self.properties += len(value)
                    self.characters += sum(map(len, value))
                    made[key] = {name: self._below(each, _place(at, name), level + 1) for name, each in value.items()}
                case "items", _:
                    made[key] = self._below(value, _place(at, "[]"), level + 1)
                case (("anyOf" | "oneOf"), list()):
                    made["anyOf"] = [self._below(each, at, level) for each in value]
                case "enum", list():
                    self.enum_values += len(value)
                    self.characters += sum(len(each) for each in value if isinstance(each, str))
                    made[key] = value
                case _ if _is_kept(key, value):
                    made[key] = value
                case _:
                    told[key] = value
        if node.get("type") == "object" or "properties" in node:
            if node.get("additionalProperties") not in (None, False):
                raise NotStrict(f"{at or 'the root'}: fields of any name may stand there")
            properties = made.setdefault("properties", {})
            made["required"] = list(properties) if isinstance(properties, dict) else []
            made["additionalProperties"] = False
        return told_in_words(made, told)

    def _below(self, node: JsonValue, at: str, level: int) -> JsonValue:
        if not isinstance(node, dict):
            raise NotStrict(f"{at}: {node!r} is no schema of the strict subset")
        return self.strict(node, at, level)


def told_in_words(made: Schema, told: Mapping[str, JsonValue]) -> Schema:
    """Return a schema with the rules that it cannot hold in its description, where the model may still read them."""
    if not told:
        return made
    words = f"({', '.join(f'{key}: {value}' for key, value in told.items())})"
    return {**made, "description": f"{made['description']} {words}" if "description" in made else words}


def _is_kept(key: str, value: JsonValue) -> bool:
    if key == "pattern":
        return _LOOKS_AROUND.search(str(value)) is None
    return value in FORMATS if key == "format" else key in _KEPT


def _place(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name
