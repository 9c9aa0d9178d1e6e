"""Lifecycle events of the log's entries: with positions, from any place in it, in any process."""

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.newest import Newest
from steptrail.infrastructure.stored_lifecycle import lifecycle_at
from steptrail.projections.kinds import Lifecycle
from steptrail.projections.lifecycle import RunEvent
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.ports import EventStore

_MOST_SESSIONS = 1_000


class LifecycleReader:
    """Makes lifecycle events of the entries of a subscription, in the order in which they come.

    It may begin anywhere, and entries may be left out or come again: a stream that it does not know it reads from the
    store. It remembers the newest 1,000 streams. A subscription that leaves out types works, and is slow: the state at
    each entry is then read anew.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._folds = Newest[str, Lifecycle](_MOST_SESSIONS)

    async def events(self, entry: LogEntry) -> tuple[RunEvent, ...]:
        """Return the lifecycle events of one entry, none for many. Raises store errors, and may be asked again.

        A kind of machine that is not known here has none.
        """
        stream, record = entry.stream, entry.record
        kind, fold = KINDS.of(stream), self._folds.pop(stream, None)
        is_fork = kind is not None and kind.machine.forked_from(record.event) is not None
        if is_fork or fold is None or fold.version != record.version - 1:
            # What a fork begins with is another session's past, of which nothing is told here.
            fold = await lifecycle_at(self._store, stream, record.version - (not is_fork))
        if fold is None:
            return ()
        events = () if is_fork else fold.apply(record, position=entry.position)
        self._folds.keep(stream, fold)
        return events
