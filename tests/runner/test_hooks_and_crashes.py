"""Hooks run once, unless a crash took what they did with it. Reading a session runs none."""

from collections.abc import Sequence

import pytest

from steptrail import HookType, Steptrail
from steptrail.domain.agent.events import AgentEvent, HooksRan, MetadataChanged
from steptrail.hooks import HookState
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import ScriptedModel, call
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, hook, trail_of

EVERY = (
    HookType.EXECUTION_START,
    HookType.BEFORE_STEP,
    HookType.BEFORE_INFERENCE,
    HookType.AFTER_INFERENCE,
    HookType.PRE_TOOL_USE,
    HookType.POST_TOOL_USE,
    HookType.AFTER_STEP,
    HookType.STOP,
    HookType.EXECUTION_END,
)


def counting(runs: list[str]) -> Agent:
    def count(state: HookState) -> HookState:
        at = f"{state.hook_type.value} {state.current_execution.step_number}"
        runs.append(at)
        return state.with_metadata(at, len(runs))

    hooks = [(hook_type, hook(hook_type.value, count)) for hook_type in EVERY]
    return agent_of([call("add", a=1, b=2), "done"], *hooks).build()


def marks(events: Sequence[AgentEvent]) -> list[tuple[str, int, int | None]]:
    return [(e.hook_type, e.step, e.position) for e in events if isinstance(e, HooksRan)]


async def log_of(trail: Steptrail) -> list[AgentEvent]:
    return [record.event for record in await trail.session("s").events()]


async def test_reading_a_session_runs_no_hooks() -> None:
    runs: list[str] = []
    async with trail_of() as trail:
        await trail.run(counting(runs), "go", session="s", key="k")
        before = list(runs)
        session = trail.session("s")
        await session.state()
        await session.state(at=5)
        await session.why()
        await session.result()
        await session.resume(counting(runs))
        await trail.run(counting(runs), "go", session="s", key="k")
        assert runs == before
    assert len(runs) == len(set(runs)) == 14


PHASES = 14
"""Runs of hooks in a run of one tool step and an answer."""


@pytest.mark.parametrize("number", range(1, PHASES + 1))
@pytest.mark.parametrize("point", ["before-hooks", "after-hooks"])
async def test_a_phase_that_a_crash_cut_before_its_commit_runs_again_and_no_other_does(point: str, number: int) -> None:
    runs: list[str] = []
    clock = HandClock()
    agent = counting(runs)
    async with trail_of(clock, crash_at(point, number)) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        committed = len(marks(await log_of(trail)))
        before = list(runs)
        result = await again_on(trail, clock).session("s").resume(agent)
        events = await log_of(trail)
        assert (result.status, result.stop_reason) == ("completed", "completed")
        # What was committed did not run again; everything else ran from there on.
        assert runs[len(before) :] == [f"{t} {s}" for t, s, _ in marks(events)[committed:]]
    ran = marks(events)
    assert len(ran) == len(set(ran)) == PHASES
    # Each change is in the log as often as its phase is.
    assert [e.by for e in events if isinstance(e, MetadataChanged)] == [hook_type for hook_type, _, _ in ran]


async def test_a_crash_after_the_commit_of_a_phase_does_not_repeat_it() -> None:
    """The model call follows the commit of the hooks before it, so it marks that commit."""
    runs: list[str] = []
    clock = HandClock()
    agent = counting(runs)
    async with trail_of(clock, crash_at("before-inference")) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        assert runs == ["execution_start 0", "before_step 0", "before_inference 1"]
        await again_on(trail, clock).session("s").resume(agent)
    assert runs.count("before_inference 1") == runs.count("before_step 0") == runs.count("execution_start 0") == 1


async def test_a_request_that_was_changed_stays_changed_for_the_call_after_a_crash() -> None:
    clock = HandClock()
    quiet = hook("r", lambda s: s.with_request(tool_choice="none"))
    model = ScriptedModel(["done"])
    agent = agent_of([], (HookType.BEFORE_INFERENCE, quiet)).with_model(model).build()
    async with trail_of(clock, crash_at("before-inference")) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        await again_on(trail, clock).session("s").resume(agent)
    (request,) = model.requests
    assert request.tool_choice == "none"


async def test_a_blocked_call_stays_blocked_after_a_crash() -> None:
    runs: list[str] = []
    clock = HandClock()

    def block(state: HookState) -> HookState:
        runs.append("block")
        return state.with_blocked_tool_call("no")

    builder = agent_of([call("add", a=1, b=2), "done"], (HookType.PRE_TOOL_USE, hook("b", block)))
    agent = builder.with_hook(HookType.AFTER_STEP, hook("a", lambda s: None)).build()
    # Two runs of hooks, and the second of them dies: the first was not committed yet.
    async with trail_of(clock, crash_at("before-hooks", 2)) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        result = await again_on(trail, clock).session("s").resume(agent)
    assert (result.status, result.stop_reason) == ("failed", "error")
    (execution,) = result.state.steps[0].tool_executions
    assert execution.status == "blocked"
    assert runs == ["block", "block"]


@pytest.mark.parametrize("kind", [HookType.STOP, HookType.EXECUTION_END])
async def test_a_hook_of_the_end_that_kills_the_process_each_time_does_not_keep_the_run_from_ending(
    kind: HookType,
) -> None:
    def die(state: HookState) -> HookState:
        raise Crash

    agent = agent_of(["done"], (kind, hook("die", die))).build()
    async with trail_of() as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        session = again_on(trail).session("s")
        for _ in range(agent.limits.max_unproductive_segments + 1):
            with pytest.raises(Crash):
                await session.resume(agent)
        result = await session.resume(agent)
    assert (result.status, result.stop_reason, result.output) == ("completed", "guard", "done")
