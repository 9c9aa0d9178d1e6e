"""Broadcasting from inside a run: what its process is told, told on. At most once, and never in the run's way.

What nobody may miss is the `Broadcaster`'s business, which reads it from the log.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_whole
from steptrail.domain.live import NodeDelta, TextDelta
from steptrail.domain.newest import Newest
from steptrail.infrastructure.broadcast.chunks import pieces_of, room_of
from steptrail.infrastructure.broadcast.transport import (
    BroadcastTransport,
    Delivery,
    DeliveryCounts,
    checked_broadcast_config,
    checked_transport,
)
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.projections.broadcast.fold import EnvelopeFold
from steptrail.projections.lifecycle import RunEvent
from steptrail.projections.lifecycle.flow_runs import FlowRunEvent
from steptrail.runtime.kernel.cancellation import cancel_and_wait
from steptrail.runtime.kernel.clock import SystemClock
from steptrail.runtime.kernel.closing import Closing

_MOST_SESSIONS = 1_000
_log = logging.getLogger("steptrail")


class CanBroadcastAgentEvents(Protocol):
    """Sends events of agents to an outside system."""

    def broadcast(self, event: RunEvent) -> None:
        """Send one event."""
        ...

    def broadcast_batch(self, events: Iterable[RunEvent]) -> None:
        """Send several, in their order."""
        ...


class AgentEventEnvelopeAdapter(Closing):
    """Makes messages of lifecycle events and has them sent: `trail.wiretap(adapter)`.

    Text that is being written comes with `trail.on(ReplyDelta, adapter.show)`, that of workflows
    with `NodeDelta`. Messages wait for the transport, at most `most_waiting`; beyond that the oldest get lost and are
    counted in `dropped`. A session that began before the adapter did has a first message without a `previous`. Use it
    in `async with`, or close it. It belongs to the event loop in which it was made; listeners may call it from any
    thread. Raises `ConfigurationError` for what is no transport, and for room for no message.
    """

    def __init__(
        self, transport: BroadcastTransport, config: BroadcastConfig | None = None, *, most_waiting: int = 1_000
    ) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError("an adapter is made in the event loop in which its transport works") from None
        self.config = checked_broadcast_config(config)
        self.dropped = 0
        self._delivery, self._room = Delivery(checked_transport(transport)), room_of(transport)
        self._folds = Newest[str, EnvelopeFold](_MOST_SESSIONS)
        self._most_waiting = a_whole(most_waiting, "most_waiting", least=1)
        self._waiting = deque[BroadcastEnvelope]()
        self._clock = SystemClock()
        self._sending: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def counts(self) -> DeliveryCounts:
        """How many messages were sent, refused and tried again."""
        return self._delivery.counts

    def to_envelopes(self, event: RunEvent) -> tuple[BroadcastEnvelope, ...]:
        """Return the messages of an event, which is the next one of its session; none for most."""
        return self._fold(event.session_id, is_flow=isinstance(event, FlowRunEvent)).apply(event)

    def broadcast(self, event: RunEvent) -> None:
        """Send the messages of an event, behind those before. Returns at once."""
        self._enqueue(self.to_envelopes(event))

    def broadcast_batch(self, events: Iterable[RunEvent]) -> None:
        """Send the messages of several events, in their order. Returns at once."""
        for event in events:
            self.broadcast(event)

    def show(self, delta: TextDelta) -> None:
        """Send a piece of a reply that is being written. Returns at once."""
        for piece in pieces_of(delta, self._room):
            fold = self._fold(delta.session_id, is_flow=isinstance(delta, NodeDelta))
            self._enqueue(fold.delta(piece, at=self._clock.utc()))

    def __call__(self, event: RunEvent) -> None:
        """Broadcast the event: an adapter is a listener."""
        self.broadcast(event)

    async def flush(self) -> None:
        """Return when everything that was broadcast before has been taken by the transport."""
        await asyncio.sleep(0)  # what other threads have handed over comes first
        while self._sending is not None and not self._sending.done():
            await asyncio.shield(self._sending)

    async def aclose(self, *, within: float = 5.0) -> None:
        """Send what waits, for at most so many seconds, and end. What is left then gets lost, and all that comes."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self.flush()
        finally:
            self._is_closed = True
            if self._sending is not None and not self._sending.done():
                self.dropped += len(self._waiting) + 1
                self._waiting.clear()
                await cancel_and_wait(self._sending)

    def _fold(self, session: str, *, is_flow: bool) -> EnvelopeFold:
        name = f"flow:{session}" if is_flow else session
        return self._folds.keep(name, self._folds.get(name) or EnvelopeFold(self.config))

    def _enqueue(self, messages: Iterable[BroadcastEnvelope]) -> None:
        for message in messages:
            self._loop.call_soon_threadsafe(self._put, message)

    def _put(self, message: BroadcastEnvelope) -> None:
        if self._is_closed:
            self.dropped += 1
            return
        if len(self._waiting) >= self._most_waiting:
            if not self.dropped:
                _log.warning("more than %d messages wait for the transport: the oldest get lost", self._most_waiting)
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(message)
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send())

    async def _send(self) -> None:
        while self._waiting:
            # One at a time: what waits beyond it can still be dropped.
            await self._delivery.deliver((self._waiting.popleft(),))
