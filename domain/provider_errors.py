"""Reads the message and the code of a provider's error, in any of the usual forms.

OpenAI's protocols have an object `error` with `message`, `type` and `code`; others have a text in its place, or only a
`detail`, or wrap the words of the service behind them.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, cast

from steptrail.domain.exception_words import unicode_text

_DEEPEST: Final = 5
"""How many levels of nesting are searched."""
_SAY_NOTHING: Final = frozenset({"error", "none"})
_Object = Mapping[str, object]


class ProviderError(NamedTuple):
    """The message for people, the provider's own word for the error, and the HTTP status that it names."""

    message: str | None = None
    code: str | None = None
    status: int | None = None


def read_error(body: object) -> ProviderError:
    """Return the data of an error's body. The body may be whole, or be the inner object of it."""
    found = _objects(body)
    return ProviderError(
        message=_words(body),
        code=next((code for name in ("code", "type") for each in found if (code := _code(each.get(name)))), None),
        status=next((status for each in found if (status := _status(each)) is not None), None),
    )


def _objects(body: object) -> list[_Object]:
    """Return the error object and the objects around it, the innermost first."""
    found: list[_Object] = []
    inner = _first(body)
    while isinstance(inner, Mapping) and len(found) < _DEEPEST:
        told = cast("_Object", inner)
        found.insert(0, told)
        inner = _first(told.get("error") or told.get("errors"))
    return found


def _first(value: object) -> object:
    """Return the first item of a list, because some services put an error into a list; else the value itself."""
    return next(iter(cast("list[object]", value)), None) if isinstance(value, list) else value


def _words(body: object, levels: int = _DEEPEST) -> str | None:
    if isinstance(body, str):
        return body.strip() or None
    if not levels:
        return None
    if isinstance(body, list):
        said = [words for each in cast("list[object]", body) if (words := _words(each, levels - 1))]
        return "; ".join(said[:5]) or None
    if not isinstance(body, Mapping):
        return None
    told = cast("_Object", body)
    places = ("error", "errors", "message", "msg", "detail", "error_description")
    words = next((words for name in places if (words := _words(told.get(name), levels - 1))), None)
    if words is not None and isinstance(told.get("msg"), str):
        words = _located(told.get("loc"), words)
    return _with_origin(words, told.get("metadata"), levels)


def _located(place: object, words: str) -> str:
    """Return the message about a field of the request, after the name of the field."""
    if not isinstance(place, Sequence) or isinstance(place, str) or not place:
        return words
    return f"{'.'.join(str(step) for step in cast('Sequence[object]', place))}: {words}"


def _with_origin(words: str | None, metadata: object, levels: int) -> str | None:
    """Return the message, with that of the provider behind a gateway, which says more than the gateway's own."""
    raw = cast("_Object", metadata).get("raw") if isinstance(metadata, Mapping) else None
    if isinstance(raw, str):
        with suppress(ValueError, RecursionError):
            raw = json.loads(raw)
    said = _words(raw, levels - 1)
    return f"{words}: {said}" if words and said and said != words else words or said


def _code(value: object) -> str | None:
    # Some servers repeat the status as the code. Then the type says more.
    is_word = isinstance(value, str) and value.strip() and not value.isdigit() and value not in _SAY_NOTHING
    return unicode_text(cast("str", value))[:200] if is_word else None


def _status(told: _Object) -> int | None:
    for name in ("status_code", "status", "code"):
        value = told.get(name)
        if isinstance(value, str) and value.isdecimal():
            value = int(value[:4])
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
    return None
