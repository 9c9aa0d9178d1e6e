"""The state of a run after any of its events: a real fold, shown in parts of known size, and what it changed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from steptrail.domain.errors import CorruptRecord, stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.secrets import without_secrets
from steptrail.interfaces.cli.kinds import kind_shown
from steptrail.interfaces.http.inspector.bodies import Abridged, abridged
from steptrail.interfaces.http.inspector.stops import Neighbours, neighbours_of
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.masking import Masking, shortened
from steptrail.projections.state_difference import StateChange, state_difference

_LAST: Final = 20
"""How many entries of a long list are shown: the last ones."""
_LONGEST: Final = 2_000
"""Characters of one text."""


class ShownChange(NamedTuple):
    """One change between two states, on one line, with the class of the style sheet."""

    said: str
    tone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAt:
    """The state after event `version` of `count`; `damage` is why it cannot be told.

    `since` is the event from which `changes` are told, None where they are not asked for; `is_cut` says that there are
    more of them. `near` are the steps and decisions before and behind it, None where there are none.
    """

    version: int
    count: int
    shown: Abridged | None
    damage: str | None = None
    since: int | None = None
    changes: Sequence[ShownChange] = ()
    is_cut: bool = False
    near: Neighbours | None = None


async def state_at(
    trail: Steptrail, stream: str, masking: Masking, version: int, count: int, since: int | None = None
) -> StateAt:
    """Return the state after an event, or after the last one where there are fewer, and what is new since another."""
    at = min(version, count)
    before = None if since is None else min(since, at)
    try:
        data = await _data(trail, stream, at)
        earlier = None if before is None else await _data(trail, stream, before)
    except CorruptRecord as error:
        return StateAt(version=at, count=count, shown=None, damage=str(error))
    # What has changed may be a million values, each of which is looked at for secrets.
    changes, is_cut = ((), False) if earlier is None else await asyncio.to_thread(shown_changes, masking, earlier, data)
    return StateAt(
        version=at,
        count=count,
        shown=await asyncio.to_thread(lambda: abridged(shortened(masking.value(_last(data)), _LONGEST), most=40_000)),
        since=before,
        changes=changes,
        is_cut=is_cut,
        near=await neighbours_of(trail.store, stream, at, count),
    )


async def _data(trail: Steptrail, stream: str, at: int) -> JsonValue:
    shown, handle = kind_shown(stream), trail.handle(stream_name(stream))
    state: Any = await handle.state(at=at)
    history = await handle.history(at=at, types=shown.types)
    # All of the state, of which the page has the last entries: that of a long run takes seconds to write.
    return await asyncio.to_thread(lambda: dict(shown.state_data(state, history)))


def shown_changes(masking: Masking, before: JsonValue, after: JsonValue) -> tuple[Sequence[ShownChange], bool]:
    """Return what differs in two values, as it may be shown, and whether there is more."""
    tones = {"added": "good", "removed": "bad", "changed": "warn"}
    if masking.mask is None:  # the function of a service may look at the whole of an object
        before, after = _without_equals(before, after)
    if masking.shows_values:
        before, after = masking.value(before), masking.value(after)
    found = state_difference(before, after)
    said = str if masking.shows_values else _path_and_kind
    return [ShownChange(said(each), tones[each.kind]) for each in found.changes], found.is_cut


def _path_and_kind(change: StateChange) -> str:
    return f"{without_secrets(change.path)}: {change.kind}"  # a key may be a credential


def _without_equals(one: JsonValue, other: JsonValue) -> tuple[JsonValue, JsonValue]:
    """Return both without what they have in common, each part in its place: of a long run that is nearly all."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = {key: _without_equals(one[key], other[key]) for key in one if key in other and one[key] != other[key]}
        here = {key: pairs[key][0] if key in pairs else one[key] for key in one if key not in other or key in pairs}
        there = {key: pairs[key][1] if key in pairs else other[key] for key in other if key not in one or key in pairs}
        return here, there
    if isinstance(one, list) and isinstance(other, list):
        both = [(None, None) if a == b else _without_equals(a, b) for a, b in zip(one, other, strict=False)]
        return (
            [*(pair[0] for pair in both), *one[len(both) :]],
            [*(pair[1] for pair in both), *other[len(both) :]],
        )
    return one, other


def _last(value: JsonValue) -> JsonValue:
    """Return the value with the last entries of each long list, and the number of those before."""
    match value:
        case dict():
            return {key: _last(inner) for key, inner in value.items()}
        case list() if len(value) > _LAST:
            return [f"… {len(value) - _LAST} before", *map(_last, value[-_LAST:])]
        case list():
            return [_last(inner) for inner in value]
        case _:
            return value
