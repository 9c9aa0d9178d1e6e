"""The live updates that one follower of a stream has not fetched yet.

Each update carries the version of the stream at the time when it was shown. It belongs after that event and before the
next one, so a follower that reads events from the store can put both in order. A run never waits for a follower: the
number of updates that a slow follower has not fetched is bounded, and the oldest are dropped.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile

from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.live import LiveUpdate, Place, TextDelta, UpdatesLost, Writing
from steptrail.domain.newest import Newest
from steptrail.runtime.kernel.live_updates import joined_back, writes_nothing

_MOST_WAITING = 64
"""Pieces, of at most 4,096 characters where they were joined: a quarter of a megabyte for each follower."""
_MOST_SETTLED = 1_000
"""Places for which it is known from when on their updates are late. What comes later than that is very late."""


class LiveInbox:
    """The updates that one follower has not fetched yet. An inbox belongs to the event loop in which it was made.

    It begins with what is `written` of the present replies, each piece with its version, and holds all of that. An
    update of another process may come late: after the event that supersedes it was read. It is dropped then.
    """

    def __init__(
        self, stream: str, on_news: Callable[[], None], *, written: Sequence[tuple[int, LiveUpdate]] = ()
    ) -> None:
        self.stream, self.loop = stream, asyncio.get_running_loop()
        self.wake = on_news
        self._waiting: deque[tuple[int, LiveUpdate]] = deque(written)
        self._most_waiting = _MOST_WAITING + len(written)
        self._lost, self._lost_at = 0, 0
        self._begun_after = 0
        self._settled = Newest[Place, int](_MOST_SETTLED)
        self._writing: Writing = writes_nothing

    def put(self, version: int, update: LiveUpdate) -> None:
        """Add an update that was shown when the stream was at `version`, unless it comes late."""
        if version < self._settled.get(update.place, 0) or (
            isinstance(update, TextDelta) and self._is_before_the_beginning(version, update)
        ):
            return
        of_now = takewhile(lambda each: each[0] == version, reversed(self._waiting))
        more = joined_back((each for _, each in of_now), update)
        if more is not None:
            self._waiting[-more[0]] = (version, more[1])
        else:
            self._waiting.append((version, update))
        if len(self._waiting) > self._most_waiting:
            self._lost, self._lost_at = self._lost + 1, self._waiting.popleft()[0]
        self.wake()

    def begin_after(self, version: int, *, writing: Writing) -> None:
        """Drop the updates before `version`, because an event up to it may supersede them.

        Those of replies that are being written are kept.
        """
        self._begun_after, self._writing = version, writing
        self._waiting = deque(each for each in self._waiting if not self._is_before_the_beginning(*each))

    def settle(self, place: Place, version: int) -> None:
        """Take no updates of a place before `version`: the event there supersedes them, and the follower has it."""
        self._settled.keep(place, version)
        if any(_is_late(each, place, version) for each in self._waiting):
            self._waiting = deque(each for each in self._waiting if not _is_late(each, place, version))

    @property
    def version(self) -> int | None:
        """The version of the event after which the next update belongs; None when the inbox is empty."""
        if self._lost:
            return self._lost_at
        return self._waiting[0][0] if self._waiting else None

    def take(self) -> LiveUpdate | UpdatesLost:
        """Remove and return the next update. If updates were dropped, the first thing returned says how many."""
        if self._lost:
            lost, self._lost = UpdatesLost(session_id=id_of(self.stream), count=self._lost), 0
            return lost
        return self._waiting.popleft()[1]

    def _is_before_the_beginning(self, version: int, update: LiveUpdate) -> bool:
        return version < self._begun_after and not self._writing(update)


def _is_late(waiting: tuple[int, LiveUpdate], place: Place, version: int) -> bool:
    return waiting[0] < version and waiting[1].place == place
