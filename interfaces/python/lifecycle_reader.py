"""Lifecycle events of the log's entries: with positions, from any place in it, in any process."""

from functools import partial

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.infrastructure.entry_reader import EntryReader
from steptrail.infrastructure.stored_lifecycle import lifecycle_at
from steptrail.projections.kinds import Lifecycle
from steptrail.projections.lifecycle import RunEvent
from steptrail.runtime.kernel.ports import EventStore


class LifecycleReader(EntryReader[Lifecycle]):
    """Makes lifecycle events of the entries of a subscription, in the order in which they come.

    It may begin anywhere, and entries may be left out or come again: a stream that it does not know it reads from the
    store. It remembers the newest 1,000 streams. A subscription that leaves out types works, and is slow: the state at
    each entry is then read anew.
    """

    def __init__(self, store: EventStore) -> None:
        super().__init__(partial(lifecycle_at, store))

    async def events(self, entry: LogEntry) -> tuple[RunEvent, ...]:
        """Return the lifecycle events of one entry, none for many. Raises store errors, and may be asked again.

        A kind of machine that is not known here has none, and neither has a session that was erased.
        """
        return await self._told(entry)
