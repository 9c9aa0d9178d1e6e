"""Lists over every stream of a store, of whatever kind: the runs, what was begun for one of them, what can go on.

They ask the index, which is written with the commits, so none of them is late and none reads the log. Whether a process
runs a session is asked of the leases, once for a list.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum

from msgspec.structs import replace

from steptrail.domain.errors import ConfigurationError, CorruptRecord
from steptrail.domain.instants import to_datetime
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.usage import Usage
from steptrail.projections.kinds import PROJECTIONS
from steptrail.projections.questions import Question
from steptrail.projections.tree import RunTree
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["due_runs", "listed_runs", "one_of", "open_questions", "tree_of"]

_AT_REST = frozenset({StandingState.RESTING, StandingState.PAUSED})


def one_of(words: type[StrEnum], name: str, word: str | None) -> str | None:
    """Return the word that a list is asked for. Raises `ConfigurationError` for one that does not exist."""
    known = [each.value for each in words]
    if word is None or word in known:
        return word
    raise ConfigurationError(f"no run has the {name} {word!r}: there are {', '.join(known)}")


async def listed_runs(store: EventStore, asked: IndexQuery) -> Sequence[RunSummary]:
    """Return what the index says of the streams, and of each that is being worked on whether its owner has crashed."""
    return await _marked(store, await store.index(asked))


async def open_questions(store: EventStore, asked: IndexQuery, now: int) -> Sequence[Question]:
    """Return the questions that can be answered at `now`, of the streams that a query finds."""
    found: list[Question] = []
    for row in await store.index(asked):
        kind, projections = KINDS.of(row.stream), PROJECTIONS.of(row.stream)
        if kind is None or projections is None:
            continue
        with suppress(CorruptRecord):
            state, _ = await fold_stream(kind.machine, store, row.stream)
            found += projections.questions(row.stream, state)
    return [each for each in found if each.expires_at is None or each.expires_at > to_datetime(now)]


async def tree_of(store: EventStore, stream: str) -> RunTree | None:
    """Return a stream with those below it; None for one that is not there. See `Steptrail.tree`."""
    rows = {row.stream: row for row in await store.index(IndexQuery(streams=[stream]))}
    level = list(rows)
    while level:
        below = await store.index(IndexQuery(parents=level))
        level = [row.stream for row in below if row.stream not in rows]
        rows.update((row.stream, row) for row in reversed(below))
    if not rows:
        return None
    marked = {row.stream: row for row in await _marked(store, rows.values())}
    return await _tree(store, stream, marked)


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


async def due_runs(store: EventStore, now: int, limit: int | None) -> Sequence[RunSummary]:
    """Return what a worker could bring on at `now`, the stream that began last first; see `Steptrail.due`."""
    rows = await listed_runs(store, IndexQuery(due_by=now))
    known = {row.stream: row for row in rows}
    asked_for = {wait.on for row in rows for wait in row.waits if wait.on is not None} - known.keys()
    while asked_for:
        found = await listed_runs(store, IndexQuery(streams=sorted(asked_for)))
        known.update((row.stream, row) for row in found)
        asked_for = {wait.on for row in found for wait in row.waits if wait.on is not None} - known.keys() - asked_for
    return [row for row in rows if _can_go_on(row, known, now)][:limit]


def _can_go_on(row: RunSummary, known: Mapping[str, RunSummary], now: int) -> bool:
    if row.damage is not None:
        return False
    if row.is_crashed or (row.due_at is not None and row.due_at <= now):
        return True
    below = [wait.on for wait in row.waits if wait.on is not None] if row.standing is StandingState.RESTING else []
    return any(_moves(each, known, now) for each in below)


def _moves(stream: str, known: Mapping[str, RunSummary], now: int) -> bool:
    """Tell whether a stream that another one waits for does not rest any more."""
    row = known.get(stream)
    # One that is not there has not begun, and one that has ended is awaited: in both cases its parent goes on.
    return row is None or row.standing not in _AT_REST or _can_go_on(row, known, now)


async def _marked(store: EventStore, rows: Iterable[RunSummary]) -> list[RunSummary]:
    """Return the rows, those whose owner has crashed marked so.

    A process may have ended its run between the two looks, so what no lease is seen of is looked up once more. An owner
    stores its last event before it releases the lease.
    """
    found = list(rows)
    working = [row.stream for row in found if row.standing is StandingState.WORKING]
    leased = await store.leased() if working else None
    if leased is None or not (free := [stream for stream in working if stream not in leased]):
        return found
    again = {row.stream: row for row in await store.index(IndexQuery(streams=free))}
    return [
        row if (newest := again.get(row.stream)) is None else replace(newest, is_crashed=newest.version == row.version)
        for row in found
    ]
