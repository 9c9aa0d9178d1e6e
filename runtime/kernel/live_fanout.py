"""Distributes the live updates of the runs of one process to the followers of each session.

Each update carries the version of the session at the time when it was shown. It belongs after that event and before the
next one, so a follower that reads events from the store can put both in order. A run never waits for a follower: the
number of updates that a slow follower has not fetched is bounded, and the oldest are dropped.
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
"""Characters of one piece. 64 such pieces for each follower are a quarter of a megabyte."""


class LiveInbox:
    """The updates that one follower has not fetched yet. An inbox belongs to the event loop in which it was made."""

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
        """Drop the updates before `version`, because an event up to it may supersede them.

        The updates of step `writing`, whose reply is being written, are kept.
        """
        while self._waiting and self._waiting[0][0] < version and self._waiting[0][1].step != writing:
            self._waiting.popleft()

    @property
    def version(self) -> int | None:
        """The version of the event after which the next update belongs; None when the inbox is empty."""
        if self._lost:
            return self._lost_at
        return self._waiting[0][0] if self._waiting else None

    def take(self) -> LiveUpdate | UpdatesLost:
        """Remove and return the next update. If updates were dropped, the first thing returned says how many."""
        if self._lost:
            lost, self._lost = UpdatesLost(session_id=self.session, count=self._lost), 0
            return lost
        return self._waiting.popleft()[1]


@dataclass(slots=True)
class _ReplySoFar:
    """The pieces of a reply that is being written, from its beginning, for followers that join meanwhile."""

    version: int
    pieces: list[ReplyDelta] = field(default_factory=list[ReplyDelta])


class LiveFanout:
    """Knows all followers of sessions in this process, and tells them of updates.

    With `always`, models stream the replies of all sessions, also of those that have no follower yet.
    """

    def __init__(self, *, always: bool = False) -> None:
        self._always = always
        self.is_closed = False
        self._inboxes: dict[str, tuple[LiveInbox, ...]] = {}
        self._written: dict[str, _ReplySoFar] = {}

    def join(self, session: str, on_news: Callable[[], None]) -> LiveInbox:
        """Return an inbox for the updates of a session. It holds what is written so far of the present reply."""
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
        for inboxes in list(self._inboxes.values()):
            for inbox in inboxes:
                call_in_loop(inbox.loop, inbox.wake)

    def forget(self, session: str) -> None:
        """Drop the kept text of a reply, because it is no longer being written."""
        self._written.pop(session, None)

    def watcher(self, session: str, own: OnUpdate | None, version: Callable[[], int]) -> OnUpdate | None:
        """Return a function that tells updates of a session to `own` and all followers; None when nobody watches.

        `version` returns the version of the session at the time when an update is shown.
        """
        if own is None and not self._always and session not in self._inboxes:
            return None

        def tell_all(update: LiveUpdate) -> None:
            if own is not None:
                tell(own, update)
            self.tell(session, version(), update)

        return tell_all

    def tell(self, session: str, version: int, update: LiveUpdate) -> None:
        """Put an update into the inboxes of all followers of the session."""
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
            written = self._written[session] = _ReplySoFar(version)
        elif isinstance(more := joined(last, update, at_most=_LONGEST_JOINED), ReplyDelta):
            written.pieces[-1] = more
            return
        written.pieces.append(update)
