"""Durable broadcasting: everything stored is told in order, whatever becomes of transports and processes."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.broadcasting import BroadcastConfig, BroadcastEnvelope, Broadcaster
from steptrail.domain.errors import PASSING, StoreError
from steptrail.domain.inference import ModelDelta, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import EVENT_TYPES
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.domain.policy.backoff import Backoff
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.lease import StoreLease
from steptrail.testing import Reply, ScriptedModel, call, calls, say
from steptrail.testing.store_samples import Noted, Written, commit_of
from steptrail.workflow import Workflow
from tests.integration.broadcast.transports import KeepingTransport, at_once, by_session, everything_told
from tests.runner.kit import again_on, agent_of, trail_of

SCRIPT: list[Reply] = [call("add", a=1, b=2), call("fail"), "The sum is 3."]
CONFIG = BroadcastConfig(include_stream_chunks=False)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a transport tries again at once."""
    monkeypatch.setattr(Backoff, "exponential", at_once)


async def a_run(trail: Steptrail, session: str = "s", *, script: Sequence[Reply] = SCRIPT) -> None:
    await trail.run(agent_of(script).build(), "go", session=session)


class Writer(ScriptedModel):
    """Writes its second word when its first has been told, and ends when that has been."""

    def __init__(self, told: KeepingTransport) -> None:
        super().__init__([])
        self._told = told

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        del request
        for word in ("It is ", "late."):
            before = self._chunks()
            yield ModelDelta(text=word)
            while self._chunks() == before:
                await asyncio.sleep(0)
        yield say("It is late.")

    def _chunks(self) -> int:
        return sum(each.is_ephemeral for each in self._told.sent)


def data_of(envelope: BroadcastEnvelope) -> dict[str, JsonValue]:
    data = envelope.body["data"]
    assert isinstance(data, dict)
    return {**data}


async def test_a_run_is_told_whole_and_in_order() -> None:
    transport = KeepingTransport()
    async with trail_of() as trail, Broadcaster(trail, transport, config=CONFIG) as broadcaster:
        await asyncio.gather(a_run(trail, "a"), a_run(trail, "b"))
        await broadcaster.caught_up()
        told = await everything_told(trail, CONFIG)
        assert {session: [m for m in transport.sent if m.session_id == session] for session in told} == told
        stats = await broadcaster.stats()
        assert (stats.is_at_work, stats.behind, stats.waiting_since) == (True, 0, None)
        assert (stats.sent, stats.refused, stats.retries) == (len(transport.sent), 0, 0)


async def test_a_dead_transport_slows_no_run_and_is_told_everything_later() -> None:
    transport = KeepingTransport()
    transport.is_away = True
    async with trail_of() as trail, Broadcaster(trail, transport, config=CONFIG) as broadcaster:
        await a_run(trail)
        while transport.tries < 3:
            await asyncio.sleep(0)
        stats = await broadcaster.stats()
        assert transport.sent == []
        assert stats.behind == await trail.store.last_position()
        assert stats.waiting_since is not None
        assert stats.retries >= 2
        transport.is_away = False
        await broadcaster.caught_up()
        assert by_session(transport.sent) == await everything_told(trail, CONFIG)
        assert len(transport.sent) == len(by_session(transport.sent)["s"])


async def test_a_transport_that_never_answers_slows_no_run() -> None:
    class Hangs(KeepingTransport):
        async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
            self.tries += 1
            await asyncio.Event().wait()

    transport = Hangs()
    async with trail_of() as trail:
        async with Broadcaster(trail, transport) as broadcaster:
            await a_run(trail)
            await a_run(trail, "t")
            while not transport.tries:
                await asyncio.sleep(0)
            assert (await broadcaster.stats()).behind > 0
        assert transport.tries == 1


async def test_what_is_refused_for_good_is_logged_and_replaced_by_a_word(caplog: pytest.LogCaptureFixture) -> None:
    def is_too_large(message: BroadcastEnvelope) -> bool:
        return message.type == "agent.tool.completed" and "data" in message.body

    with caplog.at_level(logging.WARNING, logger="steptrail"):
        transport = KeepingTransport(refuses=is_too_large)
        async with trail_of() as trail, Broadcaster(trail, transport, config=CONFIG) as broadcaster:
            await a_run(trail)
            await broadcaster.caught_up()
            told = (await everything_told(trail, CONFIG))["s"]
            assert [each.id for each in transport.sent] == [each.id for each in told]
            replaced = [each for each in transport.sent if each.type == "agent.tool.completed"]
            assert len(replaced) == 2
            for each in replaced:
                assert each.body["omitted"] == {"type": "agent.tool.completed", "reason": "too large"}
                assert each.body["sequence"] == each.id
            for one, other in pairwise(transport.sent):
                assert other.body["previous"] == one.id
            assert (await broadcaster.stats()).refused == 2
    assert [each.levelname for each in caplog.records if each.name == "steptrail"] == ["WARNING"] * 2


async def test_a_transport_that_refuses_everything_is_passed_by() -> None:
    transport = KeepingTransport(refuses=lambda _: True)
    async with trail_of() as trail, Broadcaster(trail, transport, config=CONFIG) as broadcaster:
        await a_run(trail)
        await broadcaster.caught_up()
        stats = await broadcaster.stats()
        assert (stats.sent, stats.refused) == (0, len((await everything_told(trail, CONFIG))["s"]))


async def test_one_is_at_work_and_another_goes_on_where_it_was() -> None:
    first, second = KeepingTransport(), KeepingTransport()
    async with trail_of() as trail:
        at_work, standing_by = Broadcaster(trail, first), Broadcaster(trail, second)
        async with at_work:
            await a_run(trail, "a")
            await at_work.caught_up()
            async with standing_by:
                await standing_by.caught_up()
                assert [(await each.stats()).is_at_work for each in (at_work, standing_by)] == [True, False]
                assert second.sent == []
                await at_work.__aexit__(None, None, None)
                await a_run(trail, "b", script=["done"])
                await standing_by.caught_up()
                assert (await standing_by.stats()).is_at_work
        told = await everything_told(trail)
        assert by_session(first.durable) == {"a": told["a"]}
        assert by_session(second.durable) == {"b": told["b"]}


@pytest.mark.parametrize("refusal", PASSING)
async def test_one_that_stands_by_goes_on_standing_by_when_the_store_was_away(
    refusal: type[StoreError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.interfaces.python.broadcaster._TRY_AGAIN_SECONDS", 0.01)
    transport, looked = KeepingTransport(), asyncio.Event()
    async with trail_of() as trail:
        acquire = RecorderEventStore.acquire

        async def away(store: RecorderEventStore, stream: str, **settings: Any) -> StoreLease:
            monkeypatch.setattr(RecorderEventStore, "acquire", acquire)
            looked.set()
            raise refusal("its server is being started anew, or its disk is full")

        monkeypatch.setattr(RecorderEventStore, "acquire", away)
        async with Broadcaster(trail, transport) as broadcaster:
            await looked.wait()
            await a_run(trail)
            await broadcaster.caught_up()
        assert by_session(transport.durable) == {"s": (await everything_told(trail))["s"]}


async def test_text_is_told_while_it_is_written_between_the_start_and_the_end_of_its_step() -> None:
    transport = KeepingTransport()
    async with trail_of() as trail, Broadcaster(trail, transport) as broadcaster:
        await trail.run(AgentBuilder("slow").with_model(Writer(transport)).build(), "go", session="s")
        await broadcaster.caught_up()
        assert transport.durable == (await everything_told(trail))["s"]
    kinds = [each.type.removeprefix("agent.") for each in transport.sent]
    first, last = kinds.index("step.started"), kinds.index("step.completed")
    assert kinds[first + 1 : last] == ["stream.chunk"] * (last - first - 1)
    chunks = transport.sent[first + 1 : last]
    assert "".join(str(data_of(each)["content"]) for each in chunks) == "It is late."
    assert {each.id for each in chunks} == {transport.sent[first].id}


async def test_a_process_that_stands_by_tells_what_its_own_runs_write_and_nothing_else() -> None:
    elsewhere, here = KeepingTransport(), KeepingTransport()
    async with trail_of() as other, Broadcaster(other, elsewhere, config=CONFIG) as at_work:
        await a_run(other, "x")
        await at_work.caught_up()
        trail = again_on(other)
        async with Broadcaster(trail, here) as standing_by:
            await trail.run(AgentBuilder("slow").with_model(Writer(here)).build(), "go", session="y")
            await at_work.caught_up()
            assert not (await standing_by.stats()).is_at_work
        started = next(each for each in elsewhere.sent if each.session_id == "y" and each.type == "agent.step.started")
        assert here.sent
        for each in here.sent:
            assert (each.type, each.session_id, each.id) == ("agent.stream.chunk", "y", started.id)


@pytest.mark.parametrize("word", [1, 2])
async def test_text_of_a_node_is_told_by_who_stands_by_however_much_other_nodes_do_before_a_word(word: int) -> None:
    here, may_begin, have_ended = KeepingTransport(), asyncio.Event(), asyncio.Event()

    class Gate(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
            await may_begin.wait()
            yield say("")

    class Slow(Writer):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
            words = 0
            async for each in super().stream(request):
                words += 1
                if words == word:
                    await have_ended.wait()
                yield each

    others = [f"n{number}" for number in range(40)]
    flow = Workflow("w").noop("begin").llm("slow", Slow(here), prompt="go").llm("gate", Gate([]), prompt="go")
    for each in others:
        flow = flow.noop(each)
    flow = flow.edge("begin", "slow", "gate")
    for one, next_one in pairwise(["gate", *others]):
        flow = flow.edge(one, next_one)

    async with asyncio.timeout(60), trail_of() as other, Broadcaster(other, KeepingTransport()):
        trail = again_on(other)
        async with Broadcaster(trail, here):
            running = asyncio.create_task(trail.run(flow.build(), session="f"))
            while len(here.sent) < word - 1:
                await asyncio.sleep(0.01)
            may_begin.set()
            while await other.store.version("flow:f") < 100:
                await asyncio.sleep(0.01)
            have_ended.set()
            await running
    told = [(data_of(each)["chunk_index"], data_of(each)["content"]) for each in here.sent]
    assert told == [(0, "It is "), (1, "late.")]


async def test_what_cannot_be_read_is_passed_over_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = KeepingTransport()
    async with trail_of() as trail:
        await trail.store.append("agent:a", EMPTY_STREAM, commit_of("c", Written(), Written()))
        await a_run(trail, "b")
        await trail.store.append("agent:c", EMPTY_STREAM, commit_of("d", Written()))
        await trail.store.append("bell:d", EMPTY_STREAM, commit_of("e", Noted()))
        monkeypatch.delitem(EVENT_TYPES, Written.TYPE)
        async with Broadcaster(trail, transport, config=CONFIG) as broadcaster:
            await broadcaster.caught_up()
            stats = await broadcaster.stats()
            assert (stats.unreadable, stats.behind) == (3, 0)
        assert {each.session_id for each in transport.sent} == {"b"}


async def test_closing_the_trail_ends_it_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="steptrail"):
        trail = trail_of()
        async with Broadcaster(trail, KeepingTransport()) as broadcaster:
            await a_run(trail, script=["done"])
            await broadcaster.caught_up()
            await trail.close()
            await asyncio.sleep(0)
    assert [each for each in caplog.records if each.name == "steptrail"] == []


async def test_calls_side_by_side_are_told_in_the_order_of_the_log() -> None:
    transport = KeepingTransport(most_messages=1)
    script: list[Reply] = [calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), "done"]
    async with trail_of() as trail, Broadcaster(trail, transport, config=CONFIG) as broadcaster:
        await a_run(trail, script=script)
        await broadcaster.caught_up()
        assert transport.sent == (await everything_told(trail, CONFIG))["s"]


async def test_a_caller_that_is_cancelled_while_it_ends_is_cancelled_when_its_transport_is_at_rest() -> None:
    sending, tidying, is_tidy, went_on = asyncio.Event(), asyncio.Event(), asyncio.Event(), list[str]()

    class Tidy(KeepingTransport):
        async def send(self, messages: Sequence[BroadcastEnvelope]) -> None:
            sending.set()
            try:
                await asyncio.Event().wait()
            finally:
                tidying.set()
                await is_tidy.wait()
                went_on.append("the transport")

    async def serve(trail: Steptrail) -> None:
        async with Broadcaster(trail, Tidy(), config=CONFIG):
            await sending.wait()
        went_on.append("the caller, unaware")

    async with trail_of() as trail:
        await a_run(trail)
        serving = asyncio.create_task(serve(trail))
        await tidying.wait()
        serving.cancel()
        await asyncio.sleep(0)
        is_tidy.set()
        await asyncio.wait({serving})
        assert serving.cancelled()
    assert went_on == ["the transport"]
