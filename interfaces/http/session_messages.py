"""The messages of one stream from any of them on: those that are stored, each new one, and text as it is written.

An id says where a message stands in the log. A client that comes again with the last id that it has seen gets exactly
the messages after it. Text that was not stored has no id of its own and is not sent again.
"""

from collections import deque
from collections.abc import Iterable
from typing import Self

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import NodeDelta, NodeProgress, ReplyDelta, UpdatesLost
from steptrail.infrastructure.broadcast.feed import FeedReader
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import (
    BEFORE_ALL,
    BroadcastEnvelope,
    Place,
    StreamKind,
    enveloped,
    place_of,
)
from steptrail.runtime.kernel.clock import SystemClock
from steptrail.runtime.kernel.closing import Closing
from steptrail.runtime.kernel.following import Followed, Following

LOST = "stream.lost"
"""The end of the type of the message that says that pieces of text were dropped for a slow reader."""
HEARTBEAT = "heartbeat"
"""The end of the type of the message that only shows that the line is alive, and says when the next one is due."""

_LAST = 10**9
"""More than the messages that one event makes."""


def place_after(text: str) -> Place:
    """Return the place that a client names: the id of a message, or the version of a conversation that it has.

    Raises `ConfigurationError` for anything else.
    """
    return place_of(text) if "." in text else (place_of(f"{text}.0")[0], _LAST)


class SessionMessages(Closing):
    """An async iterator of envelopes, inside `async with`. Ends when it is closed, or its trail is.

    `session` is the id of an agent's session, or `flow:order-7` for a run of a workflow.
    A place that the session has not come to is that of another store, and so everything is sent. Entering raises
    `SessionNotFound`; both raise store errors.
    """

    def __init__(self, trail: Steptrail, session: str, config: BroadcastConfig, *, after: Place = (0, 0)) -> None:
        self._trail, self._session, self._config, self._after = trail, trail.handle(session), config, after
        self._kind: StreamKind = "flow" if session.startswith("flow:") else "agent"
        self._clock = SystemClock()
        self._ready: deque[BroadcastEnvelope] = deque()
        self._feed: FeedReader | None = None
        self._following: Following | None = None

    def heartbeat(self, every: float) -> BroadcastEnvelope:
        """Return a message for a line that was silent; the next one comes within `every` seconds of silence."""
        return self._unstored(HEARTBEAT, {"every_seconds": every})

    async def aclose(self) -> None:
        """End the iteration. Safe to call twice."""
        if self._following is not None:
            await self._following.aclose()

    def __aiter__(self) -> Self:
        """Return self."""
        return self

    async def __anext__(self) -> BroadcastEnvelope:
        """Return the next message, as soon as it is there."""
        if self._following is None or self._feed is None:
            raise ConfigurationError("messages are read inside `async with`")
        while not self._ready:
            self._ready.extend(await self._told(self._feed, await anext(self._following)))
        return self._ready.popleft()

    async def __aenter__(self) -> Self:
        """Go to the place to begin at."""
        store, session = self._trail.store, self._session
        if self._after[0] > await store.version(session.stream_id):
            self._after = (0, 0)
        before = max(0, self._after[0] - 1)
        self._feed = FeedReader(store, session.stream_id, self._config)
        await self._feed.begin(before)
        self._following = session.follow(after=before, forever=True)
        await self._following.begin()
        return self

    async def _told(self, feed: FeedReader, followed: Followed) -> Iterable[BroadcastEnvelope]:
        match followed:
            case Recorded():
                return [each for each in await feed.messages(followed) if place_of(each.id) > self._after]
            case ReplyDelta() | NodeDelta() | NodeProgress():
                return feed.chunk(followed, at=self._clock.utc())
            case UpdatesLost() if self._config.include_stream_chunks:
                return (self._unstored(LOST, {"count": followed.count}),)
            case _:
                return ()

    def _unstored(self, kind: str, payload: dict[str, JsonValue]) -> BroadcastEnvelope:
        last = self._feed.last_id if self._feed is not None else None
        return enveloped(
            self._config.form,
            id=last or BEFORE_ALL,
            previous=last,
            type=f"{self._kind}.{kind}",
            session_id=self._session.id,
            kind=self._kind,
            execution_id="",
            at=self._clock.utc(),
            payload=payload,
            is_ephemeral=True,
        )
