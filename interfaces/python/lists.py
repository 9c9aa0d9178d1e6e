"""Lists that need more than the rows of the index: open questions, and the tree of all that was begun for a run."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Any, get_args

from msgspec.structs import replace

from steptrail.domain.errors import ConfigurationError, CorruptRecord, SessionErased
from steptrail.domain.instants import Datetime, from_datetime
from steptrail.domain.kernel.given import a_text
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.events import WaitKind
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.storable import is_unicode
from steptrail.domain.usage import Usage
from steptrail.projections.kinds import PROJECTIONS
from steptrail.projections.questions import Question
from steptrail.projections.tree import RunTree
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.lists import marked
from steptrail.runtime.kernel.ports import EventStore

WAIT_KINDS: tuple[str, ...] = get_args(WaitKind)
"""The kinds of waits that a run may be listed by."""

_READ_AT_ONCE = 4
"""How many streams are read at the same time: as many as a store with a server answers."""


def one_of(words: type[StrEnum], name: str, word: str | None) -> str | None:
    """Return the word that a list is asked for. Raises `ConfigurationError` for one that does not exist."""
    known = [each.value for each in words]
    if word is None or word in known:
        return word
    raise ConfigurationError(f"no run has the {name} {word!r}: there are {', '.join(known)}")


def agent_name(given: str | None) -> str | None:
    """Return the name of the agents or workflows that a list is asked for. Raises `ConfigurationError` for no text."""
    if given is not None and not is_unicode(a_text(given, "`agent`, a name,")):
        raise ConfigurationError("`agent`, a name, is text that is Unicode, without half characters")
    return given


def known_wait(kind: str) -> str:
    """Return a kind of wait. Raises `ConfigurationError` for one that does not exist."""
    if kind in WAIT_KINDS:
        return kind
    raise ConfigurationError(f"no run waits for {kind!r}: there are {', '.join(WAIT_KINDS)}")


def instant_of(what: str, when: Datetime) -> int:
    """Return a time in microseconds of UTC. Raises `ConfigurationError` for one without a zone."""
    if not isinstance(when, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"`{what}` is a datetime with a time zone, not {type(when).__name__}")
    if when.tzinfo is None:
        raise ConfigurationError(f"{what}={when!r} has no time zone: datetime.now(UTC), say")
    return from_datetime(when)


def a_tenant(given: str) -> str:
    """Return the tenant whose runs are asked for. Raises `ConfigurationError` for an empty name and for no text."""
    if a_text(given, "a tenant") == "":
        raise ConfigurationError("the runs of '' are no tenant's: a tenant has a name")
    return given


async def states_of(store: EventStore, rows: Sequence[RunSummary]) -> Mapping[str, Any]:
    """Return the states of some streams, by their ids. One that cannot be read, or was erased since, is left out."""
    few, states = asyncio.Semaphore(_READ_AT_ONCE), dict[str, Any]()

    async def fold(row: RunSummary) -> None:
        kind = KINDS.of(row.stream)
        if kind is None:
            return
        async with few:
            with suppress(CorruptRecord, SessionErased):
                about = row.version if row.fork_of is None else None  # the past of a fork may be long
                states[row.stream], _ = await fold_stream(kind.machine, store, row.stream, about=about)

    await asyncio.gather(*map(fold, rows))
    return states


async def open_questions(store: EventStore, streams: Sequence[str], now: int) -> Sequence[Question]:
    """Return the questions of some streams that can be answered at `now`."""
    return await _questions(store, await store.index(IndexQuery(streams=streams)), now)


async def newest_questions(store: EventStore, asked: IndexQuery, now: int) -> Sequence[Question]:
    """Return the same of the streams that a query finds: as many as it is limited to, if so many are asked anything."""
    found, left = list[Question](), asked.limit
    while True:
        # A question that has expired stands in the index until somebody goes on with the run.
        rows = await store.index(replace(asked, waits_at=now, limit=left))
        of_rows = await _questions(store, rows, now)
        found += of_rows
        if left is None or len(rows) < left or (more := left - len({each.stream for each in of_rows})) == 0:
            return found
        left, asked = more, replace(asked, after=rows[-1].stream)


async def _questions(store: EventStore, rows: Sequence[RunSummary], now: int) -> Sequence[Question]:
    states = await states_of(store, rows)
    found = [
        projections.questions(row.stream, states[row.stream])
        for row in rows
        if row.stream in states and (projections := PROJECTIONS.of(row.stream)) is not None
    ]
    return [each for those in found for each in those if each.is_open_at(now)]


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
    under: dict[str | None, list[RunSummary]] = {}
    for row in await marked(store, rows.values()):
        # The top stands under None, although another stream may have begun it.
        above = row.parent.stream if row.parent is not None and row.stream != stream else None
        under.setdefault(above, []).append(row)
    return await _tree(store, under[None][0], under)


async def _tree(store: EventStore, row: RunSummary, under: Mapping[str | None, Sequence[RunSummary]]) -> RunTree:
    children = tuple([await _tree(store, each, under) for each in under.get(row.stream, ())])
    own, damage = await _bill(store, row.stream)
    usage = sum((child.usage for child in children), own)
    return RunTree(run=replace(row, damage=row.damage or damage), own_usage=own, usage=usage, children=children)


async def _bill(store: EventStore, stream: str) -> tuple[Usage, str | None]:
    """Return what the model calls of a stream were billed, and what of it could not be read."""
    kind, usage, damage = PROJECTIONS.of(stream), Usage(), list[str]()
    if kind is None:
        return usage, None
    types, billed = kind.bill.types, kind.bill.begin()
    async for _, _, record in store.log(types=types, stream=stream, on_corrupt=lambda error: damage.append(str(error))):
        usage = usage + (billed(record.event) or Usage())
    return usage, damage[0] if damage else None
