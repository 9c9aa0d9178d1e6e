"""The bytes of a file are stored with the commit that names it, whoever comes in between, and with no other."""

import pytest

from steptrail.domain.agent.events import AgentEvent, MessagesAppended, ToolExecutionCompleted, ToolExecutionSettledLate
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.files import files_in
from steptrail.domain.kernel.machine import CallInFlight
from steptrail.errors import OwnershipLost
from steptrail.infrastructure.store.opening import open_store
from steptrail.messages import File, Message
from steptrail.runtime.agent.agent_journal import AgentJournal, agent_records
from steptrail.runtime.kernel.ports import EventStore
from tests.runner.test_every_lost_append import journal_of
from tests.samples import smallest
from tests.unit.agent.story import opened, resumed, running, step, wants

SHOT = File.from_bytes(b"a shot")
RETURNED = ToolExecutionCompleted(position=0, result="seen", files=(SHOT,), duration_seconds=0.1)


async def begun(store: EventStore) -> AgentJournal:
    owner = await journal_of(store)
    owner.record(*opened(), *step(), wants("look", "look"), running(0))
    owner.claim_segment()
    assert await owner.flush()
    return owner


async def stored_of(store: EventStore, kind: type[AgentEvent]) -> AgentEvent:
    return next(each.event for each in agent_records((await store.read("agent:s")).records) if type(each.event) is kind)


@pytest.mark.parametrize("source", MessageSource)
async def test_a_file_outlives_an_append_that_another_process_wins_or_goes_with_its_message(
    source: MessageSource,
) -> None:
    store = open_store("sqlite:///:memory:")
    owner, other = await begun(store), await journal_of(store)
    owner.record(MessagesAppended(messages=(Message.user("", SHOT),), source=source, by="x"))
    other.record(smallest(MessagesAppended))
    assert await other.flush()
    assert not await owner.flush()
    assert await owner.flush()
    is_kept = source is MessageSource.HOOK
    assert await store.file(SHOT.digest) == (b"a shot" if is_kept else None)
    await store.close()


async def test_a_late_report_brings_the_files_of_the_call() -> None:
    store = open_store("sqlite:///:memory:")
    owner, other = await begun(store), await journal_of(store)
    owner.record_outcome(CallInFlight("s:1:1:0", 1), RETURNED)
    other.record(resumed())
    other.claim_segment()
    assert await other.flush()
    with pytest.raises(OwnershipLost):
        await owner.flush()
    late = await stored_of(store, ToolExecutionSettledLate)
    assert [(part, part.data) for _, part in files_in(late)] == [(SHOT, None)]
    assert await store.file(SHOT.digest) == b"a shot"
    await store.close()
