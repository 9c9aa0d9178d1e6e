"""The events of a run on a page: a chunk of them, each with its number, on one line; and one of them whole."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from steptrail.domain.base import LARGEST
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.cli.kinds import summary_of
from steptrail.interfaces.http.inspector.bodies import Abridged, abridged
from steptrail.interfaces.http.inspector.words import duration
from steptrail.projections.masking import Masking, as_shown
from steptrail.runtime.kernel.history import records_between
from steptrail.runtime.kernel.ports import EventStore

CHUNK: Final = 200
"""How many events are on a page."""


class Line(NamedTuple):
    """One event on one line. `since` is the time since the event before; empty for the first of a chunk.

    `record` is masked. `said` is what it says in words, `tone` the class of the style sheet, and `whole` all of the
    event that is chosen.
    """

    record: Recorded[Any]
    since: str
    said: str
    tone: str
    whole: Abridged | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A chunk of the events of a run, which has `count` events. `damage` is why it ends before its end."""

    lines: Sequence[Line]
    first: int
    count: int
    damage: str | None = None

    @property
    def last(self) -> int:
        """The number of the last event of the chunk."""
        return min(self.count, self.first + CHUNK - 1)

    @property
    def before(self) -> int | None:
        """An event of the chunk before; None for the first chunk."""
        return self.first - 1 if self.first > 1 else None

    @property
    def behind(self) -> int | None:
        """An event of the chunk behind; None for the last chunk."""
        return self.last + 1 if self.last < self.count else None


async def chunk_of(store: EventStore, stream: str, masking: Masking, *, count: int, chosen: int | None) -> Chunk:
    """Return the chunk with the chosen event, which is shown whole, or the last chunk."""
    after = (min(chosen or count, count) - 1) // CHUNK * CHUNK
    records, damage = await sound_events(store, stream, after, CHUNK)
    # An event may hold a million values, each of which is looked at for secrets.
    lines = await asyncio.to_thread(list, _lines(stream, records, masking, chosen))
    return Chunk(lines=lines, first=after + 1, count=count, damage=None if damage is None else str(damage))


def _lines(stream: str, records: Sequence[Recorded[Any]], masking: Masking, chosen: int | None) -> Iterator[Line]:
    for before, record in zip((None, *records), records, strict=False):
        shown = masking.event(record.event)
        since = "" if before is None else f"+{duration((record.at - before.at) / 1e6)}"
        whole = abridged(shown) if record.version == chosen else None
        masked = record_shown(record, shown)
        yield Line(masked, since, said_of(stream, masked, masking), _tone(record.event), whole)


def record_shown(record: Recorded[Any], shown: JsonValue) -> Recorded[Any]:
    """Return a record whose event holds what is `shown` of it, so that no page can say more."""
    return Recorded(record.version, record.at, as_shown(record.event, shown), record.head)


def said_of(stream: str, masked: Recorded[Any], masking: Masking) -> str:
    """Return an event of `record_shown` in words; empty where no values are shown."""
    return summary_of(stream, masked.event) if masking.shows_values else ""


async def event_at(store: EventStore, stream: str, version: int) -> Recorded[Event] | None:
    """Return one event of a stream; None where there is none. Raises `CorruptRecord`."""
    if not 1 <= version <= LARGEST:
        return None
    records = (await store.read(stream, after=version - 1, limit=1)).records
    return records[0] if records else None


async def sound_events(
    store: EventStore, stream: str, after: int, limit: int
) -> tuple[Sequence[Recorded[Any]], CorruptRecord | None]:
    """Return some events of a stream, and the error for which they end before one that cannot be read."""
    upto, damage = after + limit, None
    while True:
        try:
            return await records_between(store, stream, after, upto), damage
        except CorruptRecord as error:  # of a commit with a size too large, the last event of each read
            upto, damage = error.version - 1, error


def _tone(event: Event) -> str:
    """Return the class of the style sheet by which an event stands out."""
    name = event.TYPE
    if ".failed." in name or name.startswith(("tool.call.blocked", "answer.rejected")):
        return "bad"
    warns = ("retry.", "limit.", "model.switched", "conversation.compacted")
    if ".interrupted." in name or ".retry." in name or name.startswith(warns):
        return "warn"
    asks = ("approval.requested", "human.requested", "tool.call.deferred", "wait.started", "step.held")
    return "asks" if name.startswith(asks) else ""
