"""Reads the records that a stream is folded from: those of the past that it was forked from, and then its own.

A fork begins with an event that names a stream and a version. The events up to that version are read from that stream
and are not copied. A fork of a fork reads both pasts.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.machine import E, Machine
from steptrail.domain.kernel.record import EMPTY_STREAM, Recorded, StreamHead, StreamVersion
from steptrail.runtime.kernel.ports import EventStore

_PAGE = 500
"""How many records are held at a time while a stream is folded: so many that a processor's cache holds them with their
rows from the read to the fold. With 4,000 of them a fold takes a third longer."""
LARGE_PAGE = 10_000
"""For one who looks at a stream once: each page goes from one thread to another, and so from one processor's cache."""


async def pages(
    machine: Machine[Any, Any, E, Any],
    store: EventStore,
    stream: str,
    *,
    after: int | StreamHead = 0,
    at: int | None = None,
    most: int = _PAGE,
) -> AsyncGenerator[tuple[Sequence[Recorded[E]], StreamHead]]:
    """Yield the records of a stream in pages, from after `after` up to version `at`. Each page comes with its head.

    A page has at most `most` records, and of a past that is shared at most 500; a commit that is longer is one page.
    The pages of a fork's past come before its own. If `after` is a head, and not just a version, the digests of all
    records are verified from there on. Raises `CorruptRecord`, also when the past that a fork names does not exist.
    """
    is_begin = not (after if isinstance(after, int) else after.version)
    async for records, head in _own_pages(machine, store, stream, after=after, at=at, most=most):
        if is_begin:
            async for page in _past(machine, store, stream, records, is_sound=not isinstance(after, int)):
                yield page
            is_begin = False
        yield records, head


async def _own_pages(
    machine: Machine[Any, Any, E, Any],
    store: EventStore,
    stream: str,
    *,
    after: int | StreamHead,
    at: int | None,
    most: int = _PAGE,
) -> AsyncGenerator[tuple[Sequence[Recorded[E]], StreamHead]]:
    while True:
        version = after if isinstance(after, int) else after.version
        limit = most if at is None else min(most, at - version)
        stored = await store.read(stream, after=after, limit=limit)
        # After a head whole commits are read, of which one may be longer than a page, and go on behind version `at`.
        yield typed_records(machine, stored.records if at is None else stored.records[: at - version]), stored.head
        if stored.is_end or (at is not None and stored.head.version >= at):
            return
        after = stored.head.version if isinstance(after, int) else stored.head


async def history(
    machine: Machine[Any, Any, E, Any], store: EventStore, stream: str, *, at: int | None = None
) -> Sequence[Recorded[E]]:
    """Return all records that a stream is folded from, up to its version `at`."""
    whole: list[Recorded[E]] = []
    async for records, _ in pages(machine, store, stream, at=at, most=LARGE_PAGE):
        whole += records
    return whole


async def records_between(store: EventStore, stream: str, after: int, upto: int) -> Sequence[Recorded[Event]]:
    """Return the records of a stream after version `after`, up to version `upto`. A store may read fewer at a time."""
    found: list[Recorded[Event]] = []
    while after < upto:
        stored = await store.read(stream, after=after, limit=upto - after)
        found += stored.records
        after = upto if stored.is_end else stored.head.version
    return found


async def history_of_types(
    machine: Machine[Any, Any, E, Any], store: EventStore, stream: str, types: Sequence[str], *, at: int | None = None
) -> Sequence[Recorded[E]]:
    """Return those records of `history` whose stored type is one of `types`. No others are decoded, but the first."""
    return [record async for _, record in placed_of_types(machine, store, stream, types, at=at)]


async def placed_of_types(
    machine: Machine[Any, Any, E, Any], store: EventStore, stream: str, types: Sequence[str], *, at: int | None = None
) -> AsyncGenerator[tuple[str, Recorded[E]]]:
    """Yield the same records, each with the stream in which it is stored: that of its fork, or of the past of one."""
    forks = await _forks(machine, store, stream, (await store.read(stream, limit=1)).records)
    for part, upto in (*((past.stream, past.version) for *_, past in forks), (stream, at)):
        async for _, _, record in store.log(stream=part, types=types):
            if upto is not None and record.version > upto:
                break
            for each in typed_records(machine, [record]):
                yield part, each


def typed_records(machine: Machine[Any, Any, E, Any], records: Sequence[Recorded[Event]]) -> Sequence[Recorded[E]]:
    """Return the same records, with the type of the machine's events."""
    del machine  # it is here for its type `E` only
    return cast("Sequence[Recorded[E]]", records)


async def _forks(
    machine: Machine[Any, Any, E, Any], store: EventStore, stream: str, records: Sequence[Recorded[Event]]
) -> Sequence[tuple[str, Recorded[E], StreamVersion]]:
    """Return each fork from the oldest to `stream`, which begins with `records`: its name, its first record, its past.

    They are found one after the other, and not each inside the last, because a session may be forked any number of
    times. Raises `CorruptRecord` for a fork that goes on from itself.
    """
    found: dict[str, tuple[Recorded[E], StreamVersion]] = {}
    while (first := typed_records(machine, records[:1])) and (past := machine.forked_from(first[0].event)):
        found[stream] = first[0], past
        if past.stream in found:
            why = f"it goes on from {past.stream}, which goes on from it"
            raise CorruptRecord(stream, first[0].version, first[0].event.TYPE, why)
        stream = past.stream
        records = (await store.read(stream, limit=1)).records
    return [(each, *fork) for each, fork in reversed(found.items())]


async def _past(
    machine: Machine[Any, Any, E, Any],
    store: EventStore,
    stream: str,
    records: Sequence[Recorded[E]],
    *,
    is_sound: bool,
) -> AsyncGenerator[tuple[Sequence[Recorded[E]], StreamHead]]:
    for each, fork, past in await _forks(machine, store, stream, records):
        reached, end = 0, EMPTY_STREAM
        async for page, end in _own_pages(
            machine, store, past.stream, after=EMPTY_STREAM if is_sound else 0, at=past.version
        ):
            reached = page[-1].version if page else reached
            yield page, end
        if reached != past.version:
            why = f"it goes on from event {past.version} of {past.stream}, which ends at {reached}"
            raise CorruptRecord(each, fork.version, fork.event.TYPE, why)
        if is_sound and past.digest not in {"", end.digest.hex()}:
            why = f"it goes on from event {past.version} of {past.stream}, which has changed"
            raise CorruptRecord(each, fork.version, fork.event.TYPE, why)
