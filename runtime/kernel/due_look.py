"""A look for the streams that a worker could bring on now, in the order in which they are to be taken up, by pages.

What is due by itself is read in the order of its instants from an index, so a look costs what it returns, however many
streams wait. No commit of their own tells of two others: streams whose owner has died, and streams that wait for one
that has moved on. All that work, or wait so, have to be looked at for these.
"""

from collections.abc import AsyncGenerator, Callable

from msgspec.structs import replace

from steptrail.domain.kernel.index_query import DUE_FIRST, IndexQuery
from steptrail.domain.shared.summary import RunSummary
from steptrail.runtime.kernel.lists import why_due, with_cause
from steptrail.runtime.kernel.ports import EventStore

_MOST_ROWS = 500
_ROWS_TO_SPARE = 8
"""Others take up what is due meanwhile."""
_SHARE = 10.0
_LONGEST_REST_SECONDS = 10.0


class Pace:
    """Says when to look again, so that looking takes a tenth of the time at most, and `least` seconds lie between.

    `time` is a clock in seconds. A store that is slow, or has much to look at, is asked less often.
    """

    def __init__(self, time: Callable[[], float], *, least: float) -> None:
        self._time, self._least = time, least
        self._began = self._next = float("-inf")

    @property
    def rest(self) -> float:
        """The seconds until the next look may begin; 0 when it may now."""
        return max(0.0, self._next - self._time())

    def begin(self) -> None:
        """Note that a look begins."""
        self._began = self._time()
        self._next = self._began + self._least

    def leave_out(self, seconds: float) -> None:
        """Do not count so much of this look as looking."""
        self._began += seconds

    def end(self) -> None:
        """Note that the look has ended."""
        took = self._time() - self._began
        self._next = self._began + max(self._least, min(_SHARE * took, _LONGEST_REST_SECONDS))


class DueLook:
    """Looks into one store. `time` is a clock in seconds, and `least` the least time between two looks, in seconds."""

    def __init__(self, store: EventStore, time: Callable[[], float], *, least: float) -> None:
        self._store = store
        self._told, self._untold = Pace(time, least=least), Pace(time, least=least)
        self._is_whole = False

    @property
    def rest(self) -> float:
        """The seconds until the next look may begin."""
        return self._told.rest

    @property
    def behind(self) -> float | None:
        """The seconds until a look finds all again, where the last one had to leave out what no commit tells of.

        None when it has yielded all there is.
        """
        return None if self._is_whole else self._untold.rest

    def leave_out(self, seconds: float) -> None:
        """Do not count so much of this look as looking: what it had found was begun with meanwhile."""
        self._told.leave_out(seconds)
        self._untold.leave_out(seconds)

    async def rows(self, now: int, soon: int, hands: int) -> AsyncGenerator[RunSummary]:
        """Yield what is due at `now`, with `due`; then what is due by itself until `soon`, the first first.

        Instants are microseconds of UTC. `hands` is how many rows are likely to be taken. Streams that another one
        began are left out: they are carried on with that one. Raises `StoreError`.
        """
        self._is_whole, is_all = False, not self._untold.rest
        self._told.begin()
        if is_all:
            self._untold.begin()
            async for row in self._of_untold(now):
                yield row
            self._untold.end()
        self._told.begin()
        async for row in self._of_told(now, soon, hands):
            yield row
        self._told.end()
        self._is_whole = is_all

    async def _of_told(self, now: int, soon: int, hands: int) -> AsyncGenerator[RunSummary]:
        size, place = hands + _ROWS_TO_SPARE, DUE_FIRST
        while rows := await self._store.index(IndexQuery(due_by=soon, due_after=place, roots=True, limit=size)):
            before = place
            for row in rows:
                # One that a hand has spoilt says no instant: nobody can take it up, nor go on behind it.
                if row.due_at is not None:
                    place = row.due_at, row.stream
                    yield with_cause(row, now)
            if len(rows) < size or (size == _MOST_ROWS and place == before):
                return
            size = min(2 * size, _MOST_ROWS)

    async def _of_untold(self, now: int) -> AsyncGenerator[RunSummary]:
        leased = await self._store.leased()
        asked = IndexQuery(moved_by=now, unless_leased=leased, roots=True, limit=_MOST_ROWS)
        while rows := await self._store.index(asked):
            # The stream that began first has waited longest.
            for row in reversed(await why_due(self._store, rows, now)):
                yield row
            if len(rows) < _MOST_ROWS:
                return
            asked = replace(asked, after=rows[-1].stream)
