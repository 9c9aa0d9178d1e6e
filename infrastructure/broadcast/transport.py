"""A protocol for transports of messages to front ends, and the delivery to them: in order, and patient."""

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Protocol, TypeVar, cast

from steptrail.domain.errors import ConfigurationError, MessageRefused, TransportUnavailable
from steptrail.domain.exception_words import words_of
from steptrail.domain.kernel.given import a_kind_of, a_whole
from steptrail.domain.policy.backoff import Backoff
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.runtime.kernel.cancellation import is_asked_to_end
from steptrail.runtime.kernel.log_raised import log_raised

_log = logging.getLogger("steptrail")

_LONGEST_SECONDS = 86_400.0
"""A transport that asks for more than a day has not meant a wait."""


class BroadcastTransport(Protocol):
    """Carries messages. It bounds by itself how long one `send` may take.

    A transport that takes only so many bytes in a message has a `most_bytes`: text that a model writes comes in pieces
    that fit. Without it a piece has at most 10,000 bytes.
    """

    @property
    def most_messages(self) -> int:
        """How many messages one `send` takes, 1 or more."""
        ...

    async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
        """Deliver all messages, in this order, or raise.

        `TransportUnavailable` means: the same ones again later. Some of them may have arrived. `MessageRefused` means
        that one of them never will, whichever it is. Anything else that is raised counts as unavailable. A `send` that
        was cancelled or has raised does not go on behind the back of the next one.
        """
        ...


@dataclass(slots=True)
class DeliveryCounts:
    """How many messages were `sent`, how many `refused` for good, and how often a message was tried again."""

    sent: int = 0
    refused: int = 0
    retries: int = 0


@dataclass(slots=True)
class Delivery:
    """Hands messages to a transport, each after the one before.

    A cancellation stops it, and a transport whose `send` is not async: a `ConfigurationError`.
    """

    transport: BroadcastTransport
    backoff: Backoff = field(default_factory=lambda: Backoff.exponential(0.5, max_seconds=30.0, jitter=0.5))
    counts: DeliveryCounts = field(default_factory=DeliveryCounts)

    async def deliver(self, messages: Sequence[BroadcastEnvelope]) -> None:
        """Return when the transport has taken all of them. One that it refuses is replaced by a word about it."""
        for batch in _batches(messages, self.transport.most_messages):
            await self._deliver(batch)

    async def offer(self, messages: Sequence[BroadcastEnvelope]) -> int:
        """Try once to deliver messages that nobody waits for; return how many were taken."""
        taken = 0
        for batch in _batches(messages, self.transport.most_messages):
            try:
                await self._handed_over(batch)
            except Exception as error:
                _log.debug("the transport did not take %d messages that may get lost: %s", len(batch), error)
                break
            taken += len(batch)
        self.counts.sent += taken
        return taken

    async def _deliver(self, batch: Sequence[BroadcastEnvelope]) -> None:
        try:
            await self._send(batch)
        except MessageRefused as refusal:
            if len(batch) > 1:
                for each in batch:
                    await self._deliver((each,))
            else:
                await self._replace(batch[0], refusal)

    async def _replace(self, message: BroadcastEnvelope, refusal: MessageRefused) -> None:
        self.counts.refused += 1
        said = "message %s (%s) of session %s was refused for good: %s"
        _log.warning(said, message.id, message.type, message.session_id, words_of(refusal))
        try:
            await self._send((message.omitted(refusal.reason),))
        except MessageRefused as again:
            said = "so was the word about message %s of session %s: %s"
            _log.warning(said, message.id, message.session_id, words_of(again))

    async def _send(self, batch: Sequence[BroadcastEnvelope]) -> None:
        failures = 0
        while True:
            try:
                is_async = await self._handed_over(batch)
            except MessageRefused:
                raise
            except Exception as error:
                failures += 1
                self.counts.retries += 1
                away = error if isinstance(error, TransportUnavailable) else None
                asked_for = _seconds(away.retry_after) if away is not None else None
                delay = self.backoff.delay(failures, random.random(), asked_for)  # noqa: S311 - spreads retries
                if failures == 1:
                    # What a transport of one's own raises by mistake says little without its class and its place.
                    said = words_of(error)
                    why, cause = (said, None) if away is not None else (f"{type(error).__name__}: {said}", error)
                    log_raised(_log, cause, "messages wait: the transport is unavailable (%s)", why)
                await asyncio.sleep(delay)
            else:
                if not is_async:
                    # It may have sent them: the same ones again would never end.
                    name = type(self.transport).__name__
                    raise ConfigurationError(f"the transport {name} does not wait: write `async def send(messages)`")
                if failures:
                    _log.info("the transport takes messages again, after %d tries", failures)
                self.counts.sent += len(batch)
                return

    async def _handed_over(self, batch: Sequence[BroadcastEnvelope]) -> bool:
        """Have the transport send; tell whether its `send` is async. What it cancels unasked has failed."""
        try:
            sending = cast(object, self.transport.send(batch))
            if is_async := isawaitable(sending):
                await sending
        except asyncio.CancelledError:
            if is_asked_to_end():
                raise
            raise TransportUnavailable("it cancelled itself, and nobody had asked it to") from None
        return is_async


def _seconds(asked_for: Any) -> float | None:
    """Return how long a transport asks us to wait, where that is a time at all."""
    is_number = isinstance(asked_for, int | float) and not isinstance(asked_for, bool)
    return float(asked_for) if is_number and 0 <= asked_for <= _LONGEST_SECONDS else None


def _batches(messages: Sequence[BroadcastEnvelope], most: int) -> Sequence[Sequence[BroadcastEnvelope]]:
    return [messages[begin : begin + most] for begin in range(0, len(messages), most)]


T = TypeVar("T")


def checked_transport(transport: T) -> T:
    """Return the transport. Raises `ConfigurationError` for one that lacks what a `BroadcastTransport` has.

    What a delivery finds out later nobody hears of who waits for it.
    """
    given, name = cast(Any, transport), type(transport).__name__
    if isinstance(given, type):
        raise ConfigurationError(f"the transport is the class {given.__name__}: give an object of it")
    if not callable(getattr(given, "send", None)):
        raise ConfigurationError(f"the transport, of type {name}, has no `async def send(messages)`")
    a_whole(getattr(given, "most_messages", None), f"`most_messages` of the transport {name}", least=1)
    if (most_bytes := getattr(given, "most_bytes", None)) is not None:
        a_whole(most_bytes, f"`most_bytes` of the transport {name}", least=1)
    return transport


def checked_broadcast_config(config: BroadcastConfig | None) -> BroadcastConfig:
    """Return the configuration, or the standard one. Raises `ConfigurationError` for anything else."""
    return BroadcastConfig() if config is None else a_kind_of(BroadcastConfig, config, "config")
