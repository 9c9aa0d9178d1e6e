"""The newest records of one stream, read and decoded once for all who follow it in one event loop.

Followers that have seen all there is are told of growth together, and one of them reads for the others. Each record is
kept until all of them have it, within bounds. A follower that begins earlier, or that is too slow, reads the store by
itself until it has come to the records that are kept. So it delays nobody.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from steptrail.domain.errors import StoreSetBack, shown
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import Writing
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.kinds import Kind
from steptrail.runtime.kernel.live_updates import writes_nothing
from steptrail.runtime.kernel.log_reader import Watch, watch_stream
from steptrail.runtime.kernel.ports import EventStore

_PAGE = 500
_MOST_RECORDS, _MOST_BYTES = 1_024, 1 << 20
_MOST_ALONE = 8
"""How many followers of one stream read the store by themselves at once."""


class Beginning(NamedTuple):
    """How a stream stood when a follower came: its version, whether a run was open, and which replies were written."""

    version: int
    is_open: bool
    writing: Writing


class Seat:
    """The place of one follower in a channel: it has the records up to version `after`.

    `wake` is called when there may be more, and when the channel fails; neither it nor `fail` may raise.
    """

    def __init__(
        self, channel: "Channel", after: int, wake: Callable[[], None], fail: Callable[[Exception | None], None]
    ) -> None:
        self.channel, self.after, self.wake, self.fail = channel, after, wake, fail

    @property
    def is_behind(self) -> bool:
        """Tell whether there may be records that the follower does not have."""
        return self.channel.is_ahead_of(self.after)

    async def read(self) -> Sequence[Recorded[Event]]:
        """Return the next records, and move behind them. Raises store errors."""
        records = await self.channel.read(self.after)
        if records:
            self.after = records[-1].version
        return records

    def leave(self) -> None:
        """Give the seat up. Safe to call twice."""
        self.channel.leave(self)


def take_seat(
    store: EventStore,
    stream: str,
    kind: Kind,
    *,
    after: int,
    wake: Callable[[], None],
    fail: Callable[[Exception | None], None],
) -> Seat:
    """Take a seat in the channel of a stream in the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _channels:
        for gone in [each for each in list(_channels) if each.is_closed()]:
            _channels.pop(gone, None)  # it ended without ending its followers
    of_loop = _channels.setdefault(loop, {})
    if (store, stream) not in of_loop:
        of_loop[store, stream] = Channel(store, loop, stream, kind)
    return of_loop[store, stream].join(after, wake, fail)


class Channel:
    """Belongs to one event loop. It begins with its first seat and ends with its last."""

    def __init__(self, store: EventStore, loop: asyncio.AbstractEventLoop, stream: str, kind: Kind) -> None:
        self._store, self._loop, self._stream, self._kind = store, loop, stream, kind
        self._seats: dict[Seat, None] = {}
        self._records: deque[Recorded[Event]] = deque()
        """The records that are kept. The last one has version `_end`."""
        self._sizes: deque[int] = deque()
        """The sizes of the first of them: of all but those of the newest page, which is kept whatever its size."""
        self._size, self._end = 0, 0
        self._growths, self._read_at = 1, 0
        self._watch: Watch | None = None
        self._standing, self._asked, self._answered = Beginning(0, False, writes_nothing), 0, 0
        self._reading, self._folding = asyncio.Lock(), asyncio.Lock()
        self._alone = asyncio.Semaphore(_MOST_ALONE)

    def join(self, after: int, wake: Callable[[], None], fail: Callable[[Exception | None], None]) -> Seat:
        """Return a seat of one who has the records up to version `after`."""
        seat = Seat(self, after, wake, fail)
        self._seats[seat] = None
        return seat

    def leave(self, seat: Seat) -> None:
        """Take a seat away. The channel ends with the last one."""
        if self._seats.pop(seat, seat) is None and not self._seats:
            if self._watch is not None:
                self._watch.leave()
            of_loop = _channels.get(self._loop, {})
            of_loop.pop((self._store, self._stream), None)
            if not of_loop:
                _channels.pop(self._loop, None)

    @property
    def is_watching(self) -> bool:
        """Tell whether the followers will be told of growth."""
        return self._watch is not None and not self._watch.is_over

    def watch(self) -> None:
        """Have all followers told of growth from now on. What grew before counts as growth."""
        if not self.is_watching:
            self._watch = watch_stream(self._store, self._stream, self._grown, self._failed)
            self._growths += 1

    def is_ahead_of(self, version: int) -> bool:
        """Tell whether there may be records after a version."""
        return version < self._end or self._read_at != self._growths

    async def standing(self) -> Beginning:
        """Return how the stream stands now: one fold for all who ask before it begins. Raises store errors."""
        self._asked += 1
        mine = self._asked
        async with self._folding:
            if self._answered < mine:
                asked = self._asked
                state, _ = await fold_stream(self._kind.machine, self._store, self._stream)
                is_open = state.version > 0 and self._kind.machine.control.standing(state).is_open
                self._standing = Beginning(state.version, is_open, self._kind.writing(state))
                self._answered = asked
            return self._standing

    async def read(self, after: int) -> Sequence[Recorded[Event]]:
        """Return the next records after a version; none when there are none."""
        if after < self._end - len(self._records):
            async with self._alone:
                return (await self._store.read(self._stream, after=after, limit=_PAGE)).records
        if after >= self._end:
            await self._read_on()
        kept = self._end - len(self._records)
        if not kept <= after < self._end:
            return ()  # there are none yet, or they are kept no more, because others were much quicker
        records = list(islice(self._records, after - kept, after - kept + _PAGE))
        if len(self._seats) == 1 and records:
            self._drop_up_to(records[-1].version)
        return records

    async def _read_on(self) -> None:
        async with self._reading:
            if self._read_at == self._growths:
                return  # somebody else has read it meanwhile
            self._drop_up_to(min((seat.after for seat in self._seats), default=self._end))
            # The number is taken before the stream is read. Whatever comes later changes it, or has been read.
            growths = self._growths
            stored = await self._store.read(self._stream, after=self._end, limit=_PAGE)
            if not stored.records and await self._store.version(self._stream) < self._end:
                # What is stored up to there from now on would never be handed out.
                raise StoreSetBack(f"session {shown(id_of(self._stream))}", self._end)
            older = len(self._records)
            self._records.extend(stored.records)
            if stored.records:
                self._end = stored.records[-1].version
            if stored.is_end:
                self._read_at = growths
            self._keep_sizes(older)
            while self._sizes and (len(self._sizes) > _MOST_RECORDS or self._size > _MOST_BYTES):
                self._drop_first()

    def _keep_sizes(self, older: int) -> None:
        """Measure the records before the newest page. Where all followers keep pace, there are none of these."""
        for record in islice(self._records, len(self._sizes), older):
            size = len(msgspec.json.encode(record.event))
            self._sizes.append(size)
            self._size += size

    def _drop_up_to(self, version: int) -> None:
        while self._records and self._records[0].version <= version:
            self._drop_first()
        if not self._records:
            # Nobody needs what comes before, which need not be read. A follower may claim more than there is.
            self._end = max(self._end, min(version, self._standing.version))

    def _drop_first(self) -> None:
        self._records.popleft()
        if self._sizes:
            self._size -= self._sizes.popleft()

    def _grown(self, version: int | None) -> None:
        if version is None or version > self._end:
            self._growths += 1
            for seat in list(self._seats):
                seat.wake()

    def _failed(self, error: Exception | None) -> None:
        for seat in list(self._seats):
            seat.fail(error)


_channels: dict[asyncio.AbstractEventLoop, dict[tuple[EventStore, str], Channel]] = {}
"""The channels that somebody follows, by their event loop, which uses only its own."""
