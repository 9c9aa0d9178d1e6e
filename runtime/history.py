"""What a stream is folded from: its own records, and before them those of the past that it was forked from.

A fork begins with an event that names a stream and a version. The events up to there are read where they are stored;
nothing is copied, and a fork of a fork reads both pasts.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar, cast

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.event import Event
from steptrail.domain.kernel import Machine
from steptrail.domain.record import Recorded, StreamHead, StreamVersion
from steptrail.runtime.ports import EventStore

__all__ = ["history", "pages", "typed_records"]

E = TypeVar("E", bound=Event)

_PAGE = 1_000
"""Records that are held at a time while a stream is folded."""


async def pages(
    machine: Machine[Any, Any, E, Any], store: EventStore, stream: str, *, after: int = 0, at: int | None = None
) -> AsyncGenerator[tuple[Sequence[Recorded[E]], StreamHead]]:
    """Yield the records of a stream after version `after` up to version `at`, a page at a time.

    The pages of a fork's past come before its own. The last page, which may be empty, has the head of the stream.
    Raises `CorruptRecord`, also when the past that a fork names is not there.
    """
    while True:
        limit = _PAGE if at is None else min(_PAGE, at - after)
        stored = await store.read(stream, after=after, limit=limit)
        records = typed_records(machine, stored.records)
        past = machine.past_of(records[0].event) if records and after == 0 else None
        if past is not None:
            async for page in _past(machine, store, stream, records[0], past):
                yield page
        yield records, stored.head
        if len(records) < _PAGE:
            return
        after = records[-1].version


async def history(
    machine: Machine[Any, Any, E, Any], store: EventStore, stream: str, *, at: int | None = None
) -> Sequence[Recorded[E]]:
    """Return everything that a stream is folded from, up to its version `at`."""
    whole: list[Recorded[E]] = []
    async for records, _ in pages(machine, store, stream, at=at):
        whole += records
    return whole


def typed_records(machine: Machine[Any, Any, E, Any], records: Sequence[Recorded[Event]]) -> Sequence[Recorded[E]]:
    """Return the records of one of the machine's streams as what they are."""
    del machine  # it says of which events
    return cast("Sequence[Recorded[E]]", records)


async def _past(
    machine: Machine[Any, Any, E, Any], store: EventStore, stream: str, fork: Recorded[E], past: StreamVersion
) -> AsyncGenerator[tuple[Sequence[Recorded[E]], StreamHead]]:
    reached = 0
    async for records, head in pages(machine, store, past.stream, at=past.version):
        reached = records[-1].version if records else reached
        yield records, head
    if reached != past.version:
        why = f"it goes on from event {past.version} of {past.stream}, which ends at {reached}"
        raise CorruptRecord(stream, fork.version, fork.event.TYPE, why)
