"""The records that a stream is folded from: its own, and before them those of the past that it was forked from.

A fork begins with an event that names a stream and a version. The events up to there are read where they are stored,
without a copy, and a fork of a fork reads both pasts.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar, cast

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.machine import Machine
from steptrail.domain.kernel.record import EMPTY_STREAM, Recorded, StreamHead, StreamVersion
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["history", "pages", "typed_records"]

E = TypeVar("E", bound=Event)

_PAGE = 1_000
"""Records that are held at a time while a stream is folded."""


async def pages(
    machine: Machine[Any, Any, E, Any],
    store: EventStore,
    stream: str,
    *,
    after: int | StreamHead = 0,
    at: int | None = None,
) -> AsyncGenerator[tuple[Sequence[Recorded[E]], StreamHead]]:
    """Yield the records of a stream after a version up to version `at`, a page at a time, each with its head.

    After a head their digests are verified from there on, and so are those of a fork's past, whose pages come before
    its own. Raises `CorruptRecord`, also when the past that a fork names is not there.
    """
    while True:
        version = after if isinstance(after, int) else after.version
        limit = _PAGE if at is None else min(_PAGE, at - version)
        stored = await store.read(stream, after=after, limit=limit)
        records = typed_records(machine, stored.records[:limit])
        past = machine.forked_from(records[0].event) if records and version == 0 else None
        if past is not None:
            async for page in _past(machine, store, stream, records[0], past, is_sound=not isinstance(after, int)):
                yield page
        yield records, stored.head
        if stored.is_end or (at is not None and stored.head.version >= at):
            return
        after = stored.head.version if isinstance(after, int) else stored.head


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
    machine: Machine[Any, Any, E, Any],
    store: EventStore,
    stream: str,
    fork: Recorded[E],
    past: StreamVersion,
    *,
    is_sound: bool,
) -> AsyncGenerator[tuple[Sequence[Recorded[E]], StreamHead]]:
    reached, end = 0, EMPTY_STREAM
    async for records, end in pages(
        machine, store, past.stream, after=EMPTY_STREAM if is_sound else 0, at=past.version
    ):
        reached = records[-1].version if records else reached
        yield records, end
    if reached != past.version:
        why = f"it goes on from event {past.version} of {past.stream}, which ends at {reached}"
        raise CorruptRecord(stream, fork.version, fork.event.TYPE, why)
    if is_sound and past.digest not in {"", end.digest.hex()}:
        why = f"it goes on from event {past.version} of {past.stream}, which has changed"
        raise CorruptRecord(stream, fork.version, fork.event.TYPE, why)
