"""The names of fields in camel case, which is how services and front ends spell them in JSON."""

from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from steptrail.domain.base import full_form
from steptrail.domain.json_value import JsonValue


@cache
def camel(name: str) -> str:
    """Return the name of a field in camel case."""
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def in_camel_case(value: Struct) -> dict[str, JsonValue]:
    """Return the fields of a value as JSON, each under its name in camel case."""
    return {camel(name): full_form(getattr(value, name)) for name in value.__struct_fields__}


def fields_by_key(kind: type[Struct]) -> Mapping[str, str]:
    """Return the fields that such values have, by their names in camel case."""
    return {camel(name): name for name in kind.__struct_fields__}
