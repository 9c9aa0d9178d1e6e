"""An iterator over the events of all streams, in the order in which they were stored.

A subscription holds a place in the log and at most one page of the entries after it. It reads when its consumer asks.
So a slow consumer holds no more than one page and delays nobody, and an interruption leaves the subscription in place.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

from steptrail.domain.errors import CorruptRecord, StoreSetBack
from steptrail.domain.kernel.given import a_flag, a_plain_function, a_whole
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.runtime.kernel.iteration import Iteration
from steptrail.runtime.kernel.kinds import types_of_events
from steptrail.runtime.kernel.log_reader import Watch, watch_log, watch_stream
from steptrail.runtime.kernel.ports import EventStore

_PAGE = 500

OnCorrupt = Callable[[CorruptRecord], None]
"""Is called with the error of each record that cannot be read, in the record's turn. The record is then left out."""


class Subscription(Iteration[LogEntry]):
    """An async iterator over the log, and an async context manager that closes it.

    Every event is handed out once, also when several tasks ask; those of one session come in their order. An instance
    belongs to the event loop in which it is first used. It raises the `StoreError` that reading raised, and keeps its
    place: the next call tries again. A place behind the end of the log is refused with `StoreSetBack`. Closing it, or
    its trail, ends the iteration, also for a task that waits.
    """

    def __init__(
        self,
        store: EventStore,
        *,
        after: int | Literal["now"] = 0,
        types: Sequence[str] = (),
        stream: str | None = None,
        follow: bool = True,
        on_corrupt: OnCorrupt | None = None,
        is_store_closed: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        types = types_of_events(types, "`types` of a subscription")
        a_flag(follow, "`follow`")
        if on_corrupt is not None:
            a_plain_function(on_corrupt, "`on_corrupt`", "an entry")
        if after != "now":
            a_whole(after, "the position after which a subscription begins, unless that is 'now',")
        self._store, self._types, self._follow, self._on_corrupt = store, types, follow, on_corrupt
        self._stream = stream
        self._is_store_closed = is_store_closed
        self._read_to = None if after == "now" else after
        self._page: deque[LogEntry | CorruptRecord] = deque()
        self._watch: Watch | None = None
        self._growths, self._read_at = 0, -1

    @property
    def is_over(self) -> bool:
        """Tell whether no more entries will be handed out."""
        return self._is_closed or self._is_store_closed()

    @property
    def handed_out(self) -> int:
        """The position up to which all entries were handed out or left out; 0 before the beginning is fixed."""
        if not self._page:
            return self._read_to or 0
        return (self._page[0].position or 1) - 1

    async def begin(self) -> int:
        """Fix the place where the subscription begins, if that is `"now"`; return the position of that place."""
        if self._read_to is None:
            self._read_to = await self._store.last_position()
        return self._read_to

    def ready(self) -> LogEntry | None:
        """Return the next entry that has been read; None when there is none.

        Raises `CorruptRecord` for a record that cannot be read, if there is no `on_corrupt`.
        """
        while self._page:
            entry = self._page[0]
            if isinstance(entry, LogEntry):
                self._page.popleft()
                return entry
            if self._on_corrupt is None:
                raise entry
            self._page.popleft()
            self._on_corrupt(entry)
        return None

    async def aclose(self) -> None:
        """End the subscription; a task that waits for its next entry stops waiting. Safe to call twice."""
        self._is_closed = True
        if self._watch is not None:
            self._watch.leave()
        self._wake()

    def _has_something(self) -> bool:
        return bool(self._page)

    async def _advance(self) -> None:
        read_to = await self.begin()
        if self._read_at != self._growths or not self._follow:
            # The number is taken first. Whatever is stored later changes it, or has been read.
            growths = self._growths
            # The end is asked for before the log is read. So the read covers everything up to it, also what it leaves
            # out.
            end = await self._store.last_position()
            if end > read_to:
                await self._read(read_to, end)
            elif end < read_to and (await self._store.grown(read_to))[0] < read_to:
                # What is stored up to there would never be handed out.
                raise StoreSetBack("the log", read_to)
            elif not self._follow:
                self._is_closed = True
            if (self._read_to or 0) >= end:
                self._read_at = growths
        elif self._failure is not None:
            raise self._failure.with_traceback(self._failed_at)
        elif self._watch is None or self._watch.is_over:
            self._begin_to_watch()
        else:
            try:
                await self._come()
            except asyncio.CancelledError:
                self._watch.leave()  # its consumer may not come back
                raise

    def _begin_to_watch(self) -> None:
        if self._stream is None:
            self._watch = watch_log(self._store, self._note_growth, self._note_failure)
        else:
            self._watch = watch_stream(self._store, self._stream, self._note_growth, self._note_failure)
        self._growths += 1  # what came before is not told

    def _note_growth(self, end: int | None) -> None:
        self._growths += 1
        self._wake()

    async def _read(self, read_to: int, end: int) -> None:
        page = await self._store.log_page(read_to, _PAGE, types=self._types, stream=self._stream)
        self._read_to = max(end, page.reached) if page.is_end else page.reached
        self._page.extend(page.items)
