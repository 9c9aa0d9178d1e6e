"""Live updates of the runs of one process, on their way to those who follow a session.

Each carries the version of the session when it was shown: it belongs behind that event and before the next one, so a
follower that reads events from the store can put both in order. The run never waits for a follower: the updates that a
slow one has not fetched are bounded, and the oldest are dropped.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from steptrail.domain.live import LiveUpdate, ReplyDelta, UpdatesLost
from steptrail.runtime.kernel.live_updates import OnUpdate, joined, tell
from steptrail.runtime.kernel.thread_calls import call_in_loop

__all__ = ["LiveFanout", "LiveInbox"]

_MOST_WAITING = 64
_LONGEST_JOINED = 4_096
"""Characters of one piece; so that is 64 pieces of text for each follower, a quarter of a megabyte."""


class LiveInbox:
    """The updates that one follower has not fetched yet. Belongs to the event loop it was made in."""

    def __init__(self, session: str, on_news: Callable[[], None]) -> None:
        self.session, self.loop = session, asyncio.get_running_loop()
        self.wake = on_news
        self._waiting: deque[tuple[int, LiveUpdate]] = deque()
        self._lost, self._lost_at = 0, 0

    def put(self, version: int, update: LiveUpdate) -> None:
        """Add an update that was shown when the session was at `version`."""
        last_version, last = self._waiting[-1] if self._waiting else (0, None)
        more = joined(last, update, at_most=_LONGEST_JOINED) if last_version == version else None
        if more is not None:
            self._waiting[-1] = (version, more)
        else:
            self._waiting.append((version, update))
        if len(self._waiting) > _MOST_WAITING:
            self._lost, self._lost_at = self._lost + 1, self._waiting.popleft()[0]
        self.wake()

    def begin_after(self, version: int, *, writing: int | None) -> None:
        """Drop updates that an event up to `version` may supersede.

        These are all before it, except those of the step that is `writing`.
        """
        while self._waiting and self._waiting[0][0] < version and self._waiting[0][1].step != writing:
            self._waiting.popleft()

    @property
    def version(self) -> int | None:
        """The version that the next piece belongs behind, if there is one."""
        if self._lost:
            return self._lost_at
        return self._waiting[0][0] if self._waiting else None

    def take(self) -> LiveUpdate | UpdatesLost:
        """Hand out the next piece; first that some were lost, if they were."""
        if self._lost:
            lost, self._lost = UpdatesLost(session_id=self.session, count=self._lost), 0
            return lost
        return self._waiting.popleft()[1]


@dataclass(slots=True)
class _Written:
    """The reply that is being written, from its beginning, for those who join now."""

    version: int
    pieces: list[ReplyDelta] = field(default_factory=list[ReplyDelta])


class LiveFanout:
    """All followers of sessions in this process, and the way of updates to them.

    With `always` updates are wanted of every session, also of one that nobody follows yet.
    """

    def __init__(self, *, always: bool = False) -> None:
        self._always = always
        self.is_closed = False
        self._inboxes: dict[str, tuple[LiveInbox, ...]] = {}
        self._written: dict[str, _Written] = {}

    def join(self, session: str, on_news: Callable[[], None]) -> LiveInbox:
        """Return an inbox for the updates of a session; what is being written now is in it."""
        inbox = LiveInbox(session, on_news)
        self._inboxes[session] = (*self._inboxes.get(session, ()), inbox)
        if (written := self._written.get(session)) is not None:
            for piece in written.pieces:
                inbox.put(written.version, piece)
        return inbox

    def leave(self, inbox: LiveInbox) -> None:
        """Put no more updates into this inbox. Safe to call twice."""
        rest = tuple(each for each in self._inboxes.get(inbox.session, ()) if each is not inbox)
        if rest:
            self._inboxes[inbox.session] = rest
        else:
            self._inboxes.pop(inbox.session, None)

    def close(self) -> None:
        """End all followers."""
        self.is_closed = True
        for inboxes in self._inboxes.values():
            for inbox in inboxes:
                inbox.wake()

    def forget(self, session: str) -> None:
        """Drop the kept text of a reply, because it is no longer being written."""
        self._written.pop(session, None)

    def watcher(self, session: str, own: OnUpdate | None, version: Callable[[], int]) -> OnUpdate | None:
        """Return the function that tells updates of a session to `own` and all followers; None when nobody watches.

        `version` says where the session stands when an update is shown.
        """
        if own is None and not self._always and session not in self._inboxes:
            return None

        def tell_all(update: LiveUpdate) -> None:
            if own is not None:
                tell(own, update)
            self.tell(session, version(), update)

        return tell_all

    def tell(self, session: str, version: int, update: LiveUpdate) -> None:
        """Show an update to everybody who follows the session."""
        if isinstance(update, ReplyDelta):
            self._keep(session, version, update)
        here = asyncio.get_running_loop()
        for inbox in self._inboxes.get(session, ()):
            if inbox.loop is here:
                inbox.put(version, update)
            else:
                call_in_loop(inbox.loop, inbox.put, version, update)

    def _keep(self, session: str, version: int, update: ReplyDelta) -> None:
        if update.is_final:
            self.forget(session)
            return
        written = self._written.get(session)
        last = written.pieces[-1] if written is not None else None
        if written is None or last is None or (last.step, last.attempt) != (update.step, update.attempt):
            written = self._written[session] = _Written(version)
        elif (more := joined(last, update, at_most=_LONGEST_JOINED)) is not None:
            written.pieces[-1] = more
            return
        written.pieces.append(update)
