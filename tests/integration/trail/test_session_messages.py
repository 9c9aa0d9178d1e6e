"""The messages of one session in this process: of a fork too, and what a slow reader is told."""

import asyncio
from itertools import islice

import pytest

from steptrail import Steptrail
from steptrail.broadcasting import BroadcastConfig, BroadcastEnvelope, envelopes_of, place_of
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, StreamHead
from steptrail.interfaces.http.session_messages import LOST, SessionMessages, place_after
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import StoredStream
from steptrail.testing import Reply, calls
from tests.integration.store.test_bounded_memory import STREAM, history
from tests.integration.trail.test_following import GREETED_FIRST, QUESTION, clerk, play
from tests.integration.trail.test_subscriptions import PATIENCE
from tests.processes.agents.interposed import Interposed


async def first(messages: SessionMessages, count: int) -> list[BroadcastEnvelope]:
    return [await anext(messages) for _ in range(count)]


async def test_given_a_fork_then_its_own_messages_come_from_every_place() -> None:
    async def scenario(trail: Steptrail) -> None:
        config = BroadcastConfig()
        await trail.run(clerk(["hello"]), "hi", session="a")
        fork = await trail.session("a").fork(session="b")
        await fork.send(clerk(GREETED_FIRST), QUESTION)
        told = list(envelopes_of("b", await fork.history(), config))
        assert len(told) > 5
        for place in range(len(told)):
            after = place_of(told[place - 1].id) if place else (0, 0)
            async with SessionMessages(trail, "b", config, after=after) as messages:
                assert await first(messages, len(told) - place) == told[place:]

    await play(scenario)


@pytest.mark.parametrize("config", [BroadcastConfig(), BroadcastConfig.minimal()])
async def test_given_a_reader_that_does_not_come_then_it_is_told_of_lost_text_where_text_is_told(
    config: BroadcastConfig,
) -> None:
    async def scenario(trail: Steptrail) -> None:
        await trail.run(clerk(["hello"]), "hi", session="a")
        asking = [calls(("scan", {"shelves": 1}), text=f"Shelf {i}?") for i in range(18)]
        async with SessionMessages(trail, "a", config) as messages:
            for turn in range(3):
                script: list[Reply] = [*["hello"] * (1 + 19 * turn), *asking, "done"]
                await trail.session("a").send(clerk(script), QUESTION)
            told = envelopes_of("a", await trail.session("a").history(), config)
            seen = list[BroadcastEnvelope]()
            while not seen or seen[-1].id != told[-1].id or seen[-1].is_ephemeral:
                seen.append(await anext(messages))
        assert [each for each in seen if not each.is_ephemeral] == list(told)
        lost = [each for each in seen if each.type == f"agent.{LOST}"]
        assert len(lost) == (1 if config.include_stream_chunks else 0)
        assert all(each.body["data"] == {"count": 3 * 18 * 3 + 3 * 2 - 64} for each in lost)
        assert any(each.is_ephemeral for each in seen) is config.include_stream_chunks

    await play(scenario)


def test_a_place_is_an_id_or_a_version_and_nothing_else() -> None:
    assert place_after("12.2") == (12, 2)
    assert place_after("12") > place_of("12.999999999")
    assert place_after("12") < (13, 0)
    for nonsense in ("", "x", "-1", "1.2.3", "1e3", " 1"):
        with pytest.raises(ConfigurationError):
            place_after(nonsense)


async def test_messages_are_read_inside_their_block() -> None:
    async def scenario(trail: Steptrail) -> None:
        with pytest.raises(ConfigurationError):
            await anext(SessionMessages(trail, "a", BroadcastConfig()))

    await play(scenario)


class CountingRecords(Interposed):
    """A store that counts the records that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.records = 0

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        found = await super().read(stream, after=after, limit=limit)
        self.records += len(found.records)
        return found


async def test_given_readers_that_overtake_each_other_then_none_has_the_session_folded_again_and_again() -> None:
    store, events = CountingRecords(), 8_000
    async with asyncio.timeout(PATIENCE), Steptrail(Environment(store=store)) as trail:
        past = tuple(enumerate(islice(history(), events), 1))
        await store.append(STREAM, EMPTY_STREAM, Commit(CommitHead(commit_id="c", actor="me"), past))
        readers = [SessionMessages(trail, "long", BroadcastConfig()) for _ in range(3)]
        seen = [list[BroadcastEnvelope]() for _ in readers]
        for each in readers:
            await each.__aenter__()
        store.records = 0
        for place in range(400, events + 1, 400):
            for who in sorted(range(len(readers)), key=lambda who: (who + place // 400) % len(readers)):
                while not seen[who] or seen[who][-1].version < place - 8:
                    seen[who].append(await anext(readers[who]))
        told = [each for each in seen[0] if not each.is_ephemeral]
        assert all([each for each in own if not each.is_ephemeral] == told for own in seen)
        assert store.records < len(readers) * 4 * events
        for each in readers:
            await each.aclose()
