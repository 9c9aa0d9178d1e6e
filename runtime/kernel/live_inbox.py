"""The live updates that one follower of a session has not fetched yet.

Each update carries the version of the session at the time when it was shown. It belongs after that event and before the
next one, so a follower that reads events from the store can put both in order. A run never waits for a follower: the
number of updates that a slow follower has not fetched is bounded, and the oldest are dropped.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from steptrail.domain.live import LiveUpdate, ReplyDelta, UpdatesLost
from steptrail.runtime.kernel.live_updates import joined

__all__ = ["LONGEST_JOINED", "LiveInbox"]

LONGEST_JOINED = 4_096
"""Characters of one piece. 64 such pieces for each follower are a quarter of a megabyte."""
_MOST_WAITING = 64


class LiveInbox:
    """The updates that one follower has not fetched yet. An inbox belongs to the event loop in which it was made.

    An update of another process may come late: after the event that supersedes it was read. It is dropped then.
    """

    def __init__(self, session: str, on_news: Callable[[], None]) -> None:
        self.session, self.loop = session, asyncio.get_running_loop()
        self.wake = on_news
        self._waiting: deque[tuple[int, LiveUpdate]] = deque()
        self._lost, self._lost_at = 0, 0
        self._begun_after, self._settled = 0, 0
        self._writing: int | None = None

    def put(self, version: int, update: LiveUpdate) -> None:
        """Add an update that was shown when the session was at `version`, unless it comes late."""
        if version < self._settled or (
            isinstance(update, ReplyDelta) and self._is_before_the_beginning(version, update)
        ):
            return
        last_version, last = self._waiting[-1] if self._waiting else (0, None)
        more = joined(last, update, at_most=LONGEST_JOINED) if last_version == version else None
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
        self._begun_after, self._writing = version, writing
        while self._waiting and self._is_before_the_beginning(*self._waiting[0]):
            self._waiting.popleft()

    def settle(self, version: int) -> None:
        """Take no more updates before `version`: the event there supersedes them, and the follower has it."""
        self._settled = version

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

    def _is_before_the_beginning(self, version: int, update: LiveUpdate) -> bool:
        return version < self._begun_after and update.step != self._writing
