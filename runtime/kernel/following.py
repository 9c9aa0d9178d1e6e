"""An iterator over one stream: the events that any process stores in it, and the live updates between them.

Events are read from the store when the consumer asks. Live updates wait in an inbox, each with the version of the event
after which it belongs. An update of this process that was shown before a commit is in the inbox before the commit can
be read. So sorting both by version never shows text after the event that supersedes it. An update of another process
may come later than that event; then it is dropped.
"""

from collections import deque
from typing import TypeAlias

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.given import a_flag, a_whole
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import LiveUpdate, UpdatesLost
from steptrail.domain.shared.events import ExecutionFinished
from steptrail.runtime.kernel.channel import Seat, take_seat
from steptrail.runtime.kernel.iteration import Iteration
from steptrail.runtime.kernel.kinds import KINDS, not_found
from steptrail.runtime.kernel.live_fanout import LiveFanout
from steptrail.runtime.kernel.live_inbox import LiveInbox
from steptrail.runtime.kernel.ports import EventStore

Followed: TypeAlias = Recorded[Event] | LiveUpdate | UpdatesLost
"""An item that is handed out to the follower of a stream."""


class Following(Iteration[Followed]):
    """An async iterator over a stream, and an async context manager that ends it. `Handle.follow` makes one.

    Every event is handed out once, in the order of versions. An instance belongs to the event loop in which it is first
    used. It raises the `StoreError` that reading raised, and keeps its place: the next call tries again. Closing it, or
    its trail, ends the iteration, also for a task that waits. Close it, or models go on streaming for no reader.
    """

    def __init__(
        self, store: EventStore, stream: str, fanout: LiveFanout, *, after: int = 0, forever: bool = False
    ) -> None:
        super().__init__()
        a_whole(after, "the version after which a session is followed")
        a_flag(forever, "`forever`")
        if (kind := KINDS.of(stream)) is None:
            raise ConfigurationError(f"no kind of machine that is known here has a stream {stream!r}")
        self._store, self._stream, self._kind, self._fanout, self._forever = store, stream, kind, fanout, forever
        self._after, self._known = after, 0
        self._inbox: LiveInbox | None = None
        self._page: deque[Recorded[Event]] = deque()
        self._seat: Seat | None = None
        self._is_open = False

    @property
    def is_over(self) -> bool:
        """Tell whether no more items will be handed out."""
        return self._is_closed or self._fanout.is_closed

    @property
    def after(self) -> int:
        """The version of the last event that was handed out. A new iteration would go on after it."""
        return self._after

    async def begin(self) -> None:
        """Begin to collect live updates. Raises `SessionNotFound`."""
        async with self._filling:
            await self._join()

    async def _join(self) -> None:
        if self._inbox is not None or self.is_over:
            return
        inbox = self._fanout.join(self._stream, self._wake)
        seat = take_seat(
            self._store, self._stream, self._kind, after=self._after, wake=self._wake, fail=self._note_failure
        )
        try:
            standing = await seat.channel.standing()
            if not standing.version:
                raise await not_found(self._store, self._stream)
        except BaseException:
            self._fanout.leave(inbox)
            seat.leave()
            raise
        self._inbox, self._seat = inbox, seat
        if self.is_over:
            await self.aclose()
            return
        self._known, self._is_open = standing.version, standing.is_open
        inbox.begin_after(self._after, writing=standing.writing)
        if self._forever or self._is_open:
            seat.channel.watch()

    def ready(self) -> Followed | None:
        """Return the next item, if it has been read already; None otherwise."""
        if self.is_over or self._inbox is None:
            return None
        shown_at = self._inbox.version
        if self._page and (shown_at is None or shown_at >= self._page[0].version):
            record = self._page.popleft()
            self._after = record.version
            if (place := self._kind.settles(record.event)) is not None:
                self._inbox.settle(place, record.version)
            if record.version > self._known:
                self._note(record.event)
            return record
        if shown_at is not None and (self._page or shown_at <= self._after):
            return self._inbox.take()
        return None

    async def aclose(self) -> None:
        """End the iteration; a task that waits for the next item stops waiting. Safe to call twice."""
        self._is_closed = True
        if self._inbox is not None:
            self._fanout.leave(self._inbox)
        self._wake()

    def _note(self, event: Event) -> None:
        """Note whether a run is open after this event. Events are not folded here, so their classes have to do."""
        if self._kind.machine.opens_segment(event):
            self._is_open = True
        elif isinstance(event, ExecutionFinished):
            self._is_open = False

    def _has_something(self) -> bool:
        shown_at = self._inbox.version if self._inbox is not None else None
        return bool(self._page) or (shown_at is not None and shown_at <= self._after)

    async def _advance(self) -> None:
        if (seat := self._seat) is None:
            await self._join()
        elif seat.is_behind:
            self._page.extend(await seat.read())
        elif not self._forever and not self._is_open and self._after >= self._known:
            await self.aclose()
        elif self._failure is not None:
            raise self._failure.with_traceback(self._failed_at)
        elif not seat.channel.is_watching:
            seat.channel.watch()
        else:
            await self._come()

    def _wake(self) -> None:
        super()._wake()
        if self.is_over and self._seat is not None:
            self._seat.leave()
