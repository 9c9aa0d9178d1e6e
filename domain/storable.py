"""Checks JSON that comes from outside. All such values pass this one check before they are stored.

Stored events are read back as strict JSON. One value that can be written and not be read back would make its whole
session unreadable. So such a value is refused before it is recorded, and the error names its place.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, cast

from steptrail.domain.errors import NotStorable
from steptrail.domain.json_value import JsonValue

Convert = Callable[[object], object]
"""Converts a value that is no JSON into a value nearer to JSON, or raises `NoJsonForm`."""

_MAX_DEPTH: Final = 100
"""Levels of nesting. Reading them back takes a frame of Python's stack for each, and the stack has 1,000."""
_BEYOND: Final = 10**4299
"""msgspec reads 4,300 characters of an integer, and a minus is one."""
OBJECTS: Final = (dict, Mapping)
"""`dict` is a mapping too, but to be told so by the abstract class takes ten times as long."""
_CONTAINERS: Final = (dict, list, tuple, Mapping)
_LONGEST: Final = 600
"""Bytes of a text. The key of a sum has four and a tenant, and PostgreSQL takes no key of more than 2,704 bytes."""
_SHOWN: Final = 60
"""How many characters of a place an error shows, at each end."""


class NoJsonForm(Exception):
    """A value has no JSON form. The error collects the place of the value on its way up."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what, self.place = what, list[str]()


def storable(value: object, where: str = "", *, convert: Convert | None = None) -> JsonValue:
    """Return `value` as JSON that can be stored and read back: a copy that shares no part with it.

    Tuples become lists. `where` names the field in the error. `convert` is called for values that are no JSON. Raises
    `NotStorable` for NaN and infinities, bytes, dates and every other type that JSON does not have, for keys that are
    no text, text that is no Unicode, more than 100 levels of nesting, and integers of more than 4,299 digits.
    """
    try:
        return _walk(value, convert, 0)
    except NoJsonForm as refused:
        place = (where + "".join(reversed(refused.place))).lstrip(".")
        shown = place if len(place) <= 2 * _SHOWN else f"{place[:_SHOWN]}…{place[-_SHOWN:]}"
        raise NotStorable(shown, refused.what) from refused.__cause__


def is_unicode(text: str) -> bool:
    """Tell whether a text is valid Unicode: with half of a surrogate pair it is a text for Python alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(text: str, most: int = 400) -> str:
    """Return the beginning of a text without what a database cannot hold: NUL, and halves of surrogate pairs.

    All ids are shorter than what is kept.
    """
    cut = text[:most]
    if cut.isascii() and cut.isprintable():
        return cut
    return cut.replace("\0", "").encode(errors="replace")[:_LONGEST].decode(errors="ignore")


def as_unicode(text: str) -> str:
    """Return text with a question mark for each half of a surrogate pair. It is as long as before."""
    return text.encode(errors="replace").decode()


def type_name(value: object) -> str:
    """Return the name of a value's type, with its module unless it is built in."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _walk(value: object, convert: Convert | None, depth: int) -> JsonValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if type(value) is str and value.isascii() else _text(value)
    if isinstance(value, int):
        if not -_BEYOND < value < _BEYOND:
            raise NoJsonForm("an integer of more than 4299 digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NoJsonForm(f"the number {value}")
        return float(value)
    if isinstance(value, _CONTAINERS):
        if depth >= _MAX_DEPTH:
            raise NoJsonForm(f"nesting of more than {_MAX_DEPTH} levels")
        if isinstance(value, OBJECTS):
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
            # Integers take a shortcut, because a result may be a million numbers, and the event loop waits.
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
        text = name if type(name) is str and name.isascii() else _text(name)
        try:
            walked[text] = _walk(item, convert, depth)
        except NoJsonForm as refused:
            refused.place.append(f".{text[: 2 * _SHOWN]}")
            raise
    return walked


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise NoJsonForm("text that is not valid Unicode") from error
    # A subclass of `str` may override `__str__`. The plain text is stored.
    return str.__str__(value)
