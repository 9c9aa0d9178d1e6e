"""Lists over every stream of a store, of whatever kind: the runs, what was begun for one of them, what can go on.

Each reads the log from its beginning, but only the few types of events that move a row.
"""

from collections.abc import Mapping, Sequence

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.standing import Standing, StandingState
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.runs import RunsProjection
from steptrail.projections.summary import RunSummary
from steptrail.projections.tree import RunTree, TreeProjection
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["due_runs", "listed_runs", "tree_of"]

_ENDED = frozenset({ExecutionStatus.COMPLETED, ExecutionStatus.FAILED})
_AT_REST = frozenset({StandingState.RESTING, StandingState.PAUSED})


async def listed_runs(store: EventStore) -> Sequence[RunSummary]:
    """Return a summary of every stream, the one that moved last first; see `Steptrail.runs`."""
    projection = RunsProjection()
    async for _, stream, record in store.log(types=projection.types, on_corrupt=projection.mark_damaged):
        projection.apply(stream, record)
    return projection.newest_first()


async def tree_of(store: EventStore, stream: str) -> RunTree | None:
    """Return a stream with those below it; None for one that is not there. See `Steptrail.tree`."""
    projection = TreeProjection(stream)
    async for _, each, record in store.log(types=projection.types, on_corrupt=projection.mark_damaged):
        projection.apply(each, record)
    return projection.tree()


async def due_runs(store: EventStore, now: int) -> Sequence[RunSummary]:
    """Return what a worker could bring on at `now`, the one that moved last first; see `Steptrail.due`."""
    rows = [row for row in await listed_runs(store) if row.status not in _ENDED]
    standings: dict[str, Standing] = {}
    for row in rows:
        if (standing := await _standing(store, row.stream)) is not None:
            standings[row.stream] = standing
    return [row for row in rows if row.stream in standings and await _can_go_on(store, row.stream, standings, now)]


async def _standing(store: EventStore, stream: str) -> Standing | None:
    """Say where a stream stands; None for one of a kind that is not known here, and for one that cannot be read."""
    if (kind := KINDS.of(stream)) is None:
        return None
    try:
        state, _ = await fold_stream(kind.machine, store, stream)
    except CorruptRecord:
        return None
    return kind.machine.control.standing(state)


async def _can_go_on(store: EventStore, stream: str, standings: Mapping[str, Standing], now: int) -> bool:
    standing = standings[stream]
    if standing.is_due(now):
        return True
    match standing.state:
        case StandingState.WORKING:
            return await store.is_leased(stream) is False  # its owner has crashed
        case StandingState.RESTING:
            below = {wait.on for wait in standing.waits if wait.on is not None}
            return any([await _moves(store, each, standings, now) for each in below])
        case _:
            return False


async def _moves(store: EventStore, stream: str, standings: Mapping[str, Standing], now: int) -> bool:
    """Tell whether a stream that another one waits for does not rest any more."""
    if stream not in standings:
        return True  # it has ended, or has not begun: in both cases its parent has something to do
    return standings[stream].state not in _AT_REST or await _can_go_on(store, stream, standings, now)
