"""Distributes the live updates of all runs, here and in other processes, to the followers of each stream.

The updates of other processes come by a relay, where the store has a bus for that. A follower cannot tell them from
those of this process.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from steptrail.domain.live import LiveUpdate, Place, Progress, ReplyKey, TextDelta
from steptrail.runtime.kernel.live_bus import LiveBus
from steptrail.runtime.kernel.live_inbox import LiveInbox
from steptrail.runtime.kernel.live_relay import LiveRelay
from steptrail.runtime.kernel.live_reply import ReplySoFar
from steptrail.runtime.kernel.live_updates import OnUpdate, tell
from steptrail.runtime.kernel.thread_calls import call_in_loop

_Written = dict[str, dict[Place, ReplySoFar]]
"""Stream -> the reply that is being written at each of its places."""


class LiveFanout:
    """Knows all followers of streams in this process, and tells them of updates.

    With `always`, models stream the replies of all runs, also of those that have no follower yet. With a `bus` the
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
        self._written: _Written = {}
        self._from_elsewhere: _Written = {}

    def join(self, stream: str, on_news: Callable[[], None]) -> LiveInbox:
        """Return an inbox for the updates of a stream. It holds what is written so far of the present replies."""
        with self._changing:
            replies = {**self._from_elsewhere.get(stream, {}), **self._written.get(stream, {})}
            begun = sorted(replies.values(), key=lambda each: each.version)
            inbox = LiveInbox(
                stream, on_news, written=[(each.version, piece) for each in begun for piece in each.pieces]
            )
            others = self._inboxes.get(stream, ())
            self._inboxes[stream] = (*others, inbox)
            if self._relay is not None and not others:
                self._relay.follow(stream)
        return inbox

    def leave(self, inbox: LiveInbox) -> None:
        """Put no more updates into this inbox. Safe to call twice."""
        with self._changing:
            rest = tuple(each for each in self._inboxes.get(inbox.stream, ()) if each is not inbox)
            if rest:
                self._inboxes[inbox.stream] = rest
            elif self._inboxes.pop(inbox.stream, None) and self._relay is not None:
                self._relay.unfollow(inbox.stream)
                self._from_elsewhere.pop(inbox.stream, None)

    def close(self) -> None:
        """End all followers."""
        self.is_closed = True
        for inboxes in list(self._inboxes.values()):
            for inbox in inboxes:
                call_in_loop(inbox.loop, inbox.wake)

    def forget(self, stream: str, place: Place | None = None) -> None:
        """Drop what is kept of a stream, or of one place in it: the replies are no longer being written."""
        with self._changing:
            kept = self._written.get(stream, {})
            gone = [each for each in (kept if place is None else (place,)) if each in kept]
            broken = [kept.pop(each) for each in gone]
            if not kept:
                self._written.pop(stream, None)
        for written in broken:
            written.end = "broken"
            self._note(stream, written)
        if self._relay is not None:
            self._relay.forget(stream, place)

    def watcher(self, stream: str, own: OnUpdate | None, version: Callable[[], int]) -> OnUpdate | None:
        """Return a function that tells updates of a stream to `own` and all followers; None when nobody watches.

        `version` returns the version of the stream at the time when an update is shown.
        """
        if self._relay is not None:
            self._relay.listen()
        is_followed = stream in self._inboxes or (self._relay is not None and self._relay.is_wanted(stream))
        if own is None and not self._always and not is_followed:
            return None

        def tell_all(update: LiveUpdate) -> None:
            if own is not None:
                tell(own, update)
            self.tell(stream, version(), update)

        return tell_all

    def tell(self, stream: str, version: int, update: LiveUpdate) -> None:
        """Tell all followers of the stream, wherever they are, of an update of a run here."""
        with self._changing:
            kept = _kept(self._written, stream, version, update) if isinstance(update, TextDelta) else None
            inboxes = self._inboxes.get(stream, ())
        _put(inboxes, version, update)
        if kept is not None:
            self._note(stream, kept)
        elif isinstance(update, Progress):  # the text of a partial answer goes there already
            self._note(stream, (version, update))

    def replies_of(self, stream: str) -> tuple[ReplySoFar, ...]:
        """Return the replies that are being written by a run of this process."""
        # The relay asks under its own lock, and is called under ours. So ours is not taken here.
        return tuple(self._written.get(stream, {}).values())

    def show(self, stream: str, version: int, update: LiveUpdate) -> None:
        """Tell the followers of the stream in this process of an update of a run elsewhere."""
        with self._changing:
            inboxes = self._inboxes.get(stream, ())
            if inboxes and isinstance(update, TextDelta):
                _kept(self._from_elsewhere, stream, version, update)
        _put(inboxes, version, update)

    def drop(self, stream: str, place: Place, key: ReplyKey) -> None:
        """Drop the kept text of a reply elsewhere, because it broke off."""
        with self._changing:
            replies = self._from_elsewhere.get(stream, {})
            written = replies.get(place)
            if written is not None and written.key == key:
                del replies[place]

    def _note(self, stream: str, shown: ReplySoFar | tuple[int, Progress]) -> None:
        if self._relay is not None:
            self._relay.note(stream, shown)


def _kept(written: _Written, stream: str, version: int, update: TextDelta) -> ReplySoFar | None:
    """Add a piece to the reply at its place, and return the reply. One that is whole is kept no more."""
    replies = written.setdefault(stream, {})
    reply = replies.get(update.place)
    if update.is_final:
        replies.pop(update.place, None)
        if not replies:
            del written[stream]
        if reply is not None:
            reply.end = "whole"
        return reply
    if reply is None or reply.key != update.reply:
        reply = replies[update.place] = ReplySoFar(version, update.reply)
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
