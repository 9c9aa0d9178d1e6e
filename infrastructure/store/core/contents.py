"""The two parts of a stored event: its state, and its content, which can be sealed or erased without the other.

Content is what the classes of events name so (ADR 57). It has the form of the event, without what is state: of a reply
`{"reply":{"parts":[{"text":"…"}]}}`. Folds of decisions, lists and sums need none of it.
"""

from functools import cache
from typing import cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from steptrail.domain.content import content_of
from steptrail.domain.kernel.event import EVENT_TYPES
from steptrail.infrastructure.store.core.codec import INSTANT_WIDTH

__all__ = ["joined", "parted"]

_Wanted = dict[str, "_Wanted | None"]
"""The fields that are content, and None; those that hold some, and what of them."""


def parted(type_name: str, whole: bytes) -> tuple[bytes, bytes | None]:
    """Return the state and the content of an encoded event; None where it has no content."""
    wanted = _wanted(type_name)
    if not wanted or len(whole) <= INSTANT_WIDTH + 1:
        return whole, None
    state, content = _taken(from_json(b"{" + whole[INSTANT_WIDTH + 1 :]), wanted)
    if content is None:
        return whole, None
    left = to_json(state)
    return whole[:INSTANT_WIDTH] + (b"}" if left == b"{}" else b"," + left[1:]), to_json(content)


def joined(type_name: str, state: bytes, content: object) -> bytes:
    """Return the encoded event of which these are the parts. Raises `ValueError` when they do not fit.

    A state that is not bytes, because a hand wrote it, is returned as it is: decoding it says so.
    """
    if content is None or not isinstance(cast("object", state), bytes):
        return state
    if not isinstance(content, bytes):
        msg = f"its content is {type(content).__name__}, not bytes"
        raise ValueError(msg)
    if type_name in EVENT_TYPES and all(below is None for below in _wanted(type_name).values()):
        return state[:-1] + b"," + content[1:]
    together = _joined(from_json(b"{" + state[INSTANT_WIDTH + 1 :] if b"," in state else b"{}"), from_json(content))
    return state[:INSTANT_WIDTH] + b"," + to_json(together)[1:]


@cache
def _wanted(type_name: str) -> _Wanted:
    tree: _Wanted = {}
    for path in content_of(EVENT_TYPES[type_name]):
        *way, last = path.split(".")
        level = tree
        for name in way:
            level = cast("_Wanted", level.setdefault(name, {}))
        level[last] = None
    return tree


def _taken(value: JsonValue, wanted: _Wanted) -> tuple[JsonValue, JsonValue]:
    """Return what is left of a value, and its content; None for none."""
    if isinstance(value, list):
        parts = [_taken(item, wanted) for item in value]
        contents = [content for _, content in parts]
        return [left for left, _ in parts], contents if any(item is not None for item in contents) else None
    if not isinstance(value, dict):
        return value, None
    left: dict[str, JsonValue] = {}
    content: dict[str, JsonValue] = {}
    for name, item in value.items():
        if name not in wanted:
            left[name] = item
        elif (below := wanted[name]) is None:
            content[name] = item
        else:
            left[name], inside = _taken(item, below)
            if inside is not None:
                content[name] = inside
    return left, content or None


def _joined(left: JsonValue, content: JsonValue) -> JsonValue:
    if content is None:
        return left
    if isinstance(left, dict) and isinstance(content, dict):
        return left | {name: _joined(left[name], item) if name in left else item for name, item in content.items()}
    if isinstance(left, list) and isinstance(content, list) and len(left) == len(content):
        return [_joined(one, other) for one, other in zip(left, content, strict=True)]
    msg = "its content does not fit its state"
    raise ValueError(msg)
