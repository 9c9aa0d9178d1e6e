"""The stored values in models of pydantic, such as the body of a request: read and written in their stored form.

Imported only when pydantic asks a value for its schema.
"""

from typing import Any, cast

import msgspec
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from steptrail.domain.base import Value, place_and_fault
from steptrail.domain.readable import readable


def core_schema_of(kind: type[Value]) -> CoreSchema:
    """Return the schema by which pydantic checks and writes values of this class."""

    def checked(value: object) -> Value:
        if isinstance(value, kind):
            return value
        try:
            return msgspec.convert(value, readable(kind))
        except msgspec.ValidationError as error:
            place, fault = place_and_fault(error)
            said = f"{place}: {fault}" if place else fault
            raise PydanticCustomError("stored_value", "{said}", {"said": said}) from None

    written = core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins)
    return core_schema.no_info_plain_validator_function(checked, serialization=written)


def json_schema_of(kind: type[Value]) -> dict[str, Any]:
    """Return the JSON schema of the stored form, with everything it refers to inside of it."""
    schema = msgspec.json.schema(kind)
    definitions = schema.pop("$defs", {})

    def inlined(part: Any) -> Any:
        match part:
            case [*parts]:
                return [inlined(each) for each in parts]
            case {"$ref": str(name)}:
                return inlined(definitions[name.removeprefix("#/$defs/")])
            case dict():
                items = cast("dict[str, Any]", part).items()
                return {key: inlined(item) for key, item in items if key != "discriminator"}
            case _:
                return part

    return cast("dict[str, Any]", inlined(schema))
