"""Lists that need more than the rows of the index: open questions, and the tree of all that was begun for a run."""

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec.structs import replace

from steptrail.domain.errors import ConfigurationError, CorruptRecord
from steptrail.domain.instants import to_datetime
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.usage import Usage
from steptrail.projections.kinds import PROJECTIONS
from steptrail.projections.questions import Question
from steptrail.projections.tree import RunTree
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.lists import marked
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["one_of", "open_questions", "tree_of"]

_READ_AT_ONCE = 4
"""How many streams are read at the same time: as many as a store with a server answers."""


def one_of(words: type[StrEnum], name: str, word: str | None) -> str | None:
    """Return the word that a list is asked for. Raises `ConfigurationError` for one that does not exist."""
    known = [each.value for each in words]
    if word is None or word in known:
        return word
    raise ConfigurationError(f"no run has the {name} {word!r}: there are {', '.join(known)}")


async def open_questions(store: EventStore, asked: IndexQuery, now: int) -> Sequence[Question]:
    """Return the questions that can be answered at `now`, of the streams that a query finds."""
    few = asyncio.Semaphore(_READ_AT_ONCE)

    async def of(row: RunSummary) -> Sequence[Question]:
        kind, projections = KINDS.of(row.stream), PROJECTIONS.of(row.stream)
        if kind is None or projections is None:
            return ()
        async with few:
            try:
                state, _ = await fold_stream(kind.machine, store, row.stream, about=row.version)
            except CorruptRecord:
                return ()
            return projections.questions(row.stream, state)

    found = await asyncio.gather(*map(of, await store.index(asked)))
    return [each for those in found for each in those if each.expires_at is None or each.expires_at > to_datetime(now)]


async def tree_of(store: EventStore, stream: str) -> RunTree | None:
    """Return a stream with those below it; None for one that is not there. See `Steptrail.tree`."""
    rows = {row.stream: row for row in await store.index(IndexQuery(streams=[stream]))}
    level = list(rows)
    while level:
        below = [
            *await store.index(IndexQuery(parents=level)),
            *await store.index(IndexQuery(parents=level, erased=True)),
        ]
        level = [row.stream for row in below if row.stream not in rows]
        rows.update((row.stream, row) for row in reversed(below))
    if not rows:
        return None
    return await _tree(store, stream, {row.stream: row for row in await marked(store, rows.values())})


async def _tree(store: EventStore, stream: str, rows: Mapping[str, RunSummary]) -> RunTree:
    below = [row.stream for row in rows.values() if row.parent is not None and row.parent.stream == stream]
    children = tuple([await _tree(store, each, rows) for each in below])
    own, damage = await _bill(store, stream)
    usage = sum((child.usage for child in children), own)
    row = rows[stream]
    return RunTree(run=replace(row, damage=row.damage or damage), own_usage=own, usage=usage, children=children)


async def _bill(store: EventStore, stream: str) -> tuple[Usage, str | None]:
    """Return what the model calls of a stream were billed, and what of it could not be read."""
    kind, usage, damage = PROJECTIONS.of(stream), Usage(), list[str]()
    if kind is None:
        return usage, None
    types = kind.bill.types
    async for _, _, record in store.log(types=types, stream=stream, on_corrupt=lambda error: damage.append(str(error))):
        usage = usage + (kind.bill.billed(record.event) or Usage())
    return usage, damage[0] if damage else None
