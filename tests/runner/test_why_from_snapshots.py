"""`why` of a long session begins at its snapshot and tells what it would have told without one."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from steptrail import Limits, Steptrail
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.kernel.record import Recorded, StreamHead
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.python.explaining import Explainers, explained
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.ports import EventStore, StoredStream
from steptrail.runtime.kernel.snapshots import Snapshots
from steptrail.testing import call
from tests.harness.hands import change_by_hand
from tests.processes.agents.interposed import Interposed
from tests.runner.kit import NOON, HandClock, agent_of

WORK = call("add", a=1, b=2)

ANOTHER_ORDINAL = (
    "UPDATE stored_events SET state = "
    """CAST(replace(CAST(state AS TEXT), '"ordinal":1', '"ordinal":7') AS BLOB) WHERE version = 2"""
)


class Watched(Interposed):
    """Notes what is read one event after another."""

    def __init__(self) -> None:
        super().__init__()
        self.read_events = 0

    async def read(self, stream: str, *, after: int | StreamHead = 0, limit: int | None = None) -> StoredStream:
        stored = await super().read(stream, after=after, limit=limit)
        self.read_events += len(stored.records)
        return stored


@pytest.fixture
async def store() -> AsyncIterator[Watched]:
    made = Watched()
    yield made
    await made.close()


@pytest.fixture
def trail(store: Watched) -> Steptrail:
    return Steptrail(Environment(store=store, clock=HandClock()))


async def stopped_and_retried(trail: Steptrail) -> Sequence[Recorded[Any]]:
    """Run with guards in shadow, stop at a limit, go on in a retry, and say something else."""
    limits = Limits(max_steps=2, max_tool_calls=1, max_tokens=15, shadow=("max_tool_calls", "max_tokens"))
    session = trail.session("s")
    agent = agent_of([WORK, WORK, WORK, "done", "hello"]).with_limits(limits).build()
    await session.send(agent, "go")
    await session.retry(agent, limits=Limits(max_steps=4, max_tool_calls=0, shadow=("max_tool_calls",)))
    await session.send(agent, "and now?")
    return await session.events()


def ends_of_commits(records: Sequence[Recorded[Any]]) -> list[int]:
    heads = [record.head for record in records] + [None]
    return [i for i in range(1, len(heads)) if heads[i] != heads[i - 1]]


async def keep(store: EventStore, stream: str, at: int | None = None) -> None:
    whole = AGENT._replace(snapshots=None)
    state, head = await fold_stream(whole, store, stream, at=at)
    await Snapshots(AGENT, store, stream).keep(state, head)


async def test_given_a_snapshot_anywhere_then_the_explanation_is_that_of_all_events(
    trail: Steptrail, store: Watched
) -> None:
    records = await stopped_and_retried(trail)
    told = await trail.session("s").why()
    first = await trail.session("s").why(execution=1)
    assert len(first.shadow_stops) == 2
    assert first.retried_as is not None
    assert len(ends_of_commits(records)) > 10
    for version in ends_of_commits(records):
        await keep(store, "agent:s", version)
        store.read_events = 0
        assert await trail.session("s").why() == told
        assert store.read_events == 1 + len(records) - version
        assert await explained(store, "agent:s", now=NOON, explainers=Explainers(proof_seconds=0)) == told
        assert await trail.session("s").why(execution=1) == first


async def test_given_a_snapshot_then_shadow_stops_before_it_are_told_of_with_their_steps(
    trail: Steptrail, store: Watched
) -> None:
    limits = Limits(max_tool_calls=1, shadow=("max_tool_calls",))
    session = trail.session("s")
    await session.send(agent_of([WORK, WORK, WORK, "done"]).with_limits(limits).build(), "go")
    told = await session.why()
    assert [(stop.step, stop.vote.criterion_class) for stop in told.shadow_stops] == [(2, "ToolCallLimit")]
    await keep(store, "agent:s")
    assert await session.why() == told


async def test_given_a_fork_with_a_snapshot_then_its_past_counts_as_well(trail: Steptrail, store: Watched) -> None:
    await stopped_and_retried(trail)
    fork = await trail.session("s").fork()
    stream = f"agent:{fork.session_id}"
    told = await fork.why()
    assert "forked" in told.events
    await keep(store, stream)
    assert await fork.why() == told


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        ("UPDATE stored_events SET type = 'step.started.v9' WHERE type = 'step.started.v1'", True),
        ("DELETE FROM events WHERE version = 3", True),
        (ANOTHER_ORDINAL, False),
    ],
)
async def test_given_a_snapshot_after_what_was_changed_then_the_events_are_told_of_as_they_are(
    change: str, is_told: bool, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    async with Steptrail.open(f"sqlite:///{path}") as trail:
        await stopped_and_retried(trail)
    store = open_store(f"sqlite:///{path}")
    await keep(store, "agent:s")
    change_by_hand(path, change)
    with_snapshot, explainers = await explained(store, "agent:s", now=NOON), Explainers(proof_seconds=0, least_events=0)
    trusting = await explained(store, "agent:s", now=NOON, explainers=explainers)
    assert trusting.damage is None
    await explainers.proofs()
    assert explainers.is_unsound("agent:s")
    again = await explained(store, "agent:s", now=NOON, explainers=explainers)
    assert again.to_dict() == with_snapshot.to_dict()
    change_by_hand(path, "DELETE FROM snapshots")
    assert await explained(store, "agent:s", now=NOON) == with_snapshot
    assert (with_snapshot.damage is not None) is is_told
    await store.close()
