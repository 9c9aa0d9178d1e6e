"""Transports that keep what they were sent, and that are away, slow, or particular."""

import asyncio
from collections.abc import Callable, Sequence

from steptrail import Steptrail
from steptrail.broadcasting import BroadcastConfig, BroadcastEnvelope, envelopes_of, place_of
from steptrail.errors import Backoff, MessageRefused, TransportUnavailable


def at_once(*_: object, **__: object) -> Backoff:
    """Stand in for a backoff that waits: whatever waits for a transport tries again at once."""
    return Backoff.none()


class KeepingTransport:
    """Keeps what it was sent, in order, unless it is away; what `refuses` says it refuses for good."""

    def __init__(
        self, *, most_messages: int = 10, refuses: Callable[[BroadcastEnvelope], bool] = lambda _: False
    ) -> None:
        self.most_messages = most_messages
        self.sent: list[BroadcastEnvelope] = []
        self.is_away = False
        self.tries = 0
        self._refuses = refuses

    async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
        self.tries += 1
        await asyncio.sleep(0)
        assert 0 < len(messages) <= self.most_messages
        if self.is_away:
            raise TransportUnavailable("away", retry_after=0.0)
        if any(map(self._refuses, messages)):
            raise MessageRefused("not this one", reason="too large")
        self.sent.extend(messages)

    @property
    def durable(self) -> list[BroadcastEnvelope]:
        return [each for each in self.sent if not each.is_ephemeral]


def by_session(messages: Sequence[BroadcastEnvelope]) -> dict[str, list[BroadcastEnvelope]]:
    """Return what a client keeps of each session: nothing that it has had already."""
    kept: dict[str, list[BroadcastEnvelope]] = {}
    for each in messages:
        had = kept.setdefault(each.session_id, [])
        if not had or place_of(each.id) > place_of(had[-1].id):
            had.append(each)
    return kept


async def everything_told(
    trail: Steptrail, config: BroadcastConfig | None = None
) -> dict[str, list[BroadcastEnvelope]]:
    """Return the messages of every session of the store, folded from its whole log."""
    sessions = [row.session_id for row in await trail.runs()]
    told = {each: list(envelopes_of(each, await trail.session(each).history(), config)) for each in sessions}
    return {session: made for session, made in told.items() if made}
