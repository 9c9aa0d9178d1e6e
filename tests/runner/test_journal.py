"""What a journal knows while it waits for a store: whose the session is, and who wanted to be cancelled."""

import asyncio

import pytest

from steptrail.domain.agent.events import AgentEvent, ExecutionStarted, SessionStarted
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.kernel.record import Commit, StreamHead
from steptrail.domain.version import VERSION
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.agent.agent_journal import AgentJournal
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import EventStore
from tests.runner.kit import HandClock
from tests.unit.agent.story import AGENT as AGENT_SNAPSHOT, HELLO

OPENED: tuple[AgentEvent, ...] = (
    SessionStarted(name="a"),
    ExecutionStarted(
        execution_id="s:1",
        ordinal=1,
        segment=1,
        worker="w",
        input=HELLO,
        agent=AGENT_SNAPSHOT,
        by="user",
        library=VERSION,
    ),
)


async def journal_of(store: EventStore) -> AgentJournal:
    return await AgentJournal.open(AGENT, Environment(store=store, clock=HandClock(), worker="w"), "agent:s")


async def test_a_segment_that_was_claimed_is_owned_only_when_it_is_stored() -> None:
    store = open_store("sqlite:///:memory:")
    journal = await journal_of(store)
    assert not journal.owns_the_session
    journal.record(*OPENED)
    journal.claim_segment()
    assert not journal.owns_the_session
    assert await journal.flush()
    assert journal.owns_the_session
    assert not (await journal_of(store)).owns_the_session
    await store.close()


async def test_cancellations_wait_until_the_store_has_said_whether_a_commit_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = open_store("sqlite:///:memory:")
    appending, answers = asyncio.Semaphore(0), asyncio.Event()
    really = store.append

    async def slow(stream: str, expected: StreamHead, commit: Commit) -> StreamHead:
        appending.release()
        await answers.wait()
        return await really(stream, expected, commit)

    monkeypatch.setattr(store, "append", slow)
    journal = await journal_of(store)
    journal.record(*OPENED)
    flushing = asyncio.create_task(journal.flush())
    await appending.acquire()
    flushing.cancel("first")
    # The append was cut off, and is made once more to learn what became of it.
    await appending.acquire()
    flushing.cancel("second")
    for _ in range(10):
        await asyncio.sleep(0)
    assert not flushing.done()
    answers.set()
    await asyncio.wait({flushing})
    assert flushing.cancelled()
    with pytest.raises(asyncio.CancelledError, match="second"):
        await flushing
    assert journal.committed.version == len(OPENED)
    assert len((await store.read("agent:s")).records) == len(OPENED)
    await store.close()
