"""The two parts of a stored event: its state, and its content, which can be sealed or erased without the other.

Content is what the classes of events name so (ADR 57). It has the form of the event, without what is state: of a reply
`{"reply":{"parts":[{"text":"…"}]}}`. Folds of decisions, lists and sums need none of it.
"""

from functools import cache
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import NODEFAULT, convert, structs

from steptrail.domain.base import Value
from steptrail.domain.content import content_of
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import EVENT_TYPES, Event
from steptrail.domain.readable import readable
from steptrail.infrastructure.store.core.codec import decode_state

_ENCODER = msgspec.json.Encoder()
_decode = msgspec.json.Decoder().decode


def encoded_parts(event: Event) -> tuple[bytes, bytes | None]:
    """Return the state and the content of an event; None where it has no content.

    Raises `ValueError` for text that is not Unicode.
    """
    if _plan(type(event)) is None:
        return _ENCODER.encode(event), None
    state, content = _parted(event)
    return _ENCODER.encode(state), None if content is None else _ENCODER.encode(content)


def joined(type_name: str, state: bytes, content: object) -> bytes:
    """Return the encoded event of which these are the parts. Raises `ValueError` when they do not fit.

    A state that is not bytes, because a hand wrote it, is returned as it is: decoding it says so.
    """
    if content is None or not isinstance(cast("object", state), bytes):
        return state
    if not isinstance(content, bytes):
        raise ValueError(f"its content is {type(content).__name__}, not bytes")
    if state == b"{}":
        return content
    if type_name in EVENT_TYPES and _is_all_at_the_top(EVENT_TYPES[type_name]):
        return state[:-1] + b"," + content[1:]
    return _ENCODER.encode(_together(state, content))


def decode_parts(type_name: str, state: bytes, content: object) -> Event:
    """Return the event of which these are the parts. Raises `ValueError` as `joined` and `decode_state` do.

    An event whose content stands inside of other fields is made of the joined values: their text is not needed.
    """
    kind = EVENT_TYPES.get(type_name)
    if kind is None or not isinstance(content, bytes) or _is_all_at_the_top(kind):
        return decode_state(type_name, joined(type_name, state, content))
    return convert(_together(state, content), readable(kind))


def _together(state: bytes, content: bytes) -> Any:
    together = _decode(state)
    _join(together, _decode(content))
    return together


@cache
def _is_all_at_the_top(kind: type[Event]) -> bool:
    """Tell whether all content of an event stands in fields of its own, and none inside of others."""
    return not any("." in path for path in content_of(kind))


class _Field(NamedTuple):
    name: str
    default: Any
    is_made_by_default: bool
    is_content: bool
    holds_content: bool


class _Plan(NamedTuple):
    tag: dict[str, Any]
    fields: tuple[_Field, ...]


@cache
def _plan(kind: type[Value]) -> _Plan | None:
    """Return how values of a class are parted; None for a class without content."""
    if not (content := content_of(kind)):
        return None
    config, below = kind.__struct_config__, {path.split(".")[0] for path in content}
    fields = tuple(
        _Field(
            field.encode_name,
            field.default,
            field.default_factory is not NODEFAULT,
            field.name in kind.CONTENT,
            field.name in below,
        )
        for field in structs.fields(kind)
    )
    return _Plan({config.tag_field: config.tag} if config.tag_field is not None else {}, fields)


def _parted(value: object) -> tuple[Any, Any]:
    """Return the state and the content of a value, as what is to be encoded; None for no content."""
    if isinstance(value, tuple):
        parts = [_parted(item) for item in cast("tuple[object, ...]", value)]
        contents = [content for _, content in parts]
        return [state for state, _ in parts], contents if any(item is not None for item in contents) else None
    if not isinstance(value, Value) or (plan := _plan(type(value))) is None:
        return value, None
    state, content = plan.tag.copy(), dict[str, Any]()
    for name, default, is_made_by_default, is_content, holds_content in plan.fields:
        item = getattr(value, name)
        # What msgspec leaves out of the stored form is left out here.
        if item is default or (is_made_by_default and not item):
            continue
        if is_content:
            content[name] = item
        elif holds_content:
            state[name], inside = _parted(item)
            if inside is not None:
                content[name] = inside
        else:
            state[name] = item
    return state, content or None


def _join(state: JsonValue, content: JsonValue) -> None:
    """Put a content, or a part of one, into the place in the state that it belongs to."""
    if isinstance(state, dict) and isinstance(content, dict):
        for name, item in content.items():
            if name not in state:
                state[name] = item
            elif item is not None:
                _join(state[name], item)
    elif isinstance(state, list) and isinstance(content, list) and len(state) == len(content):
        for one, other in zip(state, content, strict=True):
            if other is not None:
                _join(one, other)
    else:
        raise ValueError("its content does not fit its state")
