"""Copies of values for code of the user: hooks, criteria, tools and listeners may change their own copy in place.

Values are frozen, but the JSON inside them consists of plain dictionaries and lists. Only those are copied, with the
values that hold them. Text is shared, and a log of values copies each item when it is read.
"""

import dataclasses
from collections.abc import Callable
from enum import Enum
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, cast

from msgspec import Struct, structs

from steptrail.domain.kernel.log import Log

T = TypeVar("T")

_PLAIN = frozenset({str, int, float, bool, bytes, NoneType})


def own(value: T) -> T:
    """Return a copy of the value that shares no part that can be changed; the value itself when it has no such part."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    copy = _COPIES.get(kind)
    if copy is None:
        copy = _COPIES[kind] = _copy_of(kind)
    return cast("T", copy(value))


def _dict(value: dict[Any, Any]) -> dict[Any, Any]:
    return {key: item if type(item) in _PLAIN else own(item) for key, item in value.items()}


def _list(value: list[Any]) -> list[Any]:
    return [item if type(item) in _PLAIN else own(item) for item in value]


def _tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    items = [own(item) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _struct(value: Struct) -> Struct:
    fields = [(name, getattr(value, name)) for name in value.__struct_fields__]
    changed = {name: new for name, item in fields if type(item) not in _PLAIN and (new := own(item)) is not item}
    return structs.replace(value, **changed) if changed or not value.__struct_config__.frozen else value


def _frozen(value: Any) -> Any:
    changed = {
        each.name: new
        for each in dataclasses.fields(value)
        if (new := own(item := getattr(value, each.name))) is not item
    }
    return dataclasses.replace(value, **changed) if changed else value


def _open(value: Any) -> Any:
    copied = {each.name: own(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return dataclasses.replace(value, **copied)


def _copy_of(kind: type[Any]) -> Callable[[Any], Any]:
    if issubclass(kind, Struct):
        return _struct
    if issubclass(kind, tuple):
        return _tuple
    if dataclasses.is_dataclass(kind) and not issubclass(kind, Enum):
        return _frozen if kind.__dataclass_params__.frozen else _open  # type: ignore[attr-defined]
    return lambda value: value


_COPIES: dict[type[Any], Callable[[Any], Any]] = {
    dict: _dict,
    list: _list,
    MappingProxyType: lambda mapping: MappingProxyType(_dict(mapping)),
    Log: lambda log: log.shown(own),
}
"""Class -> the function that copies a value of it. Entries are added when a class is first met."""
