"""A transport of a service that is none, or says odd things: told at once, or to who waits, and never waited for."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from steptrail.broadcasting import (
    AgentEventEnvelopeAdapter,
    BroadcastConfig,
    BroadcastEnvelope,
    Broadcaster,
    InProcessTransport,
    place_of,
)
from steptrail.errors import Backoff, ConfigurationError, DeliveryError, TransportUnavailable
from tests.integration.broadcast.transports import KeepingTransport, at_once
from tests.runner.kit import agent_of, trail_of

CONFIG = BroadcastConfig(include_stream_chunks=False)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a transport tries again at once."""
    monkeypatch.setattr(Backoff, "exponential", at_once)


def own(**attributes: object) -> Any:
    """Return a transport with these attributes in the place of right ones."""

    async def send(self: object, messages: Sequence[BroadcastEnvelope]) -> None:
        del self, messages

    return type("Own", (), {"most_messages": 10, "send": send, **attributes})()


WRONG: list[tuple[Any, str]] = [
    (None, "send"),
    (object(), "send"),
    (KeepingTransport, "class"),
    (own(send=None), "send"),
    *((own(most_messages=most), "most_messages") for most in (None, 0, -1, "10", 10.0, True)),
    *((own(most_bytes=most), "most_bytes") for most in (0, -1, "10000", 1e4, True)),
]


@pytest.mark.parametrize(("transport", "said"), WRONG)
async def test_what_is_no_transport_is_refused_at_once(transport: Any, said: str) -> None:
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match=said):
            Broadcaster(trail, transport)
    with pytest.raises(ConfigurationError, match=said):
        AgentEventEnvelopeAdapter(transport)


@pytest.mark.parametrize("config", ["debug", {}, BroadcastConfig])
async def test_what_is_no_config_is_refused_at_once(config: Any) -> None:
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match="config"):
            Broadcaster(trail, own(), config=config)
    with pytest.raises(ConfigurationError, match="config"):
        AgentEventEnvelopeAdapter(own(), config)


@pytest.mark.parametrize("most", [0, -1, "10", 1.5, True, None])
async def test_room_for_no_message_is_refused_at_once(most: Any) -> None:
    with pytest.raises(ConfigurationError, match="most_waiting"):
        AgentEventEnvelopeAdapter(own(), most_waiting=most)
    with pytest.raises(ConfigurationError, match="most_waiting"):
        InProcessTransport(most_waiting=most)


async def test_what_a_transport_raises_by_mistake_is_said_with_its_class_and_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport = KeepingTransport()
    keep, failures = transport.send, [KeyError("choices")]

    async def send(messages: Sequence[BroadcastEnvelope]) -> None:
        if failures:
            raise failures.pop()
        await keep(messages)

    transport.send = send  # type: ignore[method-assign]
    async with trail_of() as trail:
        await trail.run(agent_of(["Hello."]).build(), "hi", session="s")
        async with Broadcaster(trail, transport) as broadcaster:
            await broadcaster.caught_up()
    (record,) = [each for each in caplog.records if "messages wait" in each.getMessage()]
    assert "KeyError: 'choices'" in record.getMessage()
    assert record.exc_info is not None


async def test_a_send_that_is_not_async_is_told_to_who_waits_and_sends_once() -> None:
    sent: list[BroadcastEnvelope] = []

    def send(self: object, messages: Sequence[BroadcastEnvelope]) -> None:
        del self
        sent.extend(messages)

    transport = own(send=send)
    async with trail_of() as trail:
        await trail.run(agent_of(["done"]).build(), "go", session="s")
        async with asyncio.timeout(30), Broadcaster(trail, transport, config=CONFIG) as broadcaster:
            with pytest.raises(DeliveryError, match=r"broadcaster 'broadcast' has ended: .*async def send"):
                await broadcaster.caught_up()
        assert len({each.id for each in sent}) == len(sent) > 0


async def test_a_transport_that_ends_as_a_generator_does_is_told_to_who_waits() -> None:
    async def send(self: object, messages: Sequence[BroadcastEnvelope]) -> None:
        del self, messages
        raise GeneratorExit

    async with trail_of() as trail:
        await trail.run(agent_of(["done"]).build(), "go", session="s")
        async with asyncio.timeout(60), Broadcaster(trail, own(send=send), config=CONFIG) as broadcaster:
            with pytest.raises(DeliveryError, match=r"^broadcaster 'broadcast' has ended: GeneratorExit$"):
                await broadcaster.caught_up()


@pytest.mark.parametrize("asked", ["soon", -5, float("nan"), float("inf"), 1e300, 10**400, [], True])
async def test_a_wait_that_is_no_time_is_passed_over(asked: Any) -> None:
    class Busy(KeepingTransport):
        async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
            self.tries += 1
            if self.tries == 1:
                raise TransportUnavailable("busy", retry_after=asked)
            self.sent.extend(messages)

    transport = Busy()
    async with trail_of() as trail:
        await trail.run(agent_of(["done"]).build(), "go", session="s")
        async with asyncio.timeout(30), Broadcaster(trail, transport, config=CONFIG) as broadcaster:
            await broadcaster.caught_up()
            assert (await broadcaster.stats()).retries == 1
        assert len(transport.sent) > 0


async def test_a_send_that_cancels_itself_is_tried_again() -> None:
    class Cancelling(KeepingTransport):
        async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
            self.tries += 1
            if self.tries == 1:
                raise asyncio.CancelledError
            self.sent.extend(messages)

    transport = Cancelling()
    async with trail_of() as trail:
        await trail.run(agent_of(["done"]).build(), "go", session="s")
        async with asyncio.timeout(30), Broadcaster(trail, transport, config=CONFIG) as broadcaster:
            await broadcaster.caught_up()
            assert (await broadcaster.stats()).retries == 1
        assert len(transport.sent) > 0


async def test_a_broadcaster_that_is_at_work_is_not_begun_again() -> None:
    transport = KeepingTransport()
    async with trail_of() as trail:
        broadcaster = Broadcaster(trail, transport, config=CONFIG)
        async with broadcaster:
            with pytest.raises(ConfigurationError, match="'broadcast' is at work"):
                await broadcaster.__aenter__()
        async with broadcaster:
            await broadcaster.caught_up()
        assert [task for task in asyncio.all_tasks() if task.get_name() == "steptrail broadcast"] == []


@pytest.mark.parametrize("given", [None, 5, b"1.2", ["1.2"]])
def test_what_is_no_text_is_no_id(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="id of a message"):
        place_of(given)
