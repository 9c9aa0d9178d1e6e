"""A real store with a moment before each append, in which a test lets somebody else come first or the store fail."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.erasure import Erasure
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.log_page import LogEntry, LogPage
from steptrail.domain.kernel.record import Commit, Recorded, Snapshot, StreamHead
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.ports import EventStore, Lease, StoredStream


async def _nothing(stream: str) -> None:
    del stream


async def _no_look() -> None:
    pass


async def _no_append(commit: Commit) -> None:
    del commit


class Interposed:
    """An `EventStore` over one in memory. What a moment raises, the caller of the store gets."""

    def __init__(self) -> None:
        self.inner: EventStore = open_store("sqlite:///:memory:")
        self.before_append: Callable[[Commit], Awaitable[None]] = _no_append
        self.after_append: Callable[[Commit], Awaitable[None]] = _no_append
        self.before_version: Callable[[str], Awaitable[None]] = _nothing
        self.before_leased: Callable[[], Awaitable[None]] = _no_look
        self.before_acquire: Callable[[str], Awaitable[None]] = _nothing
        self.before_release: Callable[[str], Awaitable[None]] = _nothing

    async def append(self, stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        await self.before_append(commit)
        head = await self.inner.append(stream, expected, commit)
        await self.after_append(commit)
        return head

    async def file(self, digest: str) -> bytes | None:
        return await self.inner.file(digest)

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        return await self.inner.read(stream, after=after, limit=limit)

    async def proven(
        self, stream: str, upto: StreamHead, types: Mapping[str, bytes]
    ) -> Sequence[Recorded[Event]] | None:
        return await self.inner.proven(stream, upto, types)

    async def newest_of(self, stream: str, upto: StreamHead, types: Mapping[str, bytes]) -> Sequence[Recorded[Event]]:
        return await self.inner.newest_of(stream, upto, types)

    async def head(self, stream: str) -> StreamHead:
        return await self.inner.head(stream)

    async def version(self, stream: str) -> int:
        await self.before_version(stream)
        return await self.inner.version(stream)

    async def digest(self, stream: str, version: int) -> bytes:
        return await self.inner.digest(stream, version)

    async def snapshot(self, stream: str) -> Snapshot | None:
        return await self.inner.snapshot(stream)

    async def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        await self.inner.keep_snapshot(stream, snapshot)

    async def place(self, follower: str) -> int:
        return await self.inner.place(follower)

    async def keep_place(self, follower: str, position: int) -> None:
        await self.inner.keep_place(follower, position)

    async def streams(self, prefix: str) -> Sequence[str]:
        return await self.inner.streams(prefix)

    def log(
        self,
        *,
        after: int = 0,
        types: Sequence[str] = (),
        stream: str | None = None,
        limit: int | None = None,
        on_corrupt: Callable[[CorruptRecord], None] | None = None,
    ) -> AsyncIterator[LogEntry]:
        return self.inner.log(after=after, types=types, stream=stream, limit=limit, on_corrupt=on_corrupt)

    async def log_page(
        self,
        after: int,
        limit: int,
        *,
        types: Sequence[str] = (),
        stream: str | None = None,
        heads: bool = True,
        is_lazy: bool = False,
    ) -> LogPage:
        return await self.inner.log_page(after, limit, types=types, stream=stream, heads=heads, is_lazy=is_lazy)

    async def last_position(self) -> int:
        return await self.inner.last_position()

    async def grown(self, after: int) -> tuple[int, Mapping[str, int]]:
        return await self.inner.grown(after)

    async def wait_past(self, position: int, *, timeout: float) -> None:
        await self.inner.wait_past(position, timeout=timeout)

    async def acquire(self, stream: str, *, owner: str, take_over: bool = False) -> Lease:
        await self.before_acquire(stream)
        return _Lease(self, stream, await self.inner.acquire(stream, owner=owner, take_over=take_over))

    async def is_leased(self, stream: str) -> bool | None:
        return await self.inner.is_leased(stream)

    async def index(self, asked: IndexQuery) -> Sequence[RunSummary]:
        return await self.inner.index(asked)

    async def count(self, asked: IndexQuery) -> int:
        return await self.inner.count(asked)

    async def erase(self, streams: Mapping[str, int], *, at: int, by: str, reason: str) -> Sequence[Erasure]:
        return await self.inner.erase(streams, at=at, by=by, reason=reason)

    async def erasure(self, stream: str) -> Erasure | None:
        return await self.inner.erasure(stream)

    async def scrub(self, *, thoroughly: bool = False) -> str | None:
        return await self.inner.scrub(thoroughly=thoroughly)

    async def leased(self) -> frozenset[str] | None:
        await self.before_leased()
        return await self.inner.leased()

    async def close(self) -> None:
        await self.inner.close()


class _Lease:
    def __init__(self, store: Interposed, stream: str, held: Lease) -> None:
        self._store, self._stream, self._held = store, stream, held

    @property
    def is_held(self) -> bool:
        return self._held.is_held

    async def release(self) -> None:
        await self._store.before_release(self._stream)
        await self._held.release()


class Watched(Interposed):
    """Notes what is read of the streams, and what is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.read_events = 0
        self.kept: list[int] = []

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        stored = await super().read(stream, after=after, limit=limit)
        self.read_events += len(stored.records)
        return stored

    async def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        self.kept.append(snapshot.head.version)
        await super().keep_snapshot(stream, snapshot)
