"""Lifecycle events for whoever follows the log: with positions, from any place in it, in any process."""

from collections import OrderedDict

from steptrail.domain.agent.events import SessionForked
from steptrail.domain.agent.evolve import initial
from steptrail.projections.lifecycle import LifecycleFold, RunEvent
from steptrail.runtime.agent.agent_journal import load
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.subscription import LogEntry

__all__ = ["LifecycleFollower"]

_MOST_SESSIONS = 1_000


class LifecycleFollower:
    """Tells what the entries of a subscription mean, in the order in which they come.

    It may begin anywhere, and entries may be left out or come again: what it does not know of a session it reads from
    the store. It remembers the newest 1,000 sessions. A subscription that leaves out types works, and is slow: the
    state at each entry is then read anew.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._folds: OrderedDict[str, LifecycleFold] = OrderedDict()

    async def events(self, entry: LogEntry) -> tuple[RunEvent, ...]:
        """Return the lifecycle events of one entry, none for many. Raises store errors, and may be asked again."""
        session, record = entry.agent_id, entry.record
        fold = self._folds.pop(session, None)
        if isinstance(record.event, SessionForked):
            # What it begins with is another session's past, of which nothing is told here.
            forked, _ = await load(self._store, session, at=record.version)
            self._remember(session, LifecycleFold(forked))
            return ()
        if fold is None or fold.version != record.version - 1:
            before, _ = await load(self._store, session, at=record.version - 1) if record.version > 1 else (None, None)
            fold = LifecycleFold(before if before is not None else initial(session))
        events = fold.apply(record, position=entry.position)
        self._remember(session, fold)
        return events

    def _remember(self, session: str, fold: LifecycleFold) -> None:
        self._folds[session] = fold
        if len(self._folds) > _MOST_SESSIONS:
            self._folds.popitem(last=False)
