"""Reads dataclasses from JSON, checking all of it, and writes them: by functions that are generated for each class.

This is the least that such a decoder has to do; its length belongs to what the form costs.
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import orjson

__all__ = ["Least", "PlainCodec", "Short", "Unreadable"]


@dataclass(frozen=True, slots=True)
class Least:
    """The smallest number that a field may hold."""

    value: int


@dataclass(frozen=True, slots=True)
class Short:
    """The key under which a field is stored."""

    key: str


class Unreadable(ValueError):
    """The JSON is not that of the class. Gathers the place on its way up."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what, self.place = what, list[str]()

    def __str__(self) -> str:
        """Return what is wrong and where."""
        return f"{self.what} at ${''.join(reversed(self.place))}"


Reading = Callable[[Any], Any]


class PlainCodec:
    """Reads and writes one dataclass and whatever stands in it."""

    def __init__(self, cls: type) -> None:
        self._readers: dict[type, Reading] = {}
        self._writers: dict[type, Reading] = {}
        self._read, self._write = self._reader(cls), self._writer(cls)

    def decode(self, written: bytes) -> Any:
        """Return the value. Raises `ValueError` for JSON that is not one of the class."""
        return self._read(orjson.loads(written))

    def encode(self, value: object) -> bytes:
        """Return the JSON of the value, without the fields that hold their defaults."""
        return orjson.dumps(self._write(value))

    def _reader(self, cls: type) -> Reading:
        if cls not in self._readers:
            known: dict[str, Any] = {"cls": cls, "unreadable": Unreadable}
            hints = get_type_hints(cls, include_extras=True)
            lines = ["def read(found):", " if type(found) is not dict: raise unreadable(f'{type(found)} is no object')"]
            lines += [" seen = 0"]
            for each in fields(cls):
                key, name = _key(hints[each.name], each.name), each.name
                known[f"r_{name}"] = self._reader_of(hints[name])
                if each.default is MISSING and each.default_factory is MISSING:
                    otherwise = f"raise unreadable('{key} is missing')"
                else:
                    known[f"d_{name}"] = each.default if each.default is not MISSING else None
                    fresh = each.default is MISSING
                    known[f"f_{name}"] = each.default_factory
                    otherwise = f"{name} = f_{name}()" if fresh else f"{name} = d_{name}"
                lines += [
                    f" if '{key}' in found:",
                    "  seen += 1",
                    f"  try: {name} = r_{name}(found['{key}'])",
                    f"  except unreadable as error: error.place.append('.{key}'); raise",
                    f" else: {otherwise}",
                ]
            known["keys"] = {_key(hints[each.name], each.name) for each in fields(cls)}
            known["tag"] = hasattr(cls, "TAG")
            lines += [
                " if seen + tag != len(found): raise unreadable(f'unknown field {sorted(set(found) - keys)}')",
                f" return cls({', '.join(f'{each.name}={each.name}' for each in fields(cls))})",
            ]
            self._readers[cls] = _made("read", lines, known)
        return self._readers[cls]

    def _reader_of(self, hint: Any) -> Reading:
        if get_origin(hint) is Annotated:
            inner, *notes = get_args(hint)
            read = self._reader_of(inner)
            least = next((note.value for note in notes if isinstance(note, Least)), None)
            return read if least is None else _at_least(read, least)
        if hint is Any:
            return _as_it_is
        if hint is Decimal:
            return _decimal
        if _is_enum(hint):
            return _one_of({member.value: member for member in hint})
        if hint in (int, float, str, bool):
            return _of_type(hint)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Literal:
            return _one_of({value: value for value in arguments})
        if origin is dict:
            return _of_type(dict)
        if origin is tuple:
            return _each(self._reader_of(arguments[0]))
        if type(None) in arguments:
            rest = tuple(argument for argument in arguments if argument is not type(None))
            return _or_none(self._reader_of(rest[0] if len(rest) == 1 else Union[rest]))  # noqa: UP007
        if arguments:
            return _tagged({cls.TAG: self._reader(cls) for cls in arguments})
        return self._reader(hint)

    def _writer(self, cls: type) -> Reading:
        if cls not in self._writers:
            known: dict[str, Any] = {}
            hints = get_type_hints(cls, include_extras=True)
            tag: str | None = getattr(cls, "TAG", None)
            lines = ["def write(value):", " found = {}" if tag is None else f" found = {{'kind': {tag!r}}}"]
            for each in fields(cls):
                name, key = each.name, _key(hints[each.name], each.name)
                known[f"w_{name}"] = write = self._writer_of(hints[name])
                known[f"d_{name}"] = each.default if each.default is not MISSING else {}
                required = each.default is MISSING and each.default_factory is MISSING
                told = "item" if write is None else f"w_{name}(item)"
                lines += [f" item = value.{name}", f" if {True if required else f'item != d_{name}'}:"]
                lines += [f"  found['{key}'] = {told}"]
            self._writers[cls] = _made("write", [*lines, " return found"], known)
        return self._writers[cls]

    def _writer_of(self, hint: Any) -> Reading | None:
        if get_origin(hint) is Annotated:
            return self._writer_of(get_args(hint)[0])
        if hint is Decimal:
            return str
        inside = [argument for argument in get_args(hint) if hasattr(argument, "__dataclass_fields__")]
        if get_origin(hint) is tuple:
            each = self._writer_of(get_args(hint)[0])
            return None if each is None else lambda items: [each(item) for item in items]
        if len(inside) > 1:
            writers = {cls: self._writer(cls) for cls in inside}
            return lambda item: writers[type(item)](item)
        if inside:
            return self._writer(inside[0])
        return self._writer(hint) if hasattr(hint, "__dataclass_fields__") else None


def _made(name: str, lines: list[str], known: dict[str, Any]) -> Reading:
    exec("\n".join(lines), known)  # noqa: S102
    return cast(Reading, known[name])


def _key(hint: Any, name: str) -> str:
    return next((note.key for note in get_args(hint)[1:] if isinstance(note, Short)), name)


def _is_enum(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def _as_it_is(found: Any) -> Any:
    return found


def _of_type(wanted: type) -> Reading:
    def read(found: Any) -> Any:
        if type(found) is wanted:
            return found
        if wanted is float and type(found) is int:
            return float(found)
        raise Unreadable(f"{type(found).__name__} where {wanted.__name__} belongs")

    return read


def _at_least(read: Reading, least: int) -> Reading:
    def checked(found: Any) -> Any:
        value = read(found)
        if value < least:
            raise Unreadable(f"{value} is less than {least}")
        return value

    return checked


def _one_of(known: dict[Any, Any]) -> Reading:
    def read(found: Any) -> Any:
        try:
            return known[found]
        except (KeyError, TypeError):
            raise Unreadable(f"{found!r} is none of {sorted(known)}") from None

    return read


def _each(read: Reading) -> Reading:
    checked = _of_type(list)

    def read_all(found: Any) -> Any:
        done: list[Any] = []
        try:
            for item in checked(found):
                done.append(read(item))
        except Unreadable as error:
            error.place.append(f"[{len(done)}]")
            raise
        return tuple(done)

    return read_all


def _or_none(read: Reading) -> Reading:
    return lambda found: None if found is None else read(found)


def _tagged(readers: dict[str, Reading]) -> Reading:
    def read(found: Any) -> Any:
        kind = cast("dict[str, Any]", found).get("kind") if isinstance(found, dict) else None
        if kind not in readers:
            raise Unreadable(f"the kind {kind!r} is none of {sorted(readers)}")
        return readers[kind](found)

    return read


def _decimal(found: Any) -> Decimal:
    try:
        return Decimal(found)
    except (InvalidOperation, TypeError, ValueError):
        raise Unreadable(f"{found!r} is no number") from None
