"""YAML as it is read here: what means the same in YAML 1.1 and 1.2, and nothing that grows or hides.

Tags, anchors, aliases, merge keys and equal keys are refused, and so are the words and numbers that the two versions
read differently: `on: error` was a truth value as a key, `0123` an octal number, `1:30` ninety.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from steptrail.domain.flow.diagnostic import Diagnostic
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.extras import from_extra

Place = tuple[str | int, ...]
"""The keys and indices on the way to a value."""

UNREADABLE: Final = "FL-100"
"""The code of a text that cannot be read."""

OLD_BREAKS: Final = "\x85\u2028\u2029"
"""The characters that end a line in YAML 1.1, and do not in 1.2."""

_MOST_LEVELS: Final = 100
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_OLD_WORD = re.compile(r"yes|no|on|off", re.IGNORECASE)
_OLD_NUMBER = re.compile(
    r"[-+]?(?:0[0-9_]+|0b[01_]+|[0-9]++_[0-9_]*+(?:\.[0-9_]*)?|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)"
)
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_OTHER_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class Placed(NamedTuple):
    """A value that was read, the line and column of each part of it, from 1, and what was wrong with the text."""

    value: JsonValue
    places: dict[Place, tuple[int, int]]
    diagnostics: tuple[Diagnostic, ...]


def unreadable(message: str, line: int = 1, column: int = 1, hint: str | None = None) -> Placed:
    """Return what is left of a text that cannot be read: why."""
    refused = Diagnostic(code=UNREADABLE, message=message, line=line, column=column, hint=hint)
    return Placed(None, {}, (refused,))


def read_yaml(text: str) -> Placed:
    """Return what a text of YAML says. Raises `MissingExtra` without the package."""
    yaml = from_extra("yaml", "flow", "YAML", "PyYAML")
    if found := next((each for each in OLD_BREAKS if each in text), None):
        before = text[: text.index(found)].split("\n")
        said = f"the character U+{ord(found):04X} ends a line to some readers"
        hint = f"write \\u{ord(found):04x} in double quotes"
        return unreadable(said, len(before), len(before[-1]) + 1, hint)
    reader = _Reader(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    try:
        value = reader.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        return unreadable(error.problem or error.context or str(error), line, column)
    except yaml.YAMLError as error:
        return unreadable(str(error).partition("\n")[0])
    return Placed(value, reader.places, tuple(reader.diagnostics))


class _TooDeep(Exception):
    pass


class _Reader:
    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self.places: dict[Place, tuple[int, int]] = {}
        self.diagnostics: list[Diagnostic] = []

    def document(self) -> JsonValue:
        """Return the only document of the text."""
        value: JsonValue = None
        count = 0
        for event in self._events:
            if type(event).__name__ == "DocumentStartEvent":
                count += 1
                if count > 1:
                    self._refuse(event, (), "a text holds one workflow")
                    break
                try:
                    value = self._value(next(self._events), ())
                except _TooDeep:
                    return None
        return value

    def _value(self, event: Any, place: Place) -> JsonValue:
        self.places.setdefault(place, _at(event))
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._refuse(event, place, "an alias is not read", "write the value again")
        if event.anchor is not None:
            self._refuse(event, place, "an anchor is not read", "write the value where it is needed")
        if event.tag is not None:
            self._refuse(event, place, f"the tag {event.tag} is not read", "quote a text")
        if len(place) > _MOST_LEVELS:
            self._refuse(event, place[:3], f"it is nested more than {_MOST_LEVELS} levels deep")
            raise _TooDeep
        match kind:
            case "ScalarEvent":
                return self._scalar(event, place)
            case "SequenceStartEvent":
                return self._sequence(place)
            case _:
                return self._mapping(place)

    def _sequence(self, place: Place) -> JsonValue:
        items: list[JsonValue] = []
        while type(event := next(self._events)).__name__ != "SequenceEndEvent":
            items.append(self._value(event, (*place, len(items))))
        return items

    def _mapping(self, place: Place) -> JsonValue:
        entries: dict[str, JsonValue] = {}
        while type(event := next(self._events)).__name__ != "MappingEndEvent":
            key = self._key(event, place)
            inner = (*place, key)
            if key in entries:
                self._refuse(event, inner, f"the key {key!r} stands twice")
            self.places[inner] = _at(event)
            entries[key] = self._value(next(self._events), inner)
        return entries

    def _key(self, event: Any, place: Place) -> str:
        before = len(self.diagnostics)
        found = self._value(event, (*place, ""))
        self.places.pop((*place, ""), None)
        if isinstance(found, str) and found != "<<":
            return found
        if len(self.diagnostics) == before:
            self._refuse(event, place, "a key is a text", "quote it")
        return event.value if type(event).__name__ == "ScalarEvent" else f"line {event.start_mark.line + 1}"

    def _scalar(self, event: Any, place: Place) -> JsonValue:
        text: str = event.value
        if event.style:
            return text
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        if _OLD_WORD.fullmatch(text):
            hint = "write true or false, or quote it"
            return self._refuse(event, place, f"{text} is a truth value to some readers", hint)
        if _OLD_NUMBER.fullmatch(text):
            return self._refuse(event, place, f"{text} is another number to some readers", "write it out, or quote it")
        if _NO_NUMBER.fullmatch(text):
            return self._refuse(event, place, f"{text} is no number of JSON", "quote a text")
        return self._number(event, text, place)

    def _number(self, event: Any, text: str, place: Place) -> JsonValue:
        number: float | None = None
        try:
            if _INT.fullmatch(text) or _OTHER_INT.fullmatch(text):
                return int(text, 0)
            number = float(text) if _FLOAT.fullmatch(text) else None
        except ValueError:
            return self._refuse(event, place, "the number has too many digits")
        if number is None:
            return text
        return number if math.isfinite(number) else self._refuse(event, place, f"{text} is too large")

    def _refuse(self, event: Any, place: Place, message: str, hint: str | None = None) -> JsonValue:
        line, column = _at(event)
        self.diagnostics.append(
            Diagnostic(code=UNREADABLE, path=path_of(place), message=message, line=line, column=column, hint=hint)
        )
        return None


def path_of(place: Place) -> str:
    """Return a place as a text such as `nodes[3].retry`."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place).lstrip(".")


def _at(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
