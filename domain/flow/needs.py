"""The settings that operations and checks need, looked at where a node is made and not when it runs."""

from collections.abc import Mapping, Sequence
from typing import Final

from steptrail.domain.flow.kinds.values import TYPES, has_type, number_in, text_of
from steptrail.domain.json_value import JsonValue

_EXTENT: Final = ("min", "max")
_NEEDED: Final[Mapping[str, Mapping[str, Sequence[tuple[str, ...]]]]] = {
    "transform": {
        "pick": [("keys",)],
        "omit": [("keys",)],
        "rename": [("names",)],
        "combine": [("paths",)],
        "template": [("template",)],
        "expr": [("expression",)],
    },
    "filter": {
        "top_n": [("n",)],
        "threshold": [_EXTENT],
        "type": [("types",)],
        "match": [("pattern", "values")],
        "exclude": [("pattern", "values")],
        "expression": [("expression",)],
    },
    "check": {
        "required": [("path",)],
        "length": [("path",), _EXTENT],
        "range": [("path",), _EXTENT],
        "pattern": [("path",), ("pattern",)],
        "enum": [("path",), ("values",)],
        "type": [("path",), ("type",)],
        "schema": [("path",), ("schema",)],
        "expr": [("expression",)],
    },
}
"""For transforms, filters and checks: each operation or kind -> the rows of settings of which it needs one."""


_TYPE_OF: Final[Mapping[str, tuple[str, str]]] = {
    "max": ("number", "a number"),
    "min": ("number", "a number"),
    "names": ("object", "an object"),
    "schema": ("object", "an object"),
    "template": ("string", "a text"),
    "values": ("array", "a list"),
}
"""Name of a setting -> its type in JSON, and that in words."""


def wrong_setting(of: str, operation: str, given: Mapping[str, JsonValue]) -> tuple[str, str] | None:
    """Return the name of the first setting that is missing or wrong, and what is expected there; None for nothing.

    `of` is `transform`, `filter` or `check`. `given` holds the settings, and as `expression` the text of that.
    """
    for names in _NEEDED[of].get(operation, ()):
        if all(given.get(name) is None for name in names):
            return names[0], f"Expected {' or '.join(map(repr, names))}, which {operation!r} needs"
    for name, value in given.items():
        if value is not None and (what := _wrong(name, value)) is not None:
            return name, f"Expected {what}, not {value!r:.100}"
    least, most = (number_in(given.get(name)) for name in _EXTENT)
    if least is not None and most is not None and least > most:
        return "min", f"Expected a number up to 'max', {text_of(most)}, not {text_of(least)}"
    return None


def _wrong(name: str, value: JsonValue) -> str | None:
    """Return what a setting holds if the value is something else; None if it is not, or is read by somebody else."""
    if name in _TYPE_OF:
        kind, said = _TYPE_OF[name]
        return None if has_type(value, kind) else said
    match name:
        case "keys" | "paths":
            fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
            return None if fits else "a list of texts"
        case "n":
            number = number_in(value)
            fits = number is not None and number >= 0 and has_type(number, "integer")
            return None if fits else "a whole number from 0"
        case "type":
            return None if value in TYPES else f"one of {', '.join(TYPES)}"
        case "types":
            fits = isinstance(value, list) and all(each in TYPES for each in value)
            return None if fits else f"some of {', '.join(TYPES)}"
        case _:
            return None
