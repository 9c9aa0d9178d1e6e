"""The messages of one session, made once for all who read it with one configuration in one event loop.

The first reader that comes to an event makes its messages for the others. A reader that is further back makes messages
by folds of its own until it has come to those that are kept.
"""

import asyncio
from typing import NamedTuple
from weakref import WeakValueDictionary

from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import NodeProgress, TextDelta
from steptrail.domain.newest import Newest
from steptrail.infrastructure.broadcast.envelope_reader import StreamFolds, fold_at
from steptrail.infrastructure.entry_reader import is_fork
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.projections.broadcast.fold import chunk_of
from steptrail.runtime.kernel.history import records_between
from steptrail.runtime.kernel.ports import EventStore

_MOST_TOLD, _MOST_CHUNKS = 256, 64
_EVENTS_BETWEEN_MARKS = 1_024
"""A copy of folds shares nearly all values with them, but for a list of these: of a long session few are kept."""


class _Told(NamedTuple):
    """The messages of one event, the id of the last message up to then, and whether the event ended an execution."""

    messages: tuple[BroadcastEnvelope, ...]
    last_id: str | None
    has_ended: bool


class _Feed:
    """The messages of the newest events and pieces of text, and the folds that made the newest."""

    def __init__(self) -> None:
        self.folds: StreamFolds | None = None
        self._marks = dict[int, StreamFolds]()
        """Copies of the folds at some versions, so that no reader has to begin at the beginning again."""
        self.told = Newest[int, _Told](_MOST_TOLD)
        self.chunks = Newest[tuple[TextDelta | NodeProgress, str | None, int], BroadcastEnvelope | None](_MOST_CHUNKS)
        self.folding = asyncio.Lock()

    def lead(self, folds: StreamFolds) -> bool:
        """Take these folds if they are the newest, and tell whether they are."""
        if self.folds is None or self.folds.version < folds.version:
            self.folds = folds
        return self.folds is folds

    def marked(self, folds: StreamFolds) -> StreamFolds:
        """Keep a copy of the folds if they stand at a mark, and return folds to go on with.

        Those that have come there first are gone on with by all, so that what is in them is there once.
        """
        if folds.version % _EVENTS_BETWEEN_MARKS:
            return folds
        if (kept := self._marks.get(folds.version)) is not None:
            return kept.copied()
        self._marks[folds.version] = folds.copied()
        return folds

    def before(self, version: int) -> StreamFolds | None:
        """Return a copy of the newest folds that were kept at or before a version."""
        newest = max((each for each in self._marks if each <= version), default=None)
        return None if newest is None else self._marks[newest].copied()


_feeds: WeakValueDictionary[tuple[EventStore, asyncio.AbstractEventLoop, str, BroadcastConfig], _Feed] = (
    WeakValueDictionary()
)


class FeedReader:
    """Makes the messages of one session for one reader, who gives it the events after version `after` in order."""

    def __init__(self, store: EventStore, stream: str, config: BroadcastConfig) -> None:
        self._store, self._stream, self._config = store, stream, config
        self._feed = _feeds.setdefault((store, asyncio.get_running_loop(), stream, config), _Feed())
        self._own: StreamFolds | None = None
        self._chunks = 0
        self.last_id: str | None = None

    async def begin(self, after: int) -> None:
        """Go to the place after an event. Raises store errors."""
        if (told := self._feed.told.get(after)) is not None:
            self.last_id = told.last_id
        elif (folds := await self._folds_at(after)) is not None:
            self.last_id = folds.envelopes.last_id

    async def messages(self, record: Recorded[Event]) -> tuple[BroadcastEnvelope, ...]:
        """Return the messages of the next event. Raises store errors, and may be asked again."""
        told = self._feed.told.get(record.version) or await self._made(record)
        self.last_id = told.last_id
        if told.has_ended:
            self._chunks = 0
        return told.messages

    def chunk(self, delta: TextDelta | NodeProgress, *, at: int) -> tuple[BroadcastEnvelope, ...]:
        """Return the message of a live update, seen at `at` (microseconds of UTC), if it makes one."""
        key = (delta, self.last_id, self._chunks)
        if key in self._feed.chunks:
            made = self._feed.chunks[key]
        else:
            new = chunk_of(delta, self._config, last=self.last_id, index=self._chunks, at=at)
            made = self._feed.chunks.keep(key, new)
        self._chunks += made is not None
        return () if made is None else (made,)

    async def _made(self, record: Recorded[Event]) -> _Told:
        begins = is_fork(self._stream, record)
        folds = await self._folds_at(record.version - (not begins))
        if folds is None:
            return _Told((), None, has_ended=False)
        if begins:
            # It begins with another session's past, of which nothing is told here.
            return _Told((), folds.envelopes.last_id, has_ended=False)
        if (told := self._feed.told.get(record.version)) is not None:
            return told  # another reader has made them meanwhile
        ended = folds.envelopes.executions_ended
        messages = folds.apply(record)
        made = _Told(messages, folds.envelopes.last_id, folds.envelopes.executions_ended > ended)
        to_go_on_with = self._feed.marked(folds)
        if self._feed.lead(folds):
            return self._feed.told.keep(record.version, made)
        self._own = to_go_on_with
        return made

    async def _folds_at(self, version: int) -> StreamFolds | None:
        """Return folds at a version: those of the feed, or else this reader's own; None for an unknown kind."""
        found = self._at(version)
        if found is None:
            async with self._feed.folding:
                found = self._at(version) or await self._caught_up(version)
        self._own = None if found is None or self._feed.lead(found) else found
        return found

    async def _caught_up(self, version: int) -> StreamFolds | None:
        """Return folds at a version, made of the nearest that are known before it: a long session takes seconds."""
        nearest, own = self._feed.before(version), self._own
        if own is not None and (0 if nearest is None else nearest.version) < own.version <= version:
            nearest = own
        if nearest is None:
            return await fold_at(self._store, self._stream, version, self._config)
        for record in await records_between(self._store, self._stream, nearest.version, version):
            nearest.apply(record)
        return nearest

    def _at(self, version: int) -> StreamFolds | None:
        return next((each for each in (self._feed.folds, self._own) if each and each.version == version), None)
