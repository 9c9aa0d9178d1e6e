"""Distributes the live updates of all runs, here and in other processes, to the followers of each session.

The updates of other processes come by a relay, where the store has a bus for that. A follower cannot tell them from
those of this process.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from steptrail.domain.live import LiveUpdate, ReplyDelta, ToolProgress
from steptrail.runtime.kernel.live_bus import LiveBus
from steptrail.runtime.kernel.live_inbox import LiveInbox
from steptrail.runtime.kernel.live_relay import LiveRelay
from steptrail.runtime.kernel.live_reply import ReplyKey, ReplySoFar, key_of
from steptrail.runtime.kernel.live_updates import OnUpdate, tell
from steptrail.runtime.kernel.thread_calls import call_in_loop

__all__ = ["LiveFanout"]


class LiveFanout:
    """Knows all followers of sessions in this process, and tells them of updates.

    With `always`, models stream the replies of all sessions, also of those that have no follower yet. With a `bus` the
    followers in other processes that have the same bus are told too.
    """

    def __init__(
        self, *, always: bool = False, bus: LiveBus | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._always = always
        self.is_closed = False
        self._relay = LiveRelay(bus, self, clock) if bus is not None else None
        self._changing = threading.Lock()
        self._inboxes: dict[str, tuple[LiveInbox, ...]] = {}
        self._written: dict[str, ReplySoFar] = {}
        self._from_elsewhere: dict[str, ReplySoFar] = {}

    def join(self, session: str, on_news: Callable[[], None]) -> LiveInbox:
        """Return an inbox for the updates of a session. It holds what is written so far of the present reply."""
        inbox = LiveInbox(session, on_news)
        with self._changing:
            others = self._inboxes.get(session, ())
            self._inboxes[session] = (*others, inbox)
            written = self._written.get(session) or self._from_elsewhere.get(session)
            if written is not None:
                for piece in written.pieces:
                    inbox.put(written.version, piece)
            if self._relay is not None and not others:
                self._relay.follow(session)
        return inbox

    def leave(self, inbox: LiveInbox) -> None:
        """Put no more updates into this inbox. Safe to call twice."""
        with self._changing:
            rest = tuple(each for each in self._inboxes.get(inbox.session, ()) if each is not inbox)
            if rest:
                self._inboxes[inbox.session] = rest
            elif self._inboxes.pop(inbox.session, None) and self._relay is not None:
                self._relay.unfollow(inbox.session)
                self._from_elsewhere.pop(inbox.session, None)

    def close(self) -> None:
        """End all followers."""
        self.is_closed = True
        for inboxes in list(self._inboxes.values()):
            for inbox in inboxes:
                call_in_loop(inbox.loop, inbox.wake)

    def forget(self, session: str) -> None:
        """Drop the kept text of a reply, because it is no longer being written."""
        with self._changing:
            written = self._written.pop(session, None)
        if written is not None:
            written.end = "broken"
            self._note(session, written)

    def watcher(self, session: str, own: OnUpdate | None, version: Callable[[], int]) -> OnUpdate | None:
        """Return a function that tells updates of a session to `own` and all followers; None when nobody watches.

        `version` returns the version of the session at the time when an update is shown.
        """
        if self._relay is not None:
            self._relay.listen()
        is_followed = session in self._inboxes or (self._relay is not None and self._relay.is_wanted(session))
        if own is None and not self._always and not is_followed:
            return None

        def tell_all(update: LiveUpdate) -> None:
            if own is not None:
                tell(own, update)
            self.tell(session, version(), update)

        return tell_all

    def tell(self, session: str, version: int, update: LiveUpdate) -> None:
        """Tell all followers of the session, wherever they are, of an update of a run here."""
        with self._changing:
            kept = _kept(self._written, session, version, update) if isinstance(update, ReplyDelta) else None
            inboxes = self._inboxes.get(session, ())
        _put(inboxes, version, update)
        if kept is not None:
            self._note(session, kept)
        elif not isinstance(update, ReplyDelta):
            self._note(session, (version, update))

    def reply_of(self, session: str) -> ReplySoFar | None:
        """Return the reply that is being written by a run of this process."""
        return self._written.get(session)

    def show(self, session: str, version: int, update: LiveUpdate) -> None:
        """Tell the followers of the session in this process of an update of a run elsewhere."""
        with self._changing:
            inboxes = self._inboxes.get(session, ())
            if inboxes and isinstance(update, ReplyDelta):
                _kept(self._from_elsewhere, session, version, update)
        _put(inboxes, version, update)

    def drop(self, session: str, key: ReplyKey) -> None:
        """Drop the kept text of a reply elsewhere, because it broke off."""
        with self._changing:
            written = self._from_elsewhere.get(session)
            if written is not None and written.key == key:
                del self._from_elsewhere[session]

    def _note(self, session: str, shown: ReplySoFar | tuple[int, ToolProgress]) -> None:
        if self._relay is not None:
            self._relay.note(session, shown)


def _kept(written: dict[str, ReplySoFar], session: str, version: int, update: ReplyDelta) -> ReplySoFar | None:
    """Add a piece to the reply that is written, and return the reply. One that is whole is kept no more."""
    reply = written.get(session)
    if update.is_final:
        written.pop(session, None)
        if reply is not None:
            reply.end = "whole"
        return reply
    if reply is None or reply.key != key_of(update):
        reply = written[session] = ReplySoFar(version, key_of(update))
    reply.add(update)
    return reply


def _put(inboxes: tuple[LiveInbox, ...], version: int, update: LiveUpdate) -> None:
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    for inbox in inboxes:
        if inbox.loop is here:
            inbox.put(version, update)
        else:
            call_in_loop(inbox.loop, inbox.put, version, update)
