"""Snapshots of runs of workflows: when they are kept, what reads them, and that they change nothing but the time."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from steptrail import Steptrail
from steptrail.domain.flow.events import FlowResumed, NodeThen
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.snapshot import SNAPSHOTS
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.snapshots import Snapshots
from steptrail.workflow import BuiltWorkflow, Cache, RetryPolicy, RunOptions, Workflow
from tests.flow.kit import World, calls_of, run_to_rest
from tests.processes.agents.interposed import Watched
from tests.runner.kit import Crash, HandClock, crash_at, trail_of

NODES = 20
STREAM = "flow:f"


@pytest.fixture
async def store() -> AsyncIterator[Watched]:
    made = Watched()
    yield made
    await made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a short run a long one."""
    monkeypatch.setattr("steptrail.runtime.kernel.snapshots._WORTH_A_FIRST", 10)
    monkeypatch.setattr("steptrail.runtime.kernel.snapshots._WORTH_KEEPING", 10)


def chain(world: World) -> BuiltWorkflow:
    names = [f"n{number}" for number in range(NODES)]
    written, act = Workflow("chain"), world.tool()
    for name in names:
        written.tool(name, act, args={"name": name}, output=name, retry=1, timeout=None)
    return written.chain(*names).build()


@pytest.mark.usefixtures("small")
async def test_snapshots_are_kept_each_time_a_run_has_doubled(store: Watched) -> None:
    world = World()
    result = await Steptrail(Environment(store=store, clock=HandClock())).run(chain(world), session="f")
    assert result.status is ExecutionStatus.COMPLETED
    *doubled, end = store.kept
    assert 2 <= len(doubled) <= 4
    assert all(later >= 2 * earlier for earlier, later in pairwise(doubled))
    assert end == await store.inner.version("flow:f")


async def test_a_snapshot_is_opened_in_a_few_calls_for_each_question_that_it_holds() -> None:
    called = list[int]()
    for count in (20, 40):
        asking = Workflow("asking")
        for number in range(count):
            asking.human(f"n{number}", prompt="Yes?")
        async with trail_of() as trail:
            state = (await trail.run(asking.build(), session="f")).state
        lines = SNAPSHOTS.dump(state)
        opened, calls = calls_of(partial(SNAPSHOTS.load, lines))
        called.append(calls)
        assert opened == state
        assert len(opened.tasks) == count
    assert called[1] - called[0] < 150 * 20


async def test_a_short_run_keeps_none(store: Watched) -> None:
    await Steptrail(Environment(store=store, clock=HandClock())).run(chain(World()), session="f")
    assert store.kept == []


async def crashed_and_resumed(store: Watched) -> tuple[World, int]:
    """Crash at the fifteenth node, and go on in another process; return how many events that one read."""
    world, clock = World(), HandClock()
    dying = Steptrail(Environment(store=store, clock=clock, reach=crash_at("after-node", 15)))
    with pytest.raises(Crash):
        await dying.run(chain(world), session="f")
    store.read_events = 0
    result = await Steptrail(Environment(store=store, clock=clock)).flow("f").resume(chain(world))
    assert result.status is ExecutionStatus.COMPLETED
    return world, store.read_events


@pytest.mark.usefixtures("small")
async def test_a_resume_reads_only_what_came_after_the_snapshot(store: Watched) -> None:
    world, read_events = await crashed_and_resumed(store)
    assert 0 < read_events < max(version for version in store.kept if version <= 60)
    assert world.done == {f"n{number}": 1 + (number == 14) for number in range(NODES)}
    whole = await fold_stream(FLOW._replace(snapshots=None), store.inner, STREAM)
    assert await fold_stream(FLOW, store.inner, STREAM) == whole


async def test_without_a_snapshot_a_resume_reads_every_event(store: Watched) -> None:
    _, read_events = await crashed_and_resumed(store)
    records = (await store.inner.read(STREAM)).records
    (resumed,) = [record for record in records if isinstance(record.event, FlowResumed)]
    assert read_events == resumed.version - 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("broken", ["another format", "not packed", "packed rubbish", "another state"])
async def test_a_snapshot_of_no_use_is_passed_over(store: Watched, broken: str) -> None:
    await crashed_and_resumed(store)
    whole, head = await fold_stream(FLOW._replace(snapshots=None), store.inner, STREAM)
    snapshot = await store.inner.snapshot(STREAM)
    assert snapshot is not None
    damaged = {
        "another format": snapshot._replace(format="flow.0"),
        "not packed": snapshot._replace(state=b"rubbish"),
        "packed rubbish": snapshot._replace(state=b"x\x9c\x03\x00\x00\x00\x00\x01"),
        "another state": snapshot._replace(head=head),
    }[broken]
    await store.inner.keep_snapshot(STREAM, damaged)
    assert await fold_stream(FLOW, store.inner, STREAM) == (whole, head)


async def _ends(trail: Steptrail) -> list[int]:
    """Return the versions at which a commit ended."""
    heads = [record.head for record in await trail.flow("f").events()] + [None]
    return [version for version in range(1, len(heads)) if heads[version] != heads[version - 1]]


async def keep(store: Watched, version: int) -> None:
    state, head = await fold_stream(FLOW._replace(snapshots=None), store.inner, STREAM, at=version)
    await Snapshots(FLOW, store, STREAM).keep(state, head)


def failing(world: World) -> BuiltWorkflow:
    """A loop whose node fails for good in its third round, after a failure that is recorded."""
    act = world.tool()
    return (
        Workflow("failing")
        .tool("other", act, args={"name": "other"}, retry=1, on_error="continue")
        .tool("again", act, args={"name": "again"}, retry=RetryPolicy(max_attempts=2, backoff=1.0))
        .noop("back")
        .chain("other", "again", "back")
        .edge("back", "again", loop=True)
        .build()
    )


async def test_an_explanation_from_any_snapshot_is_that_of_all_events(store: Watched) -> None:
    world, clock = World(), HandClock()
    no = RuntimeError("no")
    world.fails = {"other": [OSError("away")], "again": [no, None, None, no, no]}
    trail = Steptrail(Environment(store=store, clock=clock))
    flow = failing(world)
    failed = await run_to_rest(trail, clock, flow)
    assert failed.status is ExecutionStatus.FAILED
    told = [await trail.flow("f").why()]
    assert (len(told[0].attempts), len(told[0].recorded)) == (2, 1)
    for version in await _ends(trail):
        await keep(store, version)
        assert await trail.flow("f").why() == told[0]
    await trail.flow("f").retry(flow, options=RunOptions(max_visits=2, longest_wait=0.0))
    told.append(await trail.flow("f").why())
    assert told[1].stop_reason == "steps_limit"
    records = await trail.flow("f").events()
    ends = await _ends(trail)
    assert len(ends) > 10
    for version in ends:
        await keep(store, version)
        store.read_events = 0
        assert await trail.flow("f").why() == told[1]
        assert store.read_events == 1 + len(records) - version
        assert await trail.flow("f").why(execution=1) == replace(told[0], is_newest=False)


async def test_tries_that_were_cut_off_and_kept_results_are_told_of_from_any_snapshot(store: Watched) -> None:
    world, clock = World(), HandClock()
    world.breaks = {"last": RuntimeError("no")}
    act = world.tool()
    flow = (
        Workflow("t")
        .map("each", over="input", tool=act, args={"name": "{{ item }}"}, cache=Cache(key=()), concurrency=1)
        .tool("work", act, args={"name": "work"})
        .tool("last", act, args={"name": "last"}, retry=1)
        .chain("each", "work", "last")
        .build()
    )
    for number in (3, 2):
        dying = Steptrail(Environment(store=store, clock=clock, reach=crash_at("after-node", number)))
        with pytest.raises(Crash):
            await run_to_rest(dying, clock, flow, ["a", "b", "a"])
    trail = Steptrail(Environment(store=store, clock=clock))
    await run_to_rest(trail, clock, flow, ["a", "b", "a"])
    told = await trail.flow("f").why()
    assert ([each.node for each in told.interrupted], [each.node for each in told.kept]) == (["work"], ["each"])
    assert [each.then for each in told.attempts] == [NodeThen.RERUN, None]
    for version in await _ends(trail):
        await keep(store, version)
        assert await trail.flow("f").why() == told


@pytest.mark.parametrize("both", [False, True])
async def test_tries_that_were_cut_off_and_results_that_were_kept_are_told_from_any_snapshot(
    store: Watched, both: bool
) -> None:
    def flow(world: World) -> BuiltWorkflow:
        act, names = world.tool(), ["a", "b", "c", "d"]
        written = Workflow("cut").noop("start").noop("again")
        for name in names:
            written.tool(name, act, args={"name": name}, cache=Cache(key=("a",)), output=name, retry=1, timeout=None)
        written.edge("start", *names[:2] if both else names[:1]).edge("a", "c", *([] if both else ["b"]))
        written.rule_router("twice", [], default="d").edge("c", "twice").edge("twice", "d")
        return written.edge("d", "again").edge("again", "a", loop=True).build()

    world, clock = World(), HandClock()
    for number in (2, 4):
        dying = Steptrail(Environment(store=store, clock=clock, reach=crash_at("before-node", number)))
        with pytest.raises(Crash):
            await dying.run(flow(world), session="f", options=RunOptions(max_visits=3))
        clock.advance(60.0)
    trail = Steptrail(Environment(store=store, clock=clock))
    await trail.flow("f").resume(flow(world))
    told = await trail.flow("f").why()
    assert len(told.interrupted) >= 2
    assert len(told.kept) >= 1
    for version in await _ends(trail):
        await keep(store, version)
        assert await trail.flow("f").why() == told, version
