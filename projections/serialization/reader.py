"""Reading a dictionary that came from outside: each value is what it should be, or an error names its key."""

import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from steptrail.domain.errors import InvalidStateData, NotStorable
from steptrail.domain.instants import from_iso
from steptrail.domain.json_value import JsonValue
from steptrail.domain.storable import storable

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


class Reader:
    """One object of a document. `path` is where it stands; every method raises `InvalidStateData`."""

    def __init__(self, data: Mapping[str, JsonValue], path: str = "") -> None:
        self.data, self._path = data, path

    @classmethod
    def of(cls, data: object) -> "Reader":
        """Return a reader of the whole document."""
        if not isinstance(data, Mapping):
            raise InvalidStateData("(the document)", f"an object, not {_kind(data)}")
        return cls(data)  # pyright: ignore[reportUnknownArgumentType]  # each value is checked when it is read

    def at(self, key: str) -> str:
        """Return the path of a key."""
        return f"{self._path}.{key}" if self._path else key

    def has(self, key: str) -> bool:
        """Tell whether the key holds anything."""
        return self.data.get(key) is not None

    def value(self, key: str) -> JsonValue:
        """Return what stands there, whatever it is, if it can be stored."""
        found = self.data.get(key)
        try:
            storable(found)
        except NotStorable as error:
            raise InvalidStateData(self.at(key), "JSON that UTF-8 can hold") from error
        return found

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text; without a default it must be there."""
        found = self.data.get(key)
        if found is None and default is not None:
            return default
        if not isinstance(found, str):
            raise InvalidStateData(self.at(key), f"a text, not {_kind(found)}")
        try:
            found.encode()
        except UnicodeEncodeError as error:
            raise InvalidStateData(self.at(key), "a text that UTF-8 can hold") from error
        return found

    def text_or_none(self, key: str) -> str | None:
        """Return a text, or None where there is none."""
        return self.text(key) if self.has(key) else None

    def truth(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        found = self.data.get(key)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise InvalidStateData(self.at(key), f"true or false, not {_kind(found)}")
        return found

    def count(self, key: str, most: int | None = None) -> int:
        """Return a whole number from 0 to `most`; 0 where there is none."""
        found = self.data.get(key)
        if found is None:
            return 0
        if isinstance(found, bool) or not isinstance(found, int) or found < 0 or (most is not None and found > most):
            raise InvalidStateData(self.at(key), f"a whole number from 0{f' to {most}' if most is not None else ''}")
        return found

    def seconds(self, key: str) -> float:
        """Return a number of seconds from 0; 0 where there is none."""
        found = self.data.get(key)
        if found is None:
            return 0.0
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= sys.float_info.max:
            raise InvalidStateData(self.at(key), "a number of seconds from 0")
        return float(found)

    def instant(self, key: str) -> int | None:
        """Return an instant in microseconds of UTC, or None where there is none."""
        text = self.text_or_none(key)
        try:
            return None if text is None else from_iso(text)
        except (ValueError, OverflowError) as error:
            raise InvalidStateData(self.at(key), "an instant in ISO 8601 with its offset from UTC") from error

    def one_of(self, key: str, kind: type[E]) -> E:
        """Return a member of an enumeration."""
        found = self.data.get(key)
        known = {each.value: each for each in kind}
        if not isinstance(found, str) or found not in known:
            raise InvalidStateData(self.at(key), f"one of {', '.join(known)}")
        return known[found]

    def object(self, key: str) -> "Reader":
        """Return an object, empty where there is none."""
        found = self.data.get(key)
        if found is None:
            return Reader({}, self.at(key))
        if not isinstance(found, Mapping):
            raise InvalidStateData(self.at(key), f"an object, not {_kind(found)}")
        return Reader(found, self.at(key))

    def values(self, key: str) -> dict[str, JsonValue]:
        """Return an object as values that can be stored, empty where there is none."""
        found = self.object(key)
        self.value(key)
        return dict(found.data)

    def objects(self, key: str) -> list["Reader"]:
        """Return a list of objects, empty where there is none."""
        found = self.data.get(key)
        if found is None:
            return []
        if not isinstance(found, list):
            raise InvalidStateData(self.at(key), f"a list, not {_kind(found)}")
        path = self.at(key)
        for place, each in enumerate(found):
            if not isinstance(each, Mapping):
                raise InvalidStateData(f"{path}[{place}]", f"an object, not {_kind(each)}")
        return [Reader(each, f"{path}[{place}]") for place, each in enumerate(found) if isinstance(each, Mapping)]

    def made(self, key: str, make: Callable[[], T]) -> T:
        """Return what `make` makes of values that were read; what it refuses is the fault of `key`."""
        try:
            return make()
        except (NotStorable, ValueError) as error:
            raise InvalidStateData(self.at(key), f"valid JSON: {error}") from error


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
