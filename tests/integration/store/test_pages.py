"""The records that a stream is folded from come in pages, and all of them come, whatever the size of their commits."""

import pytest

from steptrail.domain.agent.events import AgentEvent, MetadataChanged, SessionStarted
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, StreamHead
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.history import pages

STREAM = "agent:s"
SIZES = (1, 5, 1, 7, 2)


@pytest.mark.parametrize("at", [None, 1, 4, 9, 16])
@pytest.mark.parametrize("most", [1, 2, 3, 6, 100])
@pytest.mark.parametrize("after", [0, EMPTY_STREAM], ids=["after a version", "after a head"])
async def test_all_records_come_once_up_to_the_version_that_is_asked_for(
    after: int | StreamHead, most: int, at: int | None
) -> None:
    store, head = open_store("sqlite:///:memory:"), EMPTY_STREAM
    for number, size in enumerate(SIZES):
        events: tuple[AgentEvent, ...] = (
            (SessionStarted(name="s"),) if number == 0 else (MetadataChanged(by="me", changes={}),) * size
        )
        commit = Commit(CommitHead(commit_id=f"c{number}", actor="me"), tuple((number, event) for event in events))
        head = await store.append(STREAM, head, commit)
    found = [
        record.version
        async for records, _ in pages(AGENT, store, STREAM, after=after, at=at, most=most)
        for record in records
    ]
    assert found == list(range(1, (at or sum(SIZES)) + 1))
    await store.close()
