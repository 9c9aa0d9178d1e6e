"""The lists that the index of a store answers, for streams of any kind: the runs, and what can go on.

The index is written with the commits, so no list is late and none reads the log. Whether a process runs a stream is
asked of the leases, once for a list.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from steptrail.domain.errors import StoreIsStandby
from steptrail.domain.kernel.commands import CALLER
from steptrail.domain.kernel.index_query import DUE_FIRST, IndexQuery
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.due import Due, DueCause
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.ports import EventStore

_STATUS_OF_OPEN = {
    StandingState.PENDING: ExecutionStatus.PENDING.value,
    StandingState.WORKING: ExecutionStatus.IN_PROGRESS.value,
    StandingState.RESTING: ExecutionStatus.WAITING.value,
    StandingState.PAUSED: ExecutionStatus.PAUSED.value,
}
_AT_REST = frozenset({StandingState.RESTING, StandingState.PAUSED})
_MOST_UNTOLD = 1_000
_BEHIND_ALL = 2**63 - 1
_NAMED_AT_ONCE = 500
"""A statement has room for so many names, and for many more."""


async def listed_runs(store: EventStore, asked: IndexQuery) -> Sequence[RunSummary]:
    """Return what the index says of the streams, and of each that is being worked on whether its owner has crashed."""
    return await marked(store, await store.index(asked))


async def crashed_runs(store: EventStore, asked: IndexQuery) -> Sequence[RunSummary]:
    """Return those of the streams that a query asks for whose owner has crashed."""
    working = replace(asked, unless_leased=await store.leased() or (), limit=None)
    return [row for row in await listed_runs(store, working) if row.is_crashed][: asked.limit]


async def due_runs(store: EventStore, now: int, limit: int | None) -> Sequence[RunSummary]:
    """Return what a worker could bring on at `now`, the stream that began last first; see `Steptrail.due`."""
    asked = IndexQuery(due_by=now, moved_by=now, unless_leased=await store.leased(), limit=limit)
    found: list[RunSummary] = []
    while True:
        rows = await store.index(asked)
        found += await why_due(store, rows, now)
        # What was due when the index was asked may have been taken up since.
        if limit is None or len(rows) < limit or len(found) >= limit:
            return found[:limit]
        asked = replace(asked, after=rows[-1].stream)


async def why_due(store: EventStore, rows: Sequence[RunSummary], now: int) -> Sequence[RunSummary]:
    """Return those of the rows that a worker could bring on at `now`, each with the reason."""
    seen = await marked(store, rows)
    known = await _with_those_waited_for(store, seen)
    found = ((row, _why_due(row, known, now)) for row in seen)
    return [replace(row, due=due) for row, due in found if due is not None]


async def oldest_due(store: EventStore, now: int) -> int | None:
    """Return since when the one that is due longest is due, in microseconds of UTC; None when none is.

    A look at few rows, however many are due: of those without an owner and those that wait, at most `_MOST_UNTOLD`.
    """
    first = await store.index(IndexQuery(due_by=now, due_after=DUE_FIRST, limit=1))
    untold = IndexQuery(moved_by=now, unless_leased=await store.leased(), limit=_MOST_UNTOLD)
    since = [row.updated_at for row in await why_due(store, await store.index(untold), now)]
    return min([*since, *(row.due_at for row in first if row.due_at is not None)], default=None)


async def open_counts(store: EventStore) -> Mapping[str, int]:
    """Return how many streams are open, by status; `crashed` is one of them. A status that none has is left out."""
    counts = {
        status: await store.count(IndexQuery(standing=standing.value)) for standing, status in _STATUS_OF_OPEN.items()
    }
    crashed = len(await crashed_runs(store, IndexQuery()))
    running = _STATUS_OF_OPEN[StandingState.WORKING]
    # What crashed or was taken up between the two looks may be counted in both, or in neither.
    counts |= {running: max(0, counts[running] - crashed), "crashed": crashed}
    return {status: count for status, count in counts.items() if count}


async def row_of(store: EventStore, stream: str, now: int) -> RunSummary | None:
    """Return the row of a stream, with why a worker could bring it on at `now`; None when there is no such stream."""
    rows = await listed_runs(store, IndexQuery(streams=[stream]))
    known = await _with_those_waited_for(store, rows)
    return next((replace(row, due=_why_due(row, known, now)) for row in rows), None)


async def is_due(store: EventStore, stream: str, now: int) -> bool:
    """Tell whether a worker could bring a stream on at `now`."""
    row = await row_of(store, stream, now)
    return row is not None and row.due is not None


async def moved_of(store: EventStore, streams: Sequence[str], now: int) -> tuple[str, ...]:
    """Return those of some streams that do not just wait at `now`: a run that waits for them can go on with these.

    One that is paused, or cannot be read, is among them: it is for who goes on with it to say so.
    """
    known = await _with_those_waited_for(store, await marked(store, await _named(store, streams)))
    return tuple(stream for stream in streams if not _just_waits(known.get(stream), known, now))


def _just_waits(row: RunSummary | None, known: Mapping[str, RunSummary], now: int) -> bool:
    if row is None or row.damage is not None or row.standing is not StandingState.RESTING:
        return False
    return _why_due(row, known, now) is None


async def open_among(store: EventStore, streams: Sequence[str]) -> Sequence[str]:
    """Return those of some streams that are open, or have one below them that is, however deep.

    One that the index does not know, or says to be damaged, is among them.
    """
    rows = await _named(store, streams)
    top = {row.stream: row.stream for row in rows}
    found = set(streams) - top.keys()
    while rows:
        still_open = [row for row in rows if row.standing is not StandingState.DONE or row.damage is not None]
        found.update(top[row.stream] for row in still_open)
        if not (ended := [row.stream for row in rows if top[row.stream] not in found]):
            break
        rows = [row for row in await store.index(IndexQuery(parents=ended)) if row.stream not in top]
        top.update((row.stream, top[row.parent.stream]) for row in rows if row.parent is not None)
    return [stream for stream in streams if stream in found]


async def busy_among(store: EventStore, streams: Sequence[str]) -> Sequence[str]:
    """Return those of some streams that do not rest, or that some process is about to go on with."""
    rows, leased = {row.stream: row for row in await _named(store, streams)}, await store.leased()
    resting = {stream for stream, row in rows.items() if row.standing in _AT_REST}
    return [stream for stream in streams if stream not in resting or leased is None or stream in leased]


async def _with_those_waited_for(store: EventStore, rows: Iterable[RunSummary]) -> dict[str, RunSummary]:
    """Return rows by their stream, with those that they wait for, and those that these wait for."""
    known = {row.stream: row for row in rows}
    asked_for = {wait.on for row in known.values() for wait in row.waits if wait.on is not None} - known.keys()
    while asked_for:
        found = await marked(store, await _named(store, asked_for))
        known.update((row.stream, row) for row in found)
        asked_for = {wait.on for row in found for wait in row.waits if wait.on is not None} - known.keys() - asked_for
    return known


def _why_due(row: RunSummary, known: Mapping[str, RunSummary], now: int) -> Due | None:
    """Return why an owner can go on with a stream; None when none can."""
    if row.damage is not None:
        return None
    if row.is_crashed:
        return Due(cause=DueCause.CRASHED)
    if (due := with_cause(row, now).due) is not None:
        return due
    moved = next((each for each in _awaited(row) if _moves(each, known, now)), None)
    return None if moved is None else Due(cause=DueCause.CHILD, stream=moved)


async def due_below(store: EventStore, stream: str, now: int) -> Mapping[str, int]:
    """Return the streams because of which one that waits for others is due at `now`, each with the version of its row.

    One that waits itself is not among them, but those that it waits for. One that is not there has the version 0.
    """
    rows = await listed_runs(store, IndexQuery(streams=[stream]))
    known = await _with_those_waited_for(store, rows)
    return dict(end for row in rows for end in _ends_below(row, known, now))


def _ends_below(row: RunSummary, known: Mapping[str, RunSummary], now: int) -> Iterator[tuple[str, int]]:
    """Yield what `due_below` returns of a stream: not one where it is due for a reason of its own."""
    due = _why_due(row, known, now)
    if due is None or due.cause is not DueCause.CHILD:
        return
    for stream in _awaited(row):
        if _moves(stream, known, now):
            below = known.get(stream)
            further = [] if below is None else [*_ends_below(below, known, now)]
            yield from further or [(stream, 0 if below is None else below.version)]


def _awaited(row: RunSummary) -> Sequence[str]:
    """Return the streams that one at rest waits for."""
    return [wait.on for wait in row.waits if wait.on is not None] if row.standing is StandingState.RESTING else []


def is_due_by_itself(row: RunSummary, now: int) -> bool:
    """Tell whether a stream that has no damage is due by itself at `now`.

    A stream that was due when it was stored is due, also where the clock of the process that stored it was ahead.
    """
    return row.due_at is not None and row.due_at <= max(now, row.updated_at)


def with_cause(row: RunSummary, now: int) -> RunSummary:
    """Return the row of a stream that has no damage with why it is due by itself at `now`, if it is."""
    return replace(row, due=Due(cause=_cause(row), since=row.due_at)) if is_due_by_itself(row, now) else row


def _cause(row: RunSummary) -> DueCause:
    """Return why a stream is due at the instant of its own events."""
    if row.standing is StandingState.PENDING:
        return DueCause.STARTED
    if row.standing is not StandingState.RESTING:
        return DueCause.CANCELLED if row.paused_by == CALLER else DueCause.SAID
    is_answered = any(wait.answered_at == row.due_at for wait in row.waits)
    return DueCause.ANSWERED if is_answered else DueCause.TIMER


def _moves(stream: str, known: Mapping[str, RunSummary], now: int) -> bool:
    """Tell whether a stream that another one waits for does not rest any more."""
    row = known.get(stream)
    # One that is not there has not begun, and one that has ended is awaited: in both cases its parent goes on.
    return row is None or row.standing not in _AT_REST or _why_due(row, known, now) is not None


async def marked(store: EventStore, rows: Iterable[RunSummary]) -> list[RunSummary]:
    """Return the rows, those whose owner has crashed marked so.

    A process may have ended its run between the two looks, so what no lease is seen of is looked up once more. An owner
    stores its last event before it releases the lease.
    """
    found = list(rows)
    working = [row.stream for row in found if row.standing is StandingState.WORKING]
    leased = await store.leased() if working else None
    if leased is None or not (free := [stream for stream in working if stream not in leased]):
        return found
    again = {row.stream: row for row in await _named(store, free)}
    return [
        row if (newest := again.get(row.stream)) is None else replace(newest, is_crashed=newest.version == row.version)
        for row in found
    ]


async def _named(store: EventStore, streams: Collection[str]) -> list[RunSummary]:
    ids = sorted(streams)
    parts = (ids[first : first + _NAMED_AT_ONCE] for first in range(0, len(ids), _NAMED_AT_ONCE))
    return [row for part in parts for row in await store.index(IndexQuery(streams=part))]


async def is_abandoned(store: EventStore, stream: str, version: int) -> bool | None:
    """Tell whether a stream is still at `version` and nobody holds its lease; None when that cannot be known."""
    # The order of the two reads matters. An owner stores its last event before it releases the lease. So if the run
    # ends between the two reads, the version has moved on, and the run is not taken for one that crashed. If a run
    # begins after both, the answer was true when the lease was read.
    is_leased = await store.is_leased(stream)
    if is_leased is None:
        return None
    return not is_leased and await store.version(stream) == version


async def newest_position(store: EventStore) -> int:
    """Return the position of the newest record; 0 when there is none.

    All that is stored has been read when this record has been. Records that are being stored may appear later before
    it, so a reader that must not miss one reads to `last_position`.
    """
    try:
        return (await store.grown(_BEHIND_ALL))[0]
    except StoreIsStandby as standby:
        return standby.newest


async def growing_position(store: EventStore) -> int:
    """Return a position that changes when the log has grown: `last_position`, and on a standby the newest."""
    try:
        return await store.last_position()
    except StoreIsStandby as standby:
        return standby.newest
