"""A transport that ends in this process: messages to iterate over, for tests, bridges and anything that is local."""

import asyncio
from collections.abc import Sequence
from typing import Self

from steptrail.domain.errors import TransportUnavailable
from steptrail.domain.kernel.given import a_whole
from steptrail.projections.broadcast.envelope import BroadcastEnvelope


class InProcessTransport:
    """An async iterator over the messages that are sent to it.

    At most `most_waiting` messages wait for a slow consumer. Then sending waits, and only the delivery waits with it.
    Closing the transport ends the iteration when the messages that were taken have been handed out. Raises
    `ConfigurationError` for room for none.
    """

    def __init__(self, *, most_waiting: int = 100) -> None:
        self.most_messages = a_whole(most_waiting, "most_waiting", least=1)
        self._waiting: list[BroadcastEnvelope] = []
        self._changed = asyncio.Condition()
        self._is_closed = False

    async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
        """Take all of them as soon as there is room for all. Raises `TransportUnavailable` when it is closed."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._is_closed or len(self._waiting) + len(messages) <= self.most_messages
            )
            if self._is_closed:
                raise TransportUnavailable("the transport in this process is closed")
            self._waiting.extend(messages)
            self._changed.notify_all()

    async def aclose(self) -> None:
        """Take no more messages. Safe to call twice."""
        async with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __aiter__(self) -> Self:
        """Return self."""
        return self

    async def __anext__(self) -> BroadcastEnvelope:
        """Return the next message as soon as there is one."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                raise StopAsyncIteration
            taken = self._waiting.pop(0)
            self._changed.notify_all()
            return taken
