"""The check of JSON that comes from outside: which values may be stored, said once for every door.

Stored events are read back as strict JSON. One value that could be written and not be read again would make its whole
session unreadable, so it is refused before it is recorded, with the place where it stands.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, cast

from pydantic import JsonValue

from steptrail.domain.errors import NotStorable

__all__ = ["Convert", "NoJsonForm", "storable", "type_name"]

Convert = Callable[[object], object]
"""Brings a value that is not JSON a step nearer to it, or raises `NoJsonForm`."""

_MAX_DEPTH: Final = 100
"""Levels of nesting. pydantic reads 201, and the event around the value takes some."""
_BEYOND: Final = 10**4300
"""The first integer that Python and pydantic refuse to read."""
_SHOWN: Final = 60
"""Characters of a place that an error repeats, at each end."""


class NoJsonForm(Exception):
    """A value has no JSON form. Gathers the place on its way up."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what, self.place = what, list[str]()


def storable(value: object, where: str = "", *, convert: Convert | None = None) -> JsonValue:
    """Return `value` as JSON that can be stored and read again: a copy that shares no part with it.

    Tuples become lists. `where` names the field in the error; `convert` is asked for values that are not JSON. Raises
    `NotStorable` for NaN and infinities, bytes, dates and every other type that JSON does not have, for keys that are
    not text, text that is not Unicode, more than 100 levels of nesting, and integers of more than 4,300 digits.
    """
    try:
        return _walk(value, convert, 0)
    except NoJsonForm as refused:
        place = (where + "".join(reversed(refused.place))).lstrip(".")
        shown = place if len(place) <= 2 * _SHOWN else f"{place[:_SHOWN]}…{place[-_SHOWN:]}"
        raise NotStorable(shown, refused.what) from refused.__cause__


def type_name(value: object) -> str:
    """Return the name of a value's type, with its module unless it is built in."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _walk(value: object, convert: Convert | None, depth: int) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        if not -_BEYOND < value < _BEYOND:
            raise NoJsonForm("an integer of more than 4300 digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NoJsonForm(f"the number {value}")
        return float(value)
    if isinstance(value, Mapping | list | tuple):
        if depth >= _MAX_DEPTH:
            raise NoJsonForm(f"nesting of more than {_MAX_DEPTH} levels")
        if isinstance(value, Mapping):
            return _object(cast("Mapping[object, object]", value), convert, depth + 1)
        return _array(cast("Iterable[Any]", value), convert, depth + 1)
    if convert is None:
        raise NoJsonForm(type_name(value))
    return _walk(convert(value), convert, depth)


def _array(value: Iterable[Any], convert: Convert | None, depth: int) -> JsonValue:
    walked: list[JsonValue] = []
    add = walked.append
    try:
        for item in value:
            # A result may be a million numbers, and the loop waits.
            add(item if type(item) is int and -_BEYOND < item < _BEYOND else _walk(item, convert, depth))
    except NoJsonForm as refused:
        refused.place.append(f"[{len(walked)}]")
        raise
    return walked


def _object(value: Mapping[object, object], convert: Convert | None, depth: int) -> JsonValue:
    walked: dict[str, JsonValue] = {}
    for key, item in value.items():
        name = key.value if isinstance(key, Enum) else key
        if not isinstance(name, str):
            raise NoJsonForm(f"a key of type {type_name(name)}")
        text = _text(name)
        try:
            walked[text] = _walk(item, convert, depth)
        except NoJsonForm as refused:
            refused.place.append(f".{text[: 2 * _SHOWN]}")
            raise
    return walked


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise NoJsonForm("text that is not valid Unicode") from error
    # What a subclass makes of itself is its own business.
    return str.__str__(value)
