"""The tables of how a run moves: what each event does to what is open, and how runs end."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest

from steptrail import AgentBuilder, ToolEffect, tool
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.flow.evolve import evolve_all, initial
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.inference import FinishReason
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.usage import Usage
from steptrail.models import PriceTable
from steptrail.testing import ScriptedModel, call, say
from steptrail.workflow import (
    Budget,
    BuiltWorkflow,
    Case,
    FlowResult,
    RetryPolicy,
    Rule,
    RunOptions,
    Workflow,
)
from tests.flow.kit import LEAVES, World, events_of, run_to_rest
from tests.golden.flow_stories import STORIES
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of

Records = Sequence[Recorded[FlowEvent]]
DAY = 86_400.0

# The table of tasks.

MOVES: dict[str, dict[str, str]] = {
    "due": {
        "node.attempt.started": "running",
        "node.attempt.completed": "landed",
        "node.attempt.failed": "landed",
        "node.evaluated": "landed",
        "approval.requested": "asked",
        "human.requested": "asked",
        "step.held": "asked",
        "node.skipped": "done",
        "node.cancelled": "done",
    },
    "running": {
        "node.attempt.completed": "landed",
        "node.attempt.failed": "landed",
        "node.attempt.interrupted": "due landed parked",
        "node.attempt.suspended": "suspended",
    },
    "landed": {
        "node.retry.scheduled": "retrying",
        "step.held": "asked",
        "node.completed": "done",
        "node.failure.recorded": "done",
        "node.failed": "done",
        "node.cancelled": "done",
    },
    "retrying": {"node.attempt.started": "running", "node.cancelled": "done"},
    "suspended": {"flow.resumed": "due", "node.cancelled": "done"},
    "parked": {
        "node.attempt.completed": "landed",
        "node.attempt.failed": "landed",
        "node.attempt.interrupted": "due",
        "node.cancelled": "done",
    },
    "asked": {
        "approval.granted": "due",
        "step.answered": "due landed",
        "human.answered": "landed",
        "human.expired": "landed",
        "approval.denied": "landed",
        "approval.expired": "landed",
        "node.cancelled": "done",
    },
}


def asks_for_ever(world: World) -> dict[str, BuiltWorkflow]:
    """Return a workflow for each phase in which a task may rest."""

    @tool(effect=ToolEffect.UNSAFE, approval=True)
    async def act(name: str) -> str:
        """Act."""
        return name

    agent = AgentBuilder("a").with_model(ScriptedModel([call("act", name="x"), say("done")])).with_tools(act).build()
    retry = RetryPolicy(backoff=1000.0)
    return {
        "asked": Workflow("asked").human("a", prompt="?").build(),
        "retrying": Workflow("r").function("a", world.function("away"), retry=retry).build(),
        "suspended": Workflow("s").agent("a", agent, prompt="go").build(),
    }


async def told_of_a_stop(phase: str) -> Records:
    world, clock = World(), HandClock()
    world.breaks["away"] = ConnectionError("away")
    async with trail_of(clock) as trail:
        result = await trail.run(asks_for_ever(world)[phase], session="f", options=LEAVES)
        assert [task.phase.value for task in result.state.tasks] == [phase]
        await trail.flow("f").stop(by="ana")
        return await trail.flow("f").events()


async def told_of_a_failure_beside_a_child_that_waits() -> Records:
    world, clock = World(), HandClock()
    child = Workflow("below").human("ask", prompt="?").build()
    retry = RetryPolicy(max_attempts=2, backoff=100.0)
    world.breaks["ill"] = ConnectionError("away")
    flow = Workflow("t").flow("child", child).function("ill", world.function("ill"), retry=retry).noop("end")
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow.edge(("child", "ill"), "end").build())
        assert result.status is ExecutionStatus.FAILED
        (below,) = [row for row in await trail.runs() if row.parent is not None]
        assert below.is_open is False
        return await trail.flow("f").events()


async def told_of_a_parked_effect(verdict: str) -> Records:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("a", world.tool(ToolEffect.UNSAFE), args={"name": "a"}).build()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await run_to_rest(again_on(trail, clock, crash_at("after-node")), clock, flow)
        await run_to_rest(trail, clock, flow)
        if verdict == "stop":
            await trail.flow("f").stop(by="ana")
        else:
            await trail.flow("f").settle("f:1:a:1", verdict, by="ana")  # type: ignore[arg-type]
            await run_to_rest(trail, clock, flow)
        return await trail.flow("f").events()


async def told_of_an_expiry(kind: str) -> Records:
    world, clock = World(), HandClock()
    flow = Workflow("t")
    if kind == "human":
        flow.human("a", prompt="?", expires=DAY)
    else:
        flow.tool("a", world.tool(), args={"name": "a"}, approval=True)
    built = flow.build()
    async with trail_of(clock) as trail:
        await trail.run(built, session="f", options=LEAVES)
        clock.advance(30 * DAY)
        await trail.flow("f").resume(built)
        return await trail.flow("f").events()


async def told_of_a_fault() -> Records:
    flow = Workflow("t").tool("a", World().tool(), args={"name": "{{ vars.nothing }} x"}).build()
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=LEAVES)
        return await trail.flow("f").events()


async def told_of_a_skip() -> Records:
    flow = Workflow("t").noop("a").noop("b").noop("c").edge("a", "b", "c").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=RunOptions(pause_before=("a", "b", "c"), longest_wait=0.0))
        await trail.flow("f").step("a", "skip", by="ana")
        await trail.flow("f").resume(flow)
        await trail.flow("f").step("b", "continue", by="ana")
        await trail.flow("f").step("c", "abort", by="ana")
        await trail.flow("f").resume(flow)
        return await trail.flow("f").events()


def moves_in(records: Records) -> set[tuple[str, str, str]]:
    """Return what the events of a run did to what was open: the phase before, the event, the phase after."""
    state, found = initial("f"), set[tuple[str, str, str]]()
    for record in records:
        before = {task.key: task.phase for task in state.tasks}
        state = evolve_all(state, [record])
        after = {task.key: task.phase for task in state.tasks}
        name = record.event.TYPE.removesuffix(".v1")
        for key, phase in before.items():
            # What an item of a map has come to is kept by its visit at once.
            if key in after or key[2] is None:
                found.add((phase.value, name, after[key].value if key in after else "done"))
    return {(phase, name, then) for phase, name, then in found if phase != then}


@pytest.mark.acceptance("7.2-13")
async def test_what_is_open_moves_by_its_table_and_in_no_other_way() -> None:
    told: list[Records] = [await story() for story in STORIES.values()]
    told += [await told_of_a_stop(phase) for phase in ("asked", "retrying", "suspended")]
    told += [await told_of_a_parked_effect(verdict) for verdict in ("failed", "rerun", "stop")]
    told += [await told_of_an_expiry(kind) for kind in ("human", "approval")]
    told += [await told_of_a_fault(), await told_of_a_skip(), await told_of_a_failure_beside_a_child_that_waits()]
    seen = set[tuple[str, str, str]]().union(*map(moves_in, told))
    expected = {
        (phase, name, then) for phase, row in MOVES.items() for name, thens in row.items() for then in thens.split()
    }
    assert seen - expected == set()
    assert expected - seen == set()
    assert MOVES.keys() == {phase.value for phase in TaskPhase}


# The table of runs.


async def test_a_run_goes_through_its_phases() -> None:
    world, clock = World(), HandClock()
    world.fails["b"] = [RuntimeError("no")]
    flow = Workflow("t").human("a", prompt="?").function("b", world.function("b")).chain("a", "b").build()
    async with trail_of(clock) as trail:
        handle = trail.flow("f")
        await trail.run(flow, session="f", options=LEAVES)
        await handle.pause(by="ana")
        assert (await handle.resume(flow)).status is ExecutionStatus.WAITING
        await handle.answer("a", approved=True, by="ana")
        assert (await handle.resume(flow)).status is ExecutionStatus.FAILED
        assert (await handle.retry(flow)).status is ExecutionStatus.COMPLETED
        await trail.run(flow, session="f", key="again", options=LEAVES)
        records = await handle.events()
    state, phases = initial("f"), list[tuple[str, RunPhase]]()
    for record in records:
        state = evolve_all(state, [record])
        if not phases or phases[-1][1] is not state.phase:
            phases.append((record.event.TYPE.removesuffix(".v1"), state.phase))
    assert phases == [
        ("session.started", RunPhase.IDLE),
        ("flow.started", RunPhase.WORKING),
        ("wait.started", RunPhase.WAITING),
        ("execution.paused", RunPhase.PAUSED),
        ("flow.resumed", RunPhase.WORKING),
        ("wait.started", RunPhase.WAITING),
        ("wait.ended", RunPhase.WORKING),
        ("node.failed", RunPhase.ENDING),
        ("execution.finished", RunPhase.DONE),
        ("flow.retried", RunPhase.WORKING),
        ("execution.finished", RunPhase.DONE),
        ("flow.started", RunPhase.WORKING),
        ("wait.started", RunPhase.WAITING),
    ]


# How runs end.

Ends = Callable[[World], tuple[BuiltWorkflow, RunOptions]]
PRICES = PriceTable.of({"scripted": {"input": 1, "output": 1}}, version="1", date="2026-11-02")


def asked(world: World, reply: Any = None, **settings: Any) -> BuiltWorkflow:
    usage = Usage(input=500_000, output=500_000)
    return Workflow("t").llm("a", ScriptedModel([reply or say("dear", usage=usage)]), prompt="x", **settings).build()


def one(world: World, error: Exception | None = None, **settings: Any) -> BuiltWorkflow:
    if error is not None:
        world.breaks["a"] = error
    return Workflow("t").function("a", world.function("a"), **settings).build()


def round_and_round(world: World) -> BuiltWorkflow:
    flow = Workflow("t").function("a", world.function("a")).rule_router("again", [Rule(lambda _: True, to="a")])
    return flow.chain("a", "again").edge("again", "a", loop=True).build()


HALF = say("half", finish_reason=FinishReason.LENGTH)
DOLLAR = Budget(max_cost_usd=Decimal("0.1"))
TRIES = RetryPolicy(max_attempts=2, backoff=0.0)
CRITICAL: Any = {"continue_on_error": True}
WAYS: dict[str, tuple[Callable[[World], BuiltWorkflow], dict[str, Any], tuple[str, str, str]]] = {
    "nothing left": (one, {}, ("completed", "completed", "WorkDone")),
    "with a recorded error": (
        lambda world: one(world, RuntimeError("no"), on_error="record"),
        {},
        ("completed", "completed", "WorkDone"),
    ),
    "blocked": (
        lambda _: Workflow("t").gate("a", when=lambda _: False).build(),
        {},
        ("failed", "guard", "RunPolicy"),
    ),
    "blocked and critical": (
        lambda _: Workflow("t").gate("a", when=lambda _: False).build(),
        CRITICAL,
        ("failed", "guard", "CriticalNode"),
    ),
    "incomplete": (
        lambda world: asked(world, HALF),
        {},
        ("failed", "finish_reason", "RunPolicy"),
    ),
    "the tokens of a node": (
        lambda world: asked(world, budget=Budget(max_total_tokens=1)),
        {},
        ("failed", "token_limit", "RunPolicy"),
    ),
    "the cost of a node": (
        lambda world: asked(world, budget=DOLLAR),
        {"prices": PRICES},
        ("failed", "guard", "RunPolicy"),
    ),
    "tries used up": (
        lambda world: one(world, ConnectionError("away"), retry=TRIES),
        {},
        ("failed", "retry_limit", "RunPolicy"),
    ),
    "one try": (lambda world: one(world, ConnectionError("away")), {}, ("failed", "error", "RunPolicy")),
    "tries of a class that is not tried again": (
        lambda world: Workflow("t").conditional("a", [Case(lambda _: False, to="b")]).noop("b").chain("a", "b").build(),
        {},
        ("failed", "error", "RunPolicy"),
    ),
    "a node that is critical": (
        lambda world: one(world, RuntimeError("no"), critical=True),
        CRITICAL,
        ("failed", "error", "CriticalNode"),
    ),
    "the cap on visits": (round_and_round, {"max_visits": 2}, ("failed", "steps_limit", "VisitLimit")),
    "the tokens of the run": (
        asked,
        {"budget": Budget(max_input_tokens=1)},
        ("failed", "token_limit", "RunBudget"),
    ),
    "the cost of the run": (asked, {"budget": DOLLAR, "prices": PRICES}, ("failed", "guard", "RunBudget")),
}


@pytest.mark.acceptance("7.1-12")
@pytest.mark.parametrize("way", WAYS)
async def test_a_run_ends_as_the_table_of_ends_says(way: str) -> None:
    make, given, ending = WAYS[way]
    result, _ = await played(make(World()), options=RunOptions(longest_wait=0.0, **given))
    assert ended(result) == ending


@pytest.mark.parametrize("how", ["timeout", "cumulative_timeout"])
async def test_a_run_that_is_out_of_time_fails_in_spite_of_tolerance(how: str) -> None:
    clock = HandClock()

    def work(_: object) -> None:
        clock.advance(10.0)

    flow = Workflow("t").function("a", work).function("b", work).chain("a", "b").build()
    given: Any = {how: 5.0}
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f", options=RunOptions(continue_on_error=True, **given))
    assert ended(result) == ("failed", "time_limit", "RunTimeLimit")


@pytest.mark.parametrize(("how", "ending"), [
    ("stop", ("stopped", "user_requested", "UserStop")),
    ("abort", ("stopped", "user_requested", "StepControl")),
    ("step timeout", ("failed", "time_limit", "StepTimeout")),
])  # fmt: skip
async def test_a_held_run_ends_as_the_table_of_ends_says(how: str, ending: tuple[str, str, str]) -> None:
    world, clock = World(), HandClock()
    flow = one(world)
    options = RunOptions(pause_before=("a",), step_timeout=DAY, longest_wait=0.0, continue_on_error=True)
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=options)
        match how:
            case "stop":
                await trail.flow("f").stop(by="ana")
            case "abort":
                await trail.flow("f").step("a", "abort", by="ana")
            case _:
                clock.advance(DAY)
        state = (await trail.flow("f").state()).status
        result = await (trail.flow("f").result() if state is ExecutionStatus.STOPPED else trail.flow("f").resume(flow))
    assert (ended(result), world.done) == (ending, {})


async def played(flow: BuiltWorkflow, *, options: RunOptions) -> tuple[FlowResult, list[FlowEvent]]:
    clock = HandClock()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow, options=options)
        return result, await events_of(trail)


def ended(result: FlowResult) -> tuple[str, str, str]:
    assert result.state.run is not None
    assert result.state.run.finished is not None
    assert result.stop_reason is not None
    return result.status.value, result.stop_reason.value, result.state.run.finished.resolved_by
