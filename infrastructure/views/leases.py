"""The leases of read models: one process at a time applies the log to a projection, or makes a generation."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from threading import Lock
from typing import Any

from steptrail.domain.errors import SessionBusy, StoreReadOnly, ViewsBusy
from steptrail.infrastructure.views.series import Series
from steptrail.projections.kernel.projection import Projection
from steptrail.runtime.kernel.ports import EventStore


class LeasesOfViews:
    """The leases of a store that read models need. A file that is only read grants none, and they are beside it."""

    def __init__(self, store: EventStore, series: Series) -> None:
        self._store, self._series = store, series
        self._here: dict[str, Lock] = {}

    @asynccontextmanager
    async def to_rebuild(self, owner: str) -> AsyncGenerator[None]:
        """Hold what only one at a time holds: who makes a generation, or deletes many of its rows.

        Raises `ViewsBusy` while another one holds it, and `StoreReadOnly` in a store that they are in and not beside.
        """
        async with self._held("projector:rebuild", owner, or_here=self._series.is_beside) as (is_free, holder):
            if not is_free:
                raise ViewsBusy(holder)
            yield

    @asynccontextmanager
    async def to_count(self, projection: Projection[Any]) -> AsyncGenerator[bool]:
        """Hold a projection in this version, and yield whether nobody else does.

        One version that a deploy brings is counted while processes of the older one go on.
        """
        name = f"projector:{projection.name}:{projection.version}"
        async with self._held(name, "a steptrail projector", or_here=True) as (is_free, _):
            yield is_free

    @asynccontextmanager
    async def _held(self, name: str, owner: str, *, or_here: bool) -> AsyncGenerator[tuple[bool, str | None]]:
        """Hold a lease, or a lock of this process where none is granted; yield whether it is held, and else by whom."""
        try:
            lease = await self._store.acquire(name, owner=owner)
        except SessionBusy as error:
            yield False, error.owner
            return
        except StoreReadOnly:
            if not or_here:
                raise
            # Another process that is at the same loses that work at most. All tasks of this one share a lock.
            here = self._here.setdefault(name, Lock())
            is_free = here.acquire(blocking=False)
            try:
                yield is_free, "another task of this process"
            finally:
                if is_free:
                    here.release()
            return
        try:
            yield True, None
        finally:
            await lease.release()
