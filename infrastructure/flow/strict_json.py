"""JSON as it is read here: nothing that stands twice, and no number or text that could not be stored."""

import json
import math
import re
from typing import Final

from steptrail.domain.flow.diagnostic import Diagnostic
from steptrail.domain.storable import is_unicode
from steptrail.infrastructure.flow.strict_yaml import UNREADABLE, Place, Placed, path_of, unreadable

_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s",:\[\]{}]+|[\[\]{},]|\n')
_MOST_DIGITS: Final = 4_300
"""The digits that Python reads of a whole number."""


def read_json(text: str) -> Placed:
    """Return what a text of JSON says."""
    try:
        value = json.loads(text, parse_int=lambda digits: int(digits[:_MOST_DIGITS]))
    except json.JSONDecodeError as error:
        return unreadable(error.msg, error.lineno, error.colno)
    except RecursionError as error:
        return unreadable(str(error))
    return Placed(value, *_walked(text))


def _walked(text: str) -> tuple[dict[Place, tuple[int, int]], tuple[Diagnostic, ...]]:
    """Return where each part of a text of JSON begins, a value with a key at that, and what is refused in it."""
    places: dict[Place, tuple[int, int]] = {}
    refused: list[Diagnostic] = []
    way: list[str | int] = []
    line, line_begins, is_key = 1, 0, False
    for found in _WORD.finditer(text):
        word, why = found[0], None
        at = (line, found.start() - line_begins + 1)
        match word:
            case "\n":
                line, line_begins = line + 1, found.end()
                continue
            case "," if isinstance(way[-1], int):
                way[-1] += 1
                continue
            case ",":
                is_key = True
                continue
            case "]" | "}":
                way.pop()
                continue
            case _ if is_key and way and isinstance(way[-1], str):
                is_key, way[-1] = False, json.loads(word)
                why = f"the key {way[-1]!r} stands twice" if tuple(way) in places else _wrong(word)
                places[tuple(way)] = at
            case _:
                places.setdefault(tuple(way), at)
                why = _wrong(word)
        if why is not None:
            refused.append(Diagnostic(code=UNREADABLE, path=path_of(tuple(way)), message=why, line=at[0], column=at[1]))
        if word in {"[", "{"}:
            way.append(0 if word == "[" else "")
            is_key = word == "{"
    return places, tuple(refused)


def _wrong(word: str) -> str | None:
    """Return why a key, a text or a number is refused; None for one that is not."""
    if word[0] == '"':
        return "it is no valid Unicode" if "\\u" in word and not is_unicode(json.loads(word)) else None
    if word in {"NaN", "Infinity", "-Infinity"}:
        return f"{word} is no number of JSON"
    if word[0] not in "-0123456789":
        return None
    if word.lstrip("-").isdecimal():
        return "the number has too many digits" if len(word.lstrip("-")) > _MOST_DIGITS else None
    return None if math.isfinite(float(word)) else f"{word} is too large"
