"""The first difference between what was recorded and what came now, in words that name the place."""

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from steptrail.domain.base import full_form
from steptrail.domain.compact_json import compact_json
from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, ToolCallPart, ToolResultPart
from steptrail.domain.storable import storable
from steptrail.domain.tools import ToolSpec
from steptrail.projections.state_difference import StateChange, in_common, state_difference

_IN_A_PART: Final = re.compile(r"parts\[(\d+)\]\.?(.*)")
_AROUND: Final = 60
"""Characters that are shown on either side of the place where two texts part."""


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING: Final = _Nothing()


def difference_of_requests(recorded: ModelRequest, now: ModelRequest, *, shape_only: bool = False) -> str | None:
    """Return where two requests part first, or None.

    With `shape_only` two requests are alike when their messages have the same roles and kinds of parts, with the same
    tools called and answered, and the same tools are offered: texts, arguments and settings may differ.
    """
    pairs = zip_longest(recorded.messages, now.messages)
    for number, (was, is_now) in enumerate(pairs, start=1):
        found = _difference_of_messages(number, was, is_now, shape_only=shape_only)
        if found is not None:
            return found
    return _difference_of_tools(recorded.tools, now.tools, shape_only=shape_only) or (
        None if shape_only else _difference_of_settings(recorded, now)
    )


def difference_of_values(recorded: JsonValue, now: JsonValue) -> str | None:
    """Return where two JSON values part first, or None."""
    change = _first(recorded, now)
    return None if change is None else _changed(change.path or "the whole", change)


def _difference_of_messages(
    number: int, recorded: Message | None, now: Message | None, *, shape_only: bool
) -> str | None:
    if recorded is None or now is None:
        present = recorded or now
        where = f"message {number} ({present.role.value if present else ''})"
        return _told(where, _summary(recorded), _summary(now))
    was, is_now = (_shape(recorded), _shape(now)) if shape_only else (_plain(recorded), _plain(now))
    change = _first(was, is_now)
    if change is None:
        return None
    part = _IN_A_PART.fullmatch(change.path)
    inside = (change.path,) if part is None else (f"part {int(part[1]) + 1}", part[2])
    where = ", ".join(each for each in (f"message {number} ({recorded.role.value})", *inside) if each)
    return _changed(where, change)


def _plain(message: Message) -> JsonValue:
    return storable(msgspec.to_builtins(message))


def _shape(message: Message) -> JsonValue:
    parts: list[JsonValue] = [
        {"kind": part.kind, "name": part.name}
        if isinstance(part, ToolCallPart | ToolResultPart)
        else {"kind": part.kind}
        for part in message.parts
    ]
    return {"role": message.role.value, "parts": parts}


def _summary(message: Message | None) -> object:
    if message is None:
        return _NOTHING
    return message.text or [part.kind for part in message.parts]


def _difference_of_tools(recorded: Sequence[ToolSpec], now: Sequence[ToolSpec], *, shape_only: bool) -> str | None:
    before, after = [tool.name for tool in recorded], [tool.name for tool in now]
    if shape_only:
        return _told("the tools", sorted(before), sorted(after)) if sorted(before) != sorted(after) else None
    if before != after:
        return _told("the tools and their order", before, after)
    for was, is_now in zip(recorded, now, strict=True):
        if (change := _first(full_form(was), full_form(is_now))) is not None:
            return _changed(f"tool {was.name!r}, {change.path}", change)
    return None


def _difference_of_settings(recorded: ModelRequest, now: ModelRequest) -> str | None:
    for name in ("tool_choice", "parallel_tool_calls"):
        was, is_now = getattr(recorded, name), getattr(now, name)
        if was != is_now:
            return _told(name, was, is_now)
    return None


def _first(recorded: JsonValue, now: JsonValue) -> StateChange | None:
    """Return the first change between two values, or None."""
    return next(iter(state_difference(recorded, now, limit=1).changes), None)


def _changed(where: str, change: StateChange) -> str:
    recorded = _NOTHING if change.kind == "added" else change.before
    return _told(where, recorded, _NOTHING if change.kind == "removed" else change.after)


def _told(where: str, recorded: object, now: object) -> str:
    start = 0
    if isinstance(recorded, str) and isinstance(now, str):
        start = in_common(recorded, now)
    return f"{where}\n  recorded  {_shown(recorded, start)}\n  now       {_shown(now, start)}"


def _shown(value: object, start: int) -> str:
    if value is _NOTHING:
        return repr(value)
    if not isinstance(value, str):
        text = compact_json(value).decode()
        return text if len(text) <= 2 * _AROUND else text[: 2 * _AROUND] + "…"
    first, last = max(0, start - _AROUND), start + _AROUND
    return ("…" if first else "") + repr(value[first:last]) + ("…" if last < len(value) else "")
