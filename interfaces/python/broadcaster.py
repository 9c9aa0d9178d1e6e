"""Durable broadcasting: every stored event is told to a transport, in order, by one process at a time.

The place up to which the transport has taken everything stands in the store. A transport that is slow or away holds up
this delivery alone; it goes on where it was, in this process or the next.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar

from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.errors import (
    PASSING,
    ConfigurationError,
    CorruptRecord,
    DeliveryError,
    FollowerBusy,
    SessionErased,
    StoreError,
    StoreSetBack,
)
from steptrail.domain.exception_words import words_of
from steptrail.domain.kernel.given import a_kind_of
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.live import NodeDelta, ReplyDelta, TextDelta
from steptrail.domain.newest import Newest
from steptrail.infrastructure.broadcast.chunks import LiveChunks, room_of
from steptrail.infrastructure.broadcast.envelope_reader import EnvelopeReader, StreamFolds, fold_at
from steptrail.infrastructure.broadcast.transport import (
    BroadcastTransport,
    Delivery,
    checked_broadcast_config,
    checked_transport,
)
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.projections.broadcast.fold import EnvelopeFold
from steptrail.runtime.kernel.cancellation import cancel_and_wait
from steptrail.runtime.kernel.clock import SystemClock
from steptrail.runtime.kernel.follower import Follower
from steptrail.runtime.kernel.history import records_between
from steptrail.runtime.kernel.lists import newest_position
from steptrail.runtime.kernel.log_raised import log_raised

T = TypeVar("T")
FoldOf: TypeAlias = Callable[[TextDelta], Awaitable[EnvelopeFold | None]]

_MOST_ENTRIES = 100
"""So many entries are told between two places that are kept: a crash tells them again."""
_MOST_STANDBY = 100
_TRY_AGAIN_SECONDS = 1.0
_log = logging.getLogger("steptrail")


@dataclass(frozen=True, slots=True)
class BroadcastStats:
    """How a broadcaster is getting on.

    `position` is the place in the log up to which everything is delivered, `behind` how many places the log is ahead of
    it, at most so many events. `waiting_since` is when the oldest event in hand was stored (microseconds of UTC),
    None when none is. `sent`, `refused` and `retries` count messages and tries, `unreadable` entries of the log that
    were passed over, `dropped_chunks` pieces of replies that got lost. Counts are this process's.
    """

    is_at_work: bool
    position: int
    behind: int
    waiting_since: int | None
    sent: int
    refused: int
    retries: int
    unreadable: int
    dropped_chunks: int


class Broadcaster:
    """Tells the transport what happens in all sessions of the store, while its block lasts.

        async with Broadcaster(trail, transport):
            ...

    Of all broadcasters with one `name`, in whatever processes, one is at work and the others are standing by. A new
    name begins with the beginning of the log. Each message is delivered at least once, those of a session in order;
    what was delivered and not noted before a crash comes again with the same ids. Where `config` says so, text that
    models write is sent too by the process that runs them: once, or lost. That makes models stream in runs that begin
    inside the block.

    Leaving the block ends it without waiting: call `caught_up` first to see everything delivered. The broadcaster
    itself never raises for a transport or a store that fails; it tries again. Raises `ConfigurationError` for what is
    no transport, and for another trail than one of `Steptrail.open`.
    """

    def __init__(
        self,
        trail: Steptrail,
        transport: BroadcastTransport,
        *,
        name: str = "broadcast",
        config: BroadcastConfig | None = None,
    ) -> None:
        self.config = checked_broadcast_config(config)
        a_kind_of(Steptrail, trail, "`trail`")
        self._trail, self._transport = trail, checked_transport(transport)
        self._follower, self._envelopes = self._at_the_kept_place(name)
        self._delivery = Delivery(transport)
        self._standby = Newest[str, StreamFolds](_MOST_STANDBY)
        self._is_at_work, self._has_in_hand, self._position = False, False, 0
        self._waiting_since: int | None = None
        self._unreadable = 0
        self._delivered = asyncio.Condition()
        self._chunks: LiveChunks | None = None
        self._working: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    def _at_the_kept_place(self, name: str) -> tuple[Follower, EnvelopeReader]:
        follower = self._trail.follower(name, wait=True, on_corrupt=self._pass_over)
        return follower, EnvelopeReader(self._trail.store, self.config)

    async def stats(self) -> BroadcastStats:
        """Return how it is getting on. Raises store errors."""
        position = await self._place()
        end = await newest_position(self._trail.store)
        counts = self._delivery.counts
        return BroadcastStats(
            is_at_work=self._is_at_work,
            position=position,
            behind=max(0, end - position),
            waiting_since=self._waiting_since,
            sent=counts.sent,
            refused=counts.refused,
            retries=counts.retries,
            unreadable=self._unreadable,
            dropped_chunks=self._chunks.dropped if self._chunks is not None else 0,
        )

    async def caught_up(self) -> None:
        """Return when the transport has taken everything that is stored now, whichever process gives it to it.

        Raises `DeliveryError` when this broadcaster has ended over an error, which the log has too.
        """
        end = await newest_position(self._trail.store)
        async with self._delivered:
            while await self._place() < end:
                if self._failure is not None:
                    why = words_of(self._failure) or type(self._failure).__name__
                    raise DeliveryError(f"broadcaster {self._follower.name!r} has ended: {why}") from self._failure
                with suppress(TimeoutError):
                    # Another process notifies nobody here.
                    async with asyncio.timeout(_TRY_AGAIN_SECONDS):
                        await self._delivered.wait()

    async def __aenter__(self) -> Self:
        """Begin. Raises `ConfigurationError` when it is at work already."""
        if self._working is not None:
            raise ConfigurationError(f"broadcaster {self._follower.name!r} is at work: make another one")
        self._failure = None
        self._chunks = LiveChunks(SystemClock().utc, room=room_of(self._transport))
        self._working = asyncio.create_task(self._work(self._chunks), name=f"steptrail {self._follower.name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        """End, and let another one go on."""
        if self._working is not None:
            working, self._working = self._working, None
            await cancel_and_wait(working)

    async def _work(self, chunks: LiveChunks) -> None:
        kinds: tuple[type[TextDelta], ...] = (ReplyDelta, NodeDelta) if self.config.include_stream_chunks else ()
        listening = [self._trail.on(kind, chunks.add) for kind in kinds]
        try:
            while not await self._followed(chunks):
                self._is_at_work = self._has_in_hand = False
                self._follower, self._envelopes = self._at_the_kept_place(self._follower.name)
        except (Exception, GeneratorExit) as error:  # code of a transport may raise either
            # A trail that was closed is no failure: there is nothing more to tell.
            if not (isinstance(error, StoreError) and self._follower.entries.is_over):
                log_raised(_log, error, "broadcaster %s has ended", self._follower.name, level=logging.ERROR)
                self._failure = error
        finally:
            self._is_at_work = self._has_in_hand = False
            for each in listening:
                each.stop()

    async def _followed(self, chunks: LiveChunks) -> bool:
        """Deliver until the trail is closed. False where it is to be followed anew.

        That is so when the log is an older one by then, and when another process has got the lease.
        """
        async with AsyncExitStack() as block:
            follower = await self._again(
                lambda: self._meanwhile(block.enter_async_context(self._follower), chunks, self._fold_of_store),
                of=PASSING,
            )
            self._is_at_work, self._position = True, follower.kept
            self._standby.clear()
            try:
                await self._follow(follower, chunks)
            except (StoreSetBack, FollowerBusy) as error:
                _log.warning("broadcaster %s goes on from the place that is kept: %s", follower.name, error)
                return False
        return True

    async def _follow(self, follower: Follower, chunks: LiveChunks) -> None:
        entries = follower.entries
        while not entries.is_over:
            await self._again(lambda: self._meanwhile(entries.fill(), chunks, self._fold_of_delivery))
            self._has_in_hand = True
            messages, taken = list[BroadcastEnvelope](), 0
            while taken < _MOST_ENTRIES and (entry := entries.ready()) is not None:
                taken += 1
                if written := await chunks.take(self._fold_of_delivery):
                    # It comes before what this event makes, which may be the end of its step.
                    await self._delivery.deliver(messages)
                    messages.clear()
                    await self._offer_all(chunks, written)
                messages += await self._again(partial(self._told, entry))
            self._waiting_since = messages[0].at if messages else None
            await self._delivery.deliver(messages)
            self._waiting_since = None
            if entries.handed_out > self._position:
                await self._again(partial(follower.keep, entries.handed_out))
                self._position = entries.handed_out
            self._has_in_hand = False
            async with self._delivered:
                self._delivered.notify_all()
            await self._offer(chunks, self._fold_of_delivery)

    async def _told(self, entry: LogEntry) -> tuple[BroadcastEnvelope, ...]:
        try:
            return await self._envelopes.envelopes(entry)
        except CorruptRecord as error:
            self._pass_over(error)
            return ()

    def _pass_over(self, error: CorruptRecord) -> None:
        self._unreadable += 1
        _log.warning("broadcaster %s passes over what it cannot read: %s", self._follower.name, error)

    async def _again(self, work: Callable[[], Awaitable[T]], of: tuple[type[StoreError], ...] = (StoreError,)) -> T:
        """Return what the work returns, as soon as the store lets it.

        Raises errors of the store that are not `of`, and `StoreSetBack`, which no waiting ends.
        """
        is_waiting = False
        while True:
            try:
                return await work()
            except of as error:
                if self._follower.entries.is_over or isinstance(error, StoreSetBack):
                    raise
                if not is_waiting:
                    _log.warning("broadcaster %s waits for the store: %s", self._follower.name, error)
                is_waiting = True
                await asyncio.sleep(_TRY_AGAIN_SECONDS)

    async def _meanwhile(self, work: Coroutine[Any, Any, T], chunks: LiveChunks, fold_of: FoldOf) -> T:
        """Return what the work returns, and send the chunks that come meanwhile."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                came = asyncio.create_task(chunks.came.wait())
                try:
                    await asyncio.wait({task, came}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    came.cancel()
                if chunks.came.is_set():
                    await self._offer(chunks, fold_of)
            return task.result()
        finally:
            await cancel_and_wait(task)

    async def _offer(self, chunks: LiveChunks, fold_of: FoldOf) -> None:
        await self._offer_all(chunks, await chunks.take(fold_of))

    async def _offer_all(self, chunks: LiveChunks, messages: Sequence[BroadcastEnvelope]) -> None:
        chunks.dropped += len(messages) - await self._delivery.offer(messages)

    async def _fold_of_delivery(self, delta: TextDelta) -> EnvelopeFold | None:
        return self._envelopes.fold_of(_stream_of(delta))

    async def _fold_of_store(self, delta: TextDelta) -> EnvelopeFold | None:
        """Return the session's fold as it is stored now: the broadcaster at work is about to tell that much."""
        stream = _stream_of(delta)
        try:
            version = await self._trail.store.version(stream)
            fold = self._standby.pop(stream, None)
            if fold is None or not 0 < fold.version <= version:
                fold = await fold_at(self._trail.store, stream, version, self.config)
            else:
                for record in await records_between(self._trail.store, stream, fold.version, version):
                    fold.apply(record)
        except (StoreError, SessionErased):
            return None
        return None if fold is None else self._standby.keep(stream, fold).envelopes

    async def _place(self) -> int:
        """Return the position up to which everything is delivered, by this process or by the one at work."""
        if not self._is_at_work:
            return await self._trail.store.place(self._follower.name)
        return self._position if self._has_in_hand else self._follower.entries.handed_out


def _stream_of(delta: TextDelta) -> str:
    session = checked_session_id(delta.session_id)
    return f"flow:{session}" if isinstance(delta, NodeDelta) else stream_of(session)
