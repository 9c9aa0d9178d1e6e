"""When a run keeps snapshots, what reads them, and that they change nothing but the time it takes."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pytest

from steptrail import Steptrail
from steptrail.domain.agent.events import ExecutionResumed
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import StoreLocked
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.machine import SnapshotCodec
from steptrail.domain.kernel.record import Snapshot
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.snapshots import Snapshots
from steptrail.testing import Reply, call
from tests.harness.beside_the_loop import beside_the_loop
from tests.processes.agents.interposed import Watched
from tests.runner.kit import Crash, HandClock, agent_of, crash_at

STEPS = 6
SCRIPT: Sequence[Reply] = [*(call("add", a=i, b=1) for i in range(STEPS - 1)), "done"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a short run a long one."""
    monkeypatch.setattr("steptrail.runtime.kernel.snapshots._WORTH_A_FIRST", 10)
    monkeypatch.setattr("steptrail.runtime.kernel.snapshots._WORTH_KEEPING", 10)


class Refusing(Watched):
    """Keeps no snapshot and gives none."""

    async def snapshot(self, stream: str) -> Snapshot | None:
        raise StoreLocked(stream)

    async def keep_snapshot(self, stream: str, snapshot: Snapshot) -> None:
        self.kept.append(snapshot.head.version)
        raise StoreLocked(stream)


@pytest.fixture
def store() -> Iterator[Watched]:
    made = Watched()
    yield made
    asyncio.run(made.close())


async def crashed_and_resumed(store: Watched) -> AgentState:
    """Run into a crash behind the fourth tool call, and go on in another process."""
    clock = HandClock()
    agent = agent_of(SCRIPT).build()
    dying = Steptrail(Environment(store=store, clock=clock, reach=crash_at("after-tool", 4)))
    with pytest.raises(Crash):
        await dying.run(agent, "go", session="s")
    store.read_events = 0
    await Steptrail(Environment(store=store, clock=clock)).session("s").resume(agent_of(SCRIPT).build())
    state, _ = await fold_stream(AGENT, store.inner, "agent:s")
    return state


@pytest.mark.usefixtures("small")
async def test_given_a_fork_of_a_long_run_then_its_past_is_folded_once(store: Watched) -> None:
    trail, agent = Steptrail(Environment(store=store)), agent_of([*SCRIPT, "one", "two"]).build()
    past = (await trail.run(agent_of(SCRIPT).build(), "go", session="s")).state.version
    await trail.session("s").fork(session="f")
    await trail.session("f").send(agent, "1")
    own = store.kept[-1]
    assert own < 10 < past
    store.read_events = 0
    state = (await trail.session("f").send(agent, "2")).state
    assert store.read_events <= state.version - own
    assert [message.text for message in state.messages][-4:] == ["1", "one", "2", "two"]
    assert state.messages[:-4] == [*(await trail.session("s").state()).messages]


@pytest.mark.usefixtures("small")
async def test_given_a_long_run_then_snapshots_are_kept_each_time_it_has_doubled(store: Watched) -> None:
    await Steptrail(Environment(store=store)).run(agent_of(SCRIPT).build(), "go", session="s")
    *doubled, end = store.kept
    assert doubled[0] >= 10
    assert len(doubled) == 2
    assert all(later >= 2 * earlier for earlier, later in pairwise(doubled))
    assert end == await store.inner.version("agent:s")


@pytest.mark.usefixtures("small")
async def test_given_a_run_that_ends_then_one_is_kept_if_it_has_grown_by_a_quarter(store: Watched) -> None:
    trail = Steptrail(Environment(store=store))
    await trail.run(agent_of(SCRIPT).build(), "go", session="s")
    ends = [await store.inner.version("agent:s")]
    for number in range(1, 4):
        await trail.session("s").send(agent_of([*SCRIPT, *["done"] * number]).build(), "and now?")
        ends.append(await store.inner.version("agent:s"))
    assert ends[0] in store.kept
    for end in ends:
        newest = max(version for version in store.kept if version <= end)
        assert end - newest < max(10, newest // 4)
    assert all(later - earlier >= 10 for earlier, later in pairwise(store.kept))


async def test_given_a_short_run_then_none_is_kept(store: Watched) -> None:
    await Steptrail(Environment(store=store)).run(agent_of(SCRIPT).build(), "go", session="s")
    assert store.kept == []


@pytest.mark.usefixtures("small")
async def test_given_a_snapshot_then_a_resume_reads_only_what_came_after_it(store: Watched) -> None:
    await crashed_and_resumed(store)
    last = max(version for version in store.kept if version <= 40)
    assert 0 < store.read_events < last
    assert store.kept == sorted(set(store.kept))


async def test_given_no_snapshot_then_a_resume_reads_every_event_once(store: Watched) -> None:
    await crashed_and_resumed(store)
    records = (await store.inner.read("agent:s")).records
    (resumed,) = [record for record in records if isinstance(record.event, ExecutionResumed)]
    found = resumed.version - 1
    assert store.read_events == found


@pytest.mark.usefixtures("small")
async def test_given_a_stream_that_is_known_to_be_short_then_no_snapshot_is_looked_for(store: Watched) -> None:
    await Steptrail(Environment(store=store)).run(agent_of(SCRIPT).build(), "go", session="s")
    read: list[int] = []
    for about in (9, 10):
        store.read_events = 0
        state, _ = await fold_stream(AGENT, store, "agent:s", about=about)
        read.append(store.read_events)
    assert read == [state.version, state.version - store.kept[-1]]


@pytest.mark.usefixtures("small")
async def test_given_an_owner_that_had_to_fold_a_lot_then_its_first_commit_keeps_a_snapshot(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.runtime.kernel.snapshots._WORTH_A_FIRST", 1_000_000)
    await crashed_and_resumed(store)
    # The first commit of the resume, and no other: nothing had to be folded since.
    assert len(store.kept) == 1


@pytest.mark.usefixtures("small")
async def test_given_snapshots_or_none_or_broken_ones_then_every_event_and_the_state_are_the_same() -> None:
    async def lived(store: Watched) -> tuple[AgentState, list[Event]]:
        state = await crashed_and_resumed(store)
        records = (await store.inner.read("agent:s")).records
        await store.close()
        return state, [record.event for record in records]

    kept, refused = Watched(), Refusing()
    with_snapshots = await lived(kept)
    without = await lived(refused)
    assert kept.kept != []
    assert refused.kept != []
    assert with_snapshots == without


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("broken", ["another format", "not packed", "packed rubbish", "another state"])
async def test_given_a_snapshot_of_no_use_then_the_events_are_folded(store: Watched, broken: str) -> None:
    state = await crashed_and_resumed(store)
    whole, head = await fold_stream(AGENT._replace(snapshots=None), store.inner, "agent:s")
    assert whole == state
    snapshot = await store.inner.snapshot("agent:s")
    assert snapshot is not None
    damaged = {
        "another format": snapshot._replace(format="agent.0"),
        "not packed": snapshot._replace(state=b"rubbish"),
        "packed rubbish": snapshot._replace(state=b"x\x9c\x03\x00\x00\x00\x00\x01"),
        "another state": snapshot._replace(head=head),
    }[broken]
    await store.inner.keep_snapshot("agent:s", damaged)
    assert await store.inner.snapshot("agent:s") == damaged
    assert await fold_stream(AGENT, store.inner, "agent:s") == (whole, head)


async def test_given_a_long_snapshot_then_it_is_made_and_opened_while_the_loop_goes_on(store: Watched) -> None:
    await Steptrail(Environment(store=store)).run(agent_of(SCRIPT).build(), "go", session="s")
    state, head = await fold_stream(AGENT, store, "agent:s")
    lines = [b"%d" % state.version, os.urandom(2**20).hex().encode()]

    @beside_the_loop
    def dump(dumped: AgentState) -> list[bytes]:
        assert dumped is state
        return lines

    @beside_the_loop
    def load(loaded: Iterable[bytes]) -> AgentState:
        assert list(loaded) == lines
        return state

    snapshots = Snapshots(AGENT._replace(snapshots=SnapshotCodec("slow.1", dump, load)), store, "agent:s")
    await snapshots.keep(state, head)
    assert store.kept == [head.version]
    assert await snapshots.newest() == (state, head)
