"""Bad values and bad JSON in each form: whether they are kept, changed without a word, or refused in which words."""

import datetime
import math
from typing import Any

from benchmarks.values.forms import Form

__all__ = ["BAD_JSON", "BAD_VALUES", "complaint", "fate"]

_COMPLETED = "tool.execution.completed.v1"
_SHOWN = 90


def _nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


BAD_VALUES: dict[str, Any] = {
    "NaN": math.nan,
    "infinity": math.inf,
    "half of a surrogate pair": "\ud800",
    "2**64": 2**64,
    "10**4299": 10**4299,
    "10**4300": 10**4300,
    "150 levels": _nested(150),
    "250 levels": _nested(250),
    "1,100 levels": _nested(1_100),
    "bytes": b"ab",
    "a tuple": (1, 2),
    "a set": {1},
    "a date": datetime.date(2026, 1, 1),
    "a key that is a number": {1: 2},
}
"""What may come back from somebody's tool."""

BAD_JSON: dict[str, tuple[str, bytes]] = {
    "an unknown field": (_COMPLETED, b'{"duration_seconds":0.0,"position":0,"resullt":1}'),
    "a missing field": (_COMPLETED, b"{}"),
    "a wrong type": (_COMPLETED, b'{"duration_seconds":0.0,"position":"x"}'),
    "text where a number belongs": (_COMPLETED, b'{"duration_seconds":0.0,"position":"1"}'),
    "1.0 where an integer belongs": (_COMPLETED, b'{"duration_seconds":0.0,"position":1.0}'),
    "true where an integer belongs": (_COMPLETED, b'{"duration_seconds":0.0,"position":true}'),
    "a number out of range": (_COMPLETED, b'{"duration_seconds":0.0,"position":-1}'),
    "wrong inside": (_COMPLETED, b'{"duration_seconds":0.0,"position":0,"usage":{"models":[{"asked_for":1}]}}'),
    "1e400 in JSON": (_COMPLETED, b'{"duration_seconds":0.0,"position":0,"result":{"a":[1e400]}}'),
    "NaN": (_COMPLETED, b'{"duration_seconds":0.0,"position":0,"result":NaN}'),
    "half of a surrogate pair": (_COMPLETED, b'{"duration_seconds":0.0,"position":0,"result":"\\ud800"}'),
    "a key twice": (_COMPLETED, b'{"duration_seconds":0.0,"position":0,"position":1}'),
    "cut off": (_COMPLETED, b'{"duration_seconds":0.0,"position":0'),
    "an unknown part": (
        "inference.completed.v1",
        b'{"reply":{"finish_reason":"stop","parts":[{"kind":"zz"}]},"duration_seconds":1}',
    ),
    "a part without its kind": (
        "inference.completed.v1",
        b'{"reply":{"finish_reason":"stop","parts":[{"text":"a"}]},"duration_seconds":1}',
    ),
    "an unknown name": ("inference.completed.v1", b'{"reply":{"finish_reason":"zz"},"duration_seconds":1}'),
}
"""What a damaged row, or one of a newer version, may hold."""


def fate(form: Form, value: object) -> str:
    """Say what becomes of a value that a tool returned."""
    build, doing = form.classes.ToolExecutionCompleted, "the constructor refuses"
    try:
        event = build(position=0, result=value)
        doing = "the encoder refuses"
        written = form.encode(event)
        doing = "written and UNREADABLE"
        read = form.decode(_COMPLETED, written).result
    except (ValueError, TypeError, RecursionError) as error:
        return f"{doing}: {_short(error)}"
    return "kept" if read == value and type(read) is type(value) else f"becomes {_cut(repr(read))}"


def complaint(form: Form, kind: str, written: bytes) -> str:
    """Say what a decoder says about JSON that is not one of the event."""
    try:
        event = form.decode(kind, written)
    except (ValueError, TypeError, RecursionError) as error:
        return _short(error)
    return f"READ: {_cut(repr(event))}"


def _short(error: Exception) -> str:
    listed = getattr(error, "errors", None)
    if listed is None:
        return _cut(f"{type(error).__name__}: {error}")
    first = listed(include_url=False, include_input=False)[0]  # as the codec of the store tells it
    return _cut(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def _cut(said: str) -> str:
    said = " ".join(said.split()).replace("|", "\\|")
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
