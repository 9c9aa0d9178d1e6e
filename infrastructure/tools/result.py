"""What a tool returned, as JSON.

Stored events are read back as strict JSON, so whatever would not survive that way is refused here, with the place and
the type, instead of failing the session that recorded it.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum
from pathlib import PurePath
from types import GeneratorType
from typing import cast

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

__all__ = ["Unserialisable", "to_json_value"]

_MAX_DEPTH = 100
"""Levels of nesting. pydantic reads 201, and the event around the result takes some."""

_MAX_INTEGER_BITS = 14_000
"""Python and pydantic read integers of up to 4300 digits, which is a little more."""


class Unserialisable(TypeError):
    """A value has no JSON form; the message names the place and the type."""


def to_json_value(value: object) -> JsonValue:
    """Return `value` as JSON.

    Models, dataclasses, enums, dates, decimals, UUIDs, paths and sets are converted as pydantic does. Raises
    `Unserialisable` for NaN and infinities, bytes, keys that are not text, text that is not Unicode, cycles, nesting
    beyond 100 levels, and types without a JSON form.
    """
    return _convert(value, "", ())


def _convert(value: object, path: str, above: tuple[int, ...]) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _convert(value.value, path, above)
    if isinstance(value, str | PurePath):
        return _text(value if isinstance(value, str) else str(value), path)
    if isinstance(value, int):
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise _refused(path, "an integer of more than 4200 digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refused(path, f"the number {value}")
        return float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        raise _refused(path, _type_name(cast(object, value)))
    return _container(value, path, above)


def _container(value: object, path: str, above: tuple[int, ...]) -> JsonValue:
    if id(value) in above:
        raise _refused(path, f"{_type_name(value)} that contains itself")
    if len(above) >= _MAX_DEPTH:
        raise _refused(path[:60] + "…", f"nesting of more than {_MAX_DEPTH} levels")
    inner = (*above, id(value))
    if isinstance(value, Mapping):
        return _object(cast(Mapping[object, object], value), path, inner)
    if isinstance(value, Sequence | Set) and not isinstance(value, range):
        items = cast(Iterable[object], value)
        return [_convert(item, f"{path}[{index}]", inner) for index, item in enumerate(items)]
    if (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and not hasattr(value, "__pydantic_serializer__")
    ):
        return {f.name: _convert(getattr(value, f.name), f"{path}.{f.name}", inner) for f in dataclasses.fields(value)}
    return _foreign(value, path, inner)


def _object(value: Mapping[object, object], path: str, above: tuple[int, ...]) -> JsonValue:
    converted: dict[str, JsonValue] = {}
    for key, item in value.items():
        name = key.value if isinstance(key, Enum) else key
        if not isinstance(name, str):
            raise _refused(path, f"a key of type {_type_name(name)}")
        converted[_text(name, path)] = _convert(item, f"{path}.{name}", above)
    return converted


def _foreign(value: object, path: str, above: tuple[int, ...]) -> JsonValue:
    # pydantic would run a generator to its end, which may never come.
    if isinstance(value, GeneratorType):
        raise _refused(path, "generator")
    try:
        converted: object = to_jsonable_python(value)
    except Exception as error:  # a model may bring serializers of its own
        if isinstance(value, BaseModel) or hasattr(value, "__pydantic_serializer__"):
            raise _refused(path, f"{_type_name(value)} ({error})") from error
        raise _refused(path, _type_name(value)) from error
    return _convert(converted, path, above)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _refused(path, "text that is not valid Unicode") from error
    return str.__str__(value)


def _refused(path: str, what: str) -> Unserialisable:
    place = f"at {path.lstrip('.')}: " if path else ""
    return Unserialisable(f"{place}{what} has no JSON form")


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
