"""Find in a run: a text in what its events show, masked as everywhere, a part of known size at a time."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.cli.output import printable
from steptrail.interfaces.http.inspector.bodies import escaped
from steptrail.interfaces.http.inspector.events import record_shown, said_of, sound_events
from steptrail.projections.masking import Masking
from steptrail.runtime.kernel.ports import EventStore

LONGEST_WANTED: Final = 200
"""Characters of a text that is looked for."""
MOST_EVENTS: Final = 2_000
"""So many events are looked at for one page."""
MOST_HITS: Final = 50
_MOST_CHARACTERS: Final = 4_000_000
"""No event is looked at after so many characters."""
_PART: Final = 200
_AROUND: Final = 60
"""Characters of a text that are shown on each side of what was found."""


class Hit(NamedTuple):
    """An event in which the text stands: the first place, as a JSON pointer if it is one, and what stands around it.

    `record` is masked.
    """

    record: Recorded[Any]
    where: str
    before: str
    match: str
    behind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvents:
    """The events in which a text stands, of those from `first` to `last` of `count`.

    `next` is the first event that was not looked at; None when all were. `damage` says why one was passed over.
    """

    hits: Sequence[Hit]
    first: int
    last: int
    count: int
    next: int | None
    damage: str | None


async def find(store: EventStore, stream: str, masking: Masking, wanted: str, *, first: int, count: int) -> FoundEvents:
    """Look for a text in the events of a run from event `first` on, whatever the case of its letters."""
    pattern = re.compile(re.escape(printable(wanted)), re.IGNORECASE)  # as it is shown
    hits: list[Hit] = []
    damage: CorruptRecord | None = None
    last, end, characters = first - 1, min(count, first - 1 + MOST_EVENTS), 0
    while last < end and characters < _MOST_CHARACTERS and len(hits) < MOST_HITS and damage is None:
        limit = min(_PART, end - last)
        records, damage = await sound_events(store, stream, last, limit)
        passed = last + limit if damage is None else damage.version
        room = MOST_HITS - len(hits), _MOST_CHARACTERS - characters
        # An event may hold a million values, each of which is looked at for secrets.
        looked_at = await asyncio.to_thread(_looked_at, stream, records, masking, pattern, *room)
        hits += looked_at.hits
        characters += looked_at.characters
        if looked_at.is_full:
            last, damage = looked_at.last, None  # the damage is for the next part
        else:
            last = passed
    following, said = last + 1 if last < count else None, None if damage is None else str(damage)
    return FoundEvents(hits=hits, first=first, last=last, count=count, next=following, damage=said)


class _LookedAt(NamedTuple):
    """The hits up to event `last`, and whether there is room for no more."""

    hits: Sequence[Hit]
    last: int
    characters: int
    is_full: bool


def _looked_at(
    stream: str,
    records: Sequence[Recorded[Any]],
    masking: Masking,
    pattern: re.Pattern[str],
    most_hits: int,
    most_characters: int,
) -> _LookedAt:
    hits, last, characters = list[Hit](), 0, 0
    for record in records:
        hit, looked_at = _hit(stream, record, masking, pattern)
        last, characters = record.version, characters + looked_at
        hits += [hit] if hit is not None else []
        if len(hits) == most_hits or characters >= most_characters:
            return _LookedAt(hits, last, characters, is_full=True)
    return _LookedAt(hits, last, characters, is_full=False)


def _hit(stream: str, record: Recorded[Any], masking: Masking, pattern: re.Pattern[str]) -> tuple[Hit | None, int]:
    """Return the first place of an event where a text stands, if there is one, and how many characters it has."""
    characters, shown_of = 0, masking.event(record.event)
    masked = record_shown(record, shown_of)
    for where, text in _texts(stream, masked, shown_of, masking):
        shown = printable(text)
        characters += len(shown)
        found = pattern.search(shown)
        if found is not None:
            start, end = found.span()
            cut_before, cut_behind = max(0, start - _AROUND), end + _AROUND
            hit = Hit(
                record=masked,
                where=where,
                before=("… " if cut_before else "") + shown[cut_before:start],
                match=shown[start:end],
                behind=shown[end:cut_behind] + (" …" if cut_behind < len(shown) else ""),
            )
            return hit, characters
    return None, characters


def _texts(stream: str, record: Recorded[Any], shown: JsonValue, masking: Masking) -> Iterator[tuple[str, str]]:
    """Yield what an event shows, each text with its place."""
    yield from _leaves(shown, "")
    yield "", record.event.TYPE
    if record.head is not None and record.head.actor:
        yield "by", record.head.actor
    yield "", said_of(stream, record, masking)


def _leaves(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for key, inner in value.items():
                here = f"{path}/{escaped(key)}"
                yield here, key
                yield from _leaves(inner, here)
        case list():
            for number, inner in enumerate(value):
                yield from _leaves(inner, f"{path}/{number}")
        case None:
            pass
        case bool():
            yield path, "true" if value else "false"
        case _:
            yield path, str(value)
