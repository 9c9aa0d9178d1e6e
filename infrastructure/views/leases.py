"""The leases of read models: one process at a time applies the log to a projection, or makes a generation."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock
from typing import Any

from steptrail.domain.errors import SessionBusy, StoreReadOnly, ViewsBusy
from steptrail.infrastructure.views.series import Series
from steptrail.projections.kernel.projection import Projection
from steptrail.runtime.kernel.ports import EventStore

_REBUILD = "projector:rebuild"


class LeasesOfViews:
    """The leases of a store that read models need. A file that is only read grants none, and they are beside it."""

    def __init__(self, store: EventStore, series: Series) -> None:
        self._store, self._series = store, series
        self._here: dict[str, Lock] = {}

    @asynccontextmanager
    async def to_rebuild(self, owner: str) -> AsyncGenerator[None]:
        """Hold what only one at a time holds: who makes a generation, or deletes many of its rows.

        Raises `ViewsBusy` while another one holds it.
        """
        try:
            lease = await self._store.acquire(_REBUILD, owner=owner)
        except SessionBusy as error:
            raise ViewsBusy(error.owner) from error
        except StoreReadOnly:
            if not self._series.is_beside:
                raise
            # Another process that is at the same now loses that work at most.
            with self._turn_here(_REBUILD) as is_free:
                if not is_free:
                    raise ViewsBusy("another task of this process") from None
                yield
            return
        try:
            yield
        finally:
            await lease.release()

    @asynccontextmanager
    async def to_count(self, projection: Projection[Any]) -> AsyncGenerator[bool]:
        """Hold a projection in this version, and yield whether nobody else does.

        One version that a deploy brings is counted while processes of the older one go on.
        """
        name = f"projector:{projection.name}:{projection.version}"
        try:
            lease = await self._store.acquire(name, owner="a steptrail projector")
        except SessionBusy:
            yield False
            return
        except StoreReadOnly:
            # Another process has a projector of its own, and loses work at most. All tasks of this one share one.
            with self._turn_here(name) as is_free:
                yield is_free
            return
        try:
            yield True
        finally:
            await lease.release()

    @contextmanager
    def _turn_here(self, name: str) -> Generator[bool]:
        here = self._here.setdefault(name, Lock())
        is_free = here.acquire(blocking=False)
        try:
            yield is_free
        finally:
            if is_free:
                here.release()
