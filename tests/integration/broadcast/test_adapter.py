"""A listener that broadcasts: at once, at most once, and never in the way of a run."""

import asyncio
from collections.abc import Sequence

import pytest

from steptrail import Steptrail
from steptrail.broadcasting import AgentEventEnvelopeAdapter, BroadcastConfig, BroadcastEnvelope
from steptrail.errors import Backoff, ConfigurationError, TransportUnavailable
from steptrail.live import ReplyDelta
from tests.harness.eager_tasks import EAGER, begin_tasks
from tests.integration.broadcast.transports import KeepingTransport, at_once, everything_told
from tests.runner.kit import agent_of, trail_of


async def test_what_a_listener_sends_has_the_ids_and_bodies_of_the_log() -> None:
    transport = KeepingTransport()
    async with trail_of() as trail, AgentEventEnvelopeAdapter(transport) as adapter:
        trail.wiretap(adapter)
        trail.on(ReplyDelta, adapter.show)
        await trail.run(agent_of(["It is late."]).build(), "go", session="s")
        await adapter.flush()
        assert transport.durable == (await everything_told(trail))["s"]
        kinds = [each.type for each in transport.sent]
        assert kinds == [
            "agent.status",
            "agent.message",
            "agent.step.started",
            *["agent.stream.chunk"] * 4,
            "agent.step.completed",
            "agent.status",
        ]
        assert adapter.dropped == 0


async def test_while_the_transport_is_away_the_oldest_messages_get_lost_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Backoff, "exponential", at_once)

    class Away(KeepingTransport):
        async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
            await asyncio.sleep(0)
            if self.is_away:
                raise TransportUnavailable("away")
            await super().send(messages)

    transport = Away()
    transport.is_away = True
    async with trail_of() as trail, AgentEventEnvelopeAdapter(transport, most_waiting=2) as adapter:
        trail.wiretap(adapter)
        for _ in range(3):
            await trail.run(agent_of(["done"]).build(), "go", session="s")
        told = (await everything_told(trail))["s"]
        transport.is_away = False
        await adapter.flush()
        first, *last = [each.id for each in transport.sent]
        assert last == [each.id for each in told[-2:]]
        assert first in [each.id for each in told[:-2]]  # it was on its way already
        assert adapter.dropped == len(told) - 3


async def test_closing_it_does_not_wait_for_ever_for_a_transport_that_is_away() -> None:
    transport = KeepingTransport()
    transport.is_away = True
    adapter = AgentEventEnvelopeAdapter(transport)
    async with trail_of() as trail:
        with trail.wiretap(adapter):
            await trail.run(agent_of(["done"]).build(), "go", session="s")
        told = (await everything_told(trail))["s"]
    await adapter.aclose(within=0)
    assert (transport.sent, adapter.dropped) == ([], len(told))


async def test_when_it_is_closed_its_transport_is_at_rest() -> None:
    sending, went_on = asyncio.Event(), list[str]()

    class Tidy(KeepingTransport):
        async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
            sending.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                went_on.append("the transport")

    adapter = AgentEventEnvelopeAdapter(Tidy())
    async with trail_of() as trail:
        with trail.wiretap(adapter):
            await trail.run(agent_of(["done"]).build(), "go", session="s")
    await sending.wait()
    await adapter.aclose(within=0)
    assert went_on == ["the transport"]


@pytest.mark.parametrize("eager", EAGER)
async def test_all_is_sent_where_a_task_may_have_ended_before_its_maker_knows_it(eager: bool) -> None:
    class AtOnce(KeepingTransport):
        async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
            self.sent.extend(messages)

    begin_tasks(eager=eager)
    transport = AtOnce()
    async with trail_of() as trail:
        adapter = AgentEventEnvelopeAdapter(transport)
        trail.wiretap(adapter)
        await trail.run(agent_of(["done"]).build(), "go", session="s")
        await adapter.flush()
        assert transport.durable == (await everything_told(trail))["s"]
        await adapter.aclose()
    assert adapter.dropped == 0


async def test_runs_of_the_blocking_twin_are_broadcast_from_its_thread() -> None:
    transport = KeepingTransport()

    def work(adapter: AgentEventEnvelopeAdapter) -> None:
        with Steptrail.open_sync("sqlite:///:memory:") as trail:
            trail.wiretap(adapter)
            trail.run(agent_of(["done"]).build(), "go", session="s")

    async with AgentEventEnvelopeAdapter(transport, BroadcastConfig(form="reverb")) as adapter:
        await asyncio.to_thread(work, adapter)
        await adapter.flush()
    assert [transport.sent[at].body["type"] for at in (0, -1)] == ["agent.status", "agent.status"]


def test_an_adapter_needs_a_loop() -> None:
    with pytest.raises(ConfigurationError, match="event loop"):
        AgentEventEnvelopeAdapter(KeepingTransport())


async def test_an_adapter_that_is_closed_sends_nothing_more_and_counts_it() -> None:
    transport = KeepingTransport()
    async with trail_of() as trail:
        async with AgentEventEnvelopeAdapter(transport) as adapter:
            trail.wiretap(adapter)
            await trail.run(agent_of(["done"]).build(), "go", session="s")
        sent = len(transport.sent)
        await trail.run(agent_of(["done"]).build(), "go", session="late")
        await adapter.flush()
        assert len(transport.sent) == sent > 0
        assert adapter.dropped == len((await everything_told(trail))["late"])
