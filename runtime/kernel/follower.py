"""A follower of the log with a name. It goes on where it left off: in another process, after a crash, next week.

The store keeps its place in the log, which only grows. Of all processes that follow under one name, one works at a
time. Its lease is freed when it dies, and a process that waits for the lease goes on from the place that was kept last.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from steptrail.domain.errors import ConfigurationError, FollowerBusy, SessionBusy
from steptrail.domain.kernel.given import a_flag, a_whole
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.names import checked_name
from steptrail.runtime.kernel.closing import Closing
from steptrail.runtime.kernel.ports import EventStore, Lease
from steptrail.runtime.kernel.subscription import OnCorrupt, Subscription

_LOOK_SECONDS = 0.5
"""How often a follower looks whether the one before it has ended."""


class Follower(Closing):
    """An async context manager, and an async iterator over the entries after the place that was kept.

        async with trail.follower("billing") as follower:
            async for entry in follower:
                ...
                await follower.keep(entry.position)

    `entries` is the subscription behind it. Entering raises `FollowerBusy` while another follower works under the name,
    unless this one was made with `wait`. Going on and `keep` raise it once another one has begun since, because the
    lease of this one had run out. Entries that were handed out and not kept are handed out again to the next follower:
    each entry comes at least once, in the order of the log.
    """

    def __init__(
        self,
        store: EventStore,
        name: str,
        *,
        types: Sequence[str] = (),
        wait: bool = False,
        on_corrupt: OnCorrupt | None = None,
        is_store_closed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = checked_name(name, "the name of a follower")
        self._store, self._wait = store, a_flag(wait, "`wait`")
        self._subscribed = partial(
            Subscription, store, types=types, on_corrupt=on_corrupt, is_store_closed=is_store_closed
        )
        self.entries = self._subscribed(after=0)
        self._lease: Lease | None = None
        self._kept: int | None = None

    @property
    def kept(self) -> int:
        """The position up to which all entries are dealt with; 0 at the beginning."""
        return self._entered()

    async def keep(self, position: int) -> None:
        """Store that all entries up to `position` are dealt with. A position before the kept one is ignored.

        Raises `StoreError` when that could not be stored; then the place stays as it was. The more entries lie between
        two calls, the more come again after a crash. Raises `ConfigurationError` for what is no position, and for one
        that no event has yet: what will be stored up to there would never be handed out.
        """
        kept = self._entered()
        a_whole(position, f"the position that follower {self.name!r} keeps")
        if position > self.entries.handed_out and position > (last := await self._store.last_position()):
            said = f"follower {self.name!r} cannot keep position {position}: the log ends at {last}"
            raise ConfigurationError(f"{said}; keep the `position` of an entry that was handed out")
        await self._store.keep_place(self.name, position)
        self._kept = max(kept, position)

    async def aclose(self) -> None:
        """End the iteration and let the next follower work. Safe to call twice."""
        lease, self._lease = self._lease, None
        await self.entries.aclose()
        if lease is not None:
            await lease.release()

    def __aiter__(self) -> Self:
        """Return self."""
        return self

    async def __anext__(self) -> LogEntry:
        """Return the next entry as soon as it is stored."""
        self._entered()
        return self.ours(await anext(self.entries))

    def ours(self, entry: LogEntry) -> LogEntry:
        """Return an entry of `entries`. Raises `FollowerBusy` once another follower has begun since it was entered."""
        self._entered()
        return entry

    async def __aenter__(self) -> Self:
        """Take the lease of the name, and go to the place that was kept."""
        lease = await self._taken()
        try:
            self._kept = await self._store.place(self.name)
            self.entries = self._subscribed(after=self._kept)
        except BaseException:
            await lease.release()
            raise
        self._lease = lease
        return self

    def _entered(self) -> int:
        if self._kept is None:
            raise ConfigurationError(f"follower {self.name!r} works inside its block")
        if self._lease is not None and not self._lease.is_held:
            raise FollowerBusy(self.name, "another process, which began when the lease of this one had run out")
        return self._kept

    async def _taken(self) -> Lease:
        while True:
            try:
                return await self._store.acquire(f"follower:{self.name}", owner="a steptrail follower")
            except SessionBusy as busy:
                if not self._wait:
                    raise FollowerBusy(self.name, busy.owner) from None
            await asyncio.sleep(_LOOK_SECONDS)
