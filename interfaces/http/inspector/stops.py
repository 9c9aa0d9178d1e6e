"""The neighbours of a state: the steps and the decisions before and behind it, looked for in parts of known size."""

from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.kinds import PROJECTIONS, StateStops
from steptrail.runtime.kernel.history import records_between
from steptrail.runtime.kernel.ports import EventStore

_PART: Final = 100
_PARTS: Final = 10
"""So many parts of the events are read to each side, if nothing is found before."""


class Neighbours(NamedTuple):
    """The events in front of and behind one at which a step or a decision is, by the word; None for none near it."""

    before: Mapping[str, int | None]
    behind: Mapping[str, int | None]


async def neighbours_of(store: EventStore, stream: str, at: int, count: int) -> Neighbours | None:
    """Return the neighbours of the state after event `at` of `count`; None for a kind of stream that has none."""
    projections = PROJECTIONS.of(stream)
    stops = projections.stops if projections is not None else StateStops()
    if not stops.words:
        return None
    return Neighbours(
        before=await _first(stops, _before(store, stream, at)),
        behind=await _first(stops, _behind(store, stream, at, count)),
    )


async def _first(stops: StateStops, records: AsyncIterator[Recorded[Event]]) -> Mapping[str, int | None]:
    found: dict[str, int | None] = dict.fromkeys(stops.words)
    try:
        async for record in records:
            word = stops.of(record.event)
            if word is not None and found[word] is None:
                found[word] = record.version
                if None not in found.values():
                    break
    except CorruptRecord:
        pass  # the page says so where the events stand
    return found


async def _before(store: EventStore, stream: str, at: int) -> AsyncIterator[Recorded[Event]]:
    end = at - 1
    for _ in range(_PARTS):
        after = max(0, end - _PART)
        if end <= after:
            return
        for record in reversed(await records_between(store, stream, after, end)):
            yield record
        end = after


async def _behind(store: EventStore, stream: str, at: int, count: int) -> AsyncIterator[Recorded[Event]]:
    for after in range(at, min(count, at + _PART * _PARTS), _PART):
        for record in await records_between(store, stream, after, after + _PART):
            yield record
