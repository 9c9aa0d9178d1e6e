"""Pieces of a reply that no protocol of ours knows are put together as its streams are: by what they look like."""

from collections.abc import Mapping
from typing import Final

from steptrail.domain.json_value import JsonValue

_SAID_AGAIN: Final = frozenset({"id", "index", "model", "name", "role", "signature", "type"})
"""Texts that are whole wherever they stand: servers repeat them with every piece."""
_LONG: Final = frozenset({"arguments", "content", "data", "summary", "text", "thinking", "transcript"})
"""Texts inside of objects that come in pieces. The others come whole."""


def merge_fields(before: dict[str, JsonValue], piece: Mapping[str, JsonValue]) -> None:
    """Add the fields of a piece to those before it: text is appended, lists and objects grow, null is ignored."""
    for name, value in piece.items():
        if value is not None:
            before[name] = _merged(before.get(name), value, is_long=name not in _SAID_AGAIN)


def merge_values(before: Mapping[str, JsonValue], piece: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object with another piece of it; only texts that are known to be long come in pieces."""
    merged = dict(before)
    for name, value in piece.items():
        if value is not None or name not in merged:
            merged[name] = _merged(merged.get(name), value, is_long=name in _LONG)
    return merged


def _merged(before: JsonValue, piece: JsonValue, *, is_long: bool) -> JsonValue:
    match before, piece:
        case str(), str() if is_long:
            return before + piece
        case dict(), dict():
            return merge_values(before, piece)
        case list(), list():
            return _extended(before, piece)
        case _:
            return piece


def _extended(before: list[JsonValue], pieces: list[JsonValue]) -> list[JsonValue]:
    """Return a list with further entries; a piece of the same type and number as the last goes on with that."""
    entries = list(before)
    for piece in pieces:
        last = entries[-1] if entries else None
        if isinstance(last, dict) and isinstance(piece, dict) and _goes_on(last, piece):
            entries[-1] = merge_values(last, piece)
        else:
            entries.append(piece)
    return entries


def _goes_on(last: Mapping[str, JsonValue], piece: Mapping[str, JsonValue]) -> bool:
    is_piece = "index" in piece or not _LONG.isdisjoint(piece)
    return is_piece and all(last.get(name) == piece.get(name) for name in ("type", "index"))
