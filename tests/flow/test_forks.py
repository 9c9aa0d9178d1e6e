"""A fork of a run shares what had finished, begins anew what was under way, and leaves its source alone."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest

from steptrail import AgentBuilder, Steptrail, ToolEffect
from steptrail.domain.flow.events import (
    FlowEvent,
    FlowForked,
    FlowStarted,
    NodeAttemptStarted,
    NodeCompleted,
    NodeOpened,
)
from steptrail.domain.flow.evolve import evolve_all, initial
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.snapshot import SNAPSHOTS
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.forks import Fork, ForkRef
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import CommandRejected, SessionNotFound
from steptrail.testing import ScriptedModel
from steptrail.workflow import BuiltWorkflow, Envelope, FlowResult, RetryPolicy, RunOptions, Workflow
from tests.flow.kit import LEAVES, World, events_of, named
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of


def of_all_kinds(world: World) -> BuiltWorkflow:
    """Return a workflow of branches, a map, a loop, an agent, a question and a retry; it does nothing unsafe."""
    critic = AgentBuilder("critic").with_model(ScriptedModel(["fine"] * 50)).build()

    def count(seen: Envelope) -> int:
        return int(seen.vars.get("n", 0)) + 1

    return (
        Workflow("all")
        .function("plan", count, output="n")
        .function("left", world.function("left"), output="left", retry=RetryPolicy(max_attempts=2, backoff=1.0))
        .map("right", over="items", function=world.function("item"), output="right")
        .agent("critic", critic, prompt="Well?", output="said")
        .gate("again", when="vars.n > 1", on_fail="redirect", redirect="plan")
        .human("ask", prompt="Publish?", output="answer")
        .function("end", lambda seen: sorted(seen.vars), output="end")
        .chain("plan", "left", "critic", "again", "ask", "end")
        .chain("plan", "right", "critic")
        .edge("again", "plan", loop=True)
        .build()
    )


async def to_its_end(trail: Steptrail, clock: HandClock, flow: BuiltWorkflow, session: str) -> FlowResult:
    """Go on with a run, answer what it asks, and sit out its waits."""
    result = await trail.flow(session).resume(flow)
    for _ in range(20):
        if not result.state.is_open:
            return result
        if any(question.stream == f"flow:{session}" for question in await trail.inbox()):
            await trail.flow(session).answer("ask", approved=True, by="ana")
        clock.advance(2.0)
        result = await trail.flow(session).resume(flow)
    raise AssertionError("it does not end")


def told(result: FlowResult) -> dict[str, Any]:
    """Return what a run came to, without the time at which its question was answered."""
    return {name: value for name, value in result.envelope.vars.items() if name != "answer"}


async def of_all_kinds_at_its_end(trail: Steptrail, clock: HandClock) -> tuple[BuiltWorkflow, FlowResult]:
    world = World()
    world.fails["left"] = [ConnectionError("away")]
    flow = of_all_kinds(world)
    await trail.run(flow, vars={"items": [1, 2]}, session="f", options=LEAVES)
    return flow, await to_its_end(trail, clock, flow, "f")


def without_an_agent_below(records: Sequence[Recorded[FlowEvent]]) -> list[int]:
    """Return the versions at which a run had begun and no agent was under way below it."""
    found, is_below = list[int](), False
    for record in records:
        if isinstance(record.event, NodeAttemptStarted):
            is_below = is_below or record.event.stream_effect is not None
        elif isinstance(record.event, NodeCompleted) and record.event.node == "critic":
            is_below = False
        if not is_below and record.version > 1:
            found.append(record.version)
    return found


async def test_a_run_can_be_forked_where_no_agent_was_under_way_and_nothing_under_way_comes_along() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        await of_all_kinds_at_its_end(trail, clock)
        records = await trail.flow("f").events()
    assert isinstance(records[1].event, FlowStarted)
    versions = without_an_agent_below(records)
    for version in range(2, len(records) + 1):
        source = evolve_all(initial("f"), records[:version])
        if version not in versions:
            before = max(each for each in versions if each < version)
            with pytest.raises(CommandRejected, match=f'"critic" may have done .+ fork after event {before},'):
                FLOW.decide(source, Fork(by="ana", digest="d"))
            continue
        (event,) = FLOW.decide(source, Fork(by="ana", digest="d"))
        assert isinstance(event, FlowForked)
        fork = evolve_all(initial("g"), [*records[:version], Recorded(1, source.as_of + 10**9, event)])
        assert (fork.version, fork.forked_from, fork.execution_id) == (1, ForkRef("f", version), "g:1")
        assert (fork.tasks, fork.open_visits, fork.fold.keys, fork.parent) == ((), (), {}, None)
        assert (fork.status, event.status) == (event.status, "paused" if source.is_open else "completed")
        assert fork.active_seconds == source.active_seconds
        assert FLOW.control.children(fork) == {}
        assert source.run is not None
        assert fork.run is not None
        assert fork.run.ended == source.run.ended
        assert FLOW.control.summary(fork).fork_of == "flow:f"
        assert SNAPSHOTS.load(SNAPSHOTS.dump(fork)).fold == fork.fold


@pytest.mark.acceptance("7.2-14")
async def test_a_fork_comes_to_the_same_and_pays_for_no_finished_node_again() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        flow, source = await of_all_kinds_at_its_end(trail, clock)
        records = await trail.flow("f").events()
        for version in without_an_agent_below(records)[1::7]:
            into = f"f-{version}"
            fork = await trail.flow("f").fork(at=version, session=into, by="ana")
            before = (await fork.state()).run
            result = await to_its_end(trail, clock, flow, into)
            assert (result.status, told(result)) == (source.status, told(source))
            run, run_of_source = result.state.run, source.state.run
            assert before is not None
            assert run is not None
            assert run_of_source is not None
            own = await events_of(trail, into)
            assert named(own).count("node.completed") == run.finished_visits - before.finished_visits
            assert run.visits_of == run_of_source.visits_of
            tries = [event for event in own if isinstance(event, NodeAttemptStarted)]
            assert all(each.effect_id.startswith(f"{into}:1:") for each in tries)
        assert [each.event for each in await trail.flow("f").events()] == [each.event for each in records]
        streams = [row.stream for row in await trail.runs(limit=500) if row.parent is not None]
        assert len(streams) == len(set(streams))


async def test_what_items_of_a_map_that_begins_anew_had_failed_with_is_not_recorded_twice() -> None:
    world = World()
    world.breaks["item"] = ValueError("no")
    flow = Workflow("t").map("m", over="items", function=world.function("item"), on_item_error="record")
    built = flow.function("end", world.function("end")).chain("m", "end").build()
    async with trail_of() as trail:
        await trail.run(built, vars={"items": [1, 2]}, session="f")
        kinds = named(await events_of(trail))
        for version in (kinds.index("node.failure.recorded") + 1, kinds.index("node.completed") + 1):
            fork = await trail.flow("f").fork(at=version, session=f"g-{version}", by="ana")
            result = await fork.resume(built)
            assert [error.item for error in result.state.errors] == [0, 1]


async def test_a_map_of_a_model_that_begins_anew_asks_it_what_it_was_asked_the_first_time() -> None:
    model = ScriptedModel(["one", "two"])
    flow = Workflow("t").map("m", over="items", model=model, prompt="{{ item }}", output="said").build()
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1, 2]}, session="f")
        ended = named(await events_of(trail)).index("node.attempt.completed") + 1
        fork = await trail.flow("f").fork(at=ended, session="g", by="ana")
        assert (await fork.resume(flow)).envelope.vars["said"] == ["one", "two"]


async def test_a_visit_that_begins_anew_counts_once_for_the_most_visits_of_a_node() -> None:
    flow = (
        Workflow("t")
        .function("count", lambda seen: int(seen.vars.get("n", 0)) + 1, output="n")
        .gate("again", when="vars.n > 1", on_fail="redirect", redirect="count")
        .function("end", lambda _: "done")
        .chain("count", "again", "end")
        .edge("again", "count", loop=True)
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=RunOptions(max_visits=2))
        opened = [each.version for each in await trail.flow("f").events() if isinstance(each.event, NodeOpened)]
        fork = await trail.flow("f").fork(at=opened[2], session="g", by="ana")
        assert (await fork.resume(flow)).status is ExecutionStatus.COMPLETED


async def test_a_stream_below_that_its_source_has_given_up_is_none_of_the_fork() -> None:
    inner = Workflow("inner").human("ask", prompt="Well?", expires=30).build()
    flow = Workflow("t").map("m", over="items", flow=inner, on_item_error="record", item_timeout=0.05).build()
    async with trail_of() as trail:
        source = await trail.run(flow, vars={"items": [1]}, session="f", options=LEAVES)
        fork = await trail.flow("f").fork(session="g", by="ana")
        assert (source.status, len(FLOW.control.children(source.state))) == (ExecutionStatus.COMPLETED, 1)
        assert FLOW.control.children(await fork.state()) == {}


async def test_what_had_failed_is_retried_in_the_fork_and_not_in_its_source() -> None:
    world = World()
    flow = Workflow("t").function("a", world.function("a")).function("b", world.function("b"), effect=ToolEffect.UNSAFE)
    built = flow.chain("a", "b").build()
    world.fails["b"] = [ValueError("wrong")]
    async with trail_of() as trail:
        failed = await trail.run(built, session="f", key="k")
        fork = await trail.flow("f").fork(session="g", by="ana", reason="mended")
        assert ((await fork.result()).status, failed.status) == ("failed", "failed")
        before_its_end = await trail.flow("f").fork(at=failed.state.version - 1, session="h", by="ana")
        why = await before_its_end.why()
        assert (why.status, why.error, why.rule) == ("paused", None, None)
        result = await fork.retry(built)
        assert (result.status, result.execution_id, world.done) == ("completed", "g:2", {"a": 1, "b": 2})
        assert (await trail.flow("f").result()).status is ExecutionStatus.FAILED
        assert (await trail.run(built, session="f", key="k")).status is ExecutionStatus.FAILED


@pytest.mark.acceptance("7.2-15")
@pytest.mark.parametrize("effect", [ToolEffect.UNSAFE, ToolEffect.KEYED])
async def test_where_something_that_counts_only_once_was_under_way_a_fork_is_refused_and_told_where(
    effect: ToolEffect,
) -> None:
    world = World()
    flow = (
        Workflow("t")
        .function("a", world.function("a"))
        .function("pay", world.function("pay"), effect=effect)
        .function("end", world.function("end"))
        .chain("a", "pay", "end")
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        records = await trail.flow("f").events()
        kinds = [(each.event.TYPE, getattr(each.event, "node", "")) for each in records]
        begun = kinds.index(("node.attempt.started.v1", "pay")) + 1
        ended = kinds.index(("node.completed.v1", "pay")) + 1
        for version in range(begun, ended):
            with pytest.raises(CommandRejected, match=f'"pay" may have done .* fork after event {begun - 1}, before'):
                await trail.flow("f").fork(at=version, session="no", by="ana")
        await (await trail.flow("f").fork(at=ended, session="after", by="ana")).resume(flow)
        assert world.done == {"a": 1, "pay": 1, "end": 2}
        await (await trail.flow("f").fork(at=begun - 1, session="before", by="ana")).resume(flow)
        assert world.done == {"a": 1, "pay": 2, "end": 3}
        with pytest.raises(SessionNotFound):
            await trail.flow("no").state()


async def test_a_run_below_that_was_under_way_is_begun_again_only_by_a_fork_from_before_it() -> None:
    world = World()
    below = Workflow("below").function("pay", world.function("pay"), effect=ToolEffect.UNSAFE)
    flow = Workflow("t").flow("all", below.human("ask", prompt="Well?").chain("pay", "ask").build()).build()
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=LEAVES)
        with pytest.raises(CommandRejected, match=r'"all" may have done .+ fork after event 3,'):
            await trail.flow("f").fork(session="g", by="ana")
        fork = await trail.flow("f").fork(at=3, session="g", by="ana")
        assert world.done == {"pay": 1}
        await fork.resume(flow, options=LEAVES)
        assert (world.done, len(await trail.inbox())) == ({"pay": 2}, 2)


async def test_an_item_that_has_failed_does_not_hide_that_others_of_its_map_were_done() -> None:
    world = World()
    world.fails["pay"] = [None, ValueError("no")]
    flow = Workflow("t").map("m", over="items", function=world.function("pay"), effect=ToolEffect.UNSAFE).build()
    async with trail_of() as trail:
        await trail.run(flow, vars={"items": [1, 2]}, session="f")
        with pytest.raises(CommandRejected, match=r'"m" may have done .+ fork after event 3,'):
            await trail.flow("f").fork(session="g", by="ana")


@pytest.mark.parametrize("verdict", ["failed", "rerun"])
async def test_after_a_crash_in_an_unsafe_node_its_unknown_outcome_is_not_shared(
    verdict: Literal["failed", "rerun"],
) -> None:
    world = World()
    flow = Workflow("t").function("pay", world.function("pay"), effect=ToolEffect.UNSAFE).build()
    async with trail_of() as trail:
        with pytest.raises(Crash):
            await again_on(trail, None, crash_at("after-node")).run(flow, session="f")
        handle = trail.flow("f")

        async def refused() -> None:
            with pytest.raises(CommandRejected, match="fork after event 3"):
                await handle.fork(session="g", by="ana")

        await refused()
        assert (await handle.resume(flow)).status is ExecutionStatus.WAITING
        await refused()
        assert (await handle.stop(by="ana")).status is ExecutionStatus.STOPPED
        await refused()
        await handle.retry(flow)
        await handle.settle("f:1:pay:1", verdict, by="ana")
        assert (await (await handle.fork(session="g", by="ana")).resume(flow)).status is ExecutionStatus.COMPLETED
    assert world.done == {"pay": 2}


async def test_nobodys_request_question_or_key_comes_along_and_variables_are_set_at_a_held_step() -> None:
    world = World()
    flow = (
        Workflow("t")
        .function("a", world.function("a"), output="a")
        .human("ask", prompt="Well?", output="said")
        .function("b", lambda seen: f"{seen.vars['a']}!", output="b")
        .chain("a", "ask", "b")
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=LEAVES, metadata={"tenant": "acme"})
        await trail.flow("f").pause(by="ops")
        fork = await trail.flow("f").fork(session="g", by="ana", metadata={"arm": "b"})
        state = await fork.state()
        assert (state.paused, state.pause_request, dict(state.metadata)) == (None, None, {"tenant": "acme", "arm": "b"})
        assert [question.id for question in await trail.inbox()] == ["f:1:ask:1"]
        await trail.flow("f").answer("ask", approved=True, by="bob")
        held = await fork.resume(flow, options=RunOptions(pause_before=("ask", "b"), longest_wait=0.0))
        assert held.status is ExecutionStatus.WAITING
        await fork.step("ask", "continue", by="ana", set={"a": "tea"})
        await fork.resume(flow)
        assert [question.id for question in await trail.inbox()] == ["g:1:ask:1"]
        await fork.answer("ask", approved=True, by="ana")
        await fork.resume(flow)
        await fork.step("b", "continue", by="ana")
        assert (await fork.resume(flow)).envelope.vars["b"] == "tea!"
        assert (await trail.flow("f").resume(flow)).envelope.vars["b"] == "a is done!"
    assert world.done == {"a": 1}
