"""Commands that come in while hooks run, or to a session whose hooks nobody here can run."""

from collections.abc import Callable

import pytest

from steptrail import HookType, Steptrail, tool
from steptrail.domain.agent.events import AgentEvent, ExecutionPaused, HooksRan, PauseRequested, StopRequested
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import ConfigurationError
from steptrail.hooks import CallableHook, HookState
from steptrail.testing import call
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, hook, trail_of


async def log_of(trail: Steptrail) -> list[AgentEvent]:
    return [record.event for record in await trail.session("s").events()]


async def test_a_stop_that_came_in_while_a_hook_ran_loses_nothing_of_what_the_hook_did_and_does_not_repeat_it() -> None:
    runs: list[int] = []
    async with trail_of() as trail:

        async def stop_from_elsewhere(state: HookState) -> HookState:
            runs.append(state.step_count)
            await again_on(trail).session("s").stop(by="ops", reason="enough")
            return state.with_metadata("seen", state.step_count)

        agent = agent_of(
            [call("add", a=1, b=2), "done"], (HookType.AFTER_STEP, CallableHook(stop_from_elsewhere, "h"))
        ).build()
        result = await trail.run(agent, "go", session="s")
        assert (result.status, result.stop_reason) == ("completed", "user_requested")
        assert result.outcome is not None
        assert result.outcome.resolved_by == "UserStop"
        assert dict(result.state.metadata) == {"seen": 1}
        assert result.state.step_count == 1
        events = await log_of(trail)
        assert [e.hook_type for e in events if isinstance(e, HooksRan)] == ["after_step"]
    assert runs == [1]


async def test_a_stop_while_a_tool_runs_lets_it_land_and_starts_nothing_after_it() -> None:
    async with trail_of() as trail:

        @tool
        async def ask_for_a_stop() -> str:
            """Have somebody stop the run."""
            await again_on(trail).session("s").stop(by="ops")
            return "landed"

        agent = agent_of([call("ask_for_a_stop"), "never said"]).with_tools(ask_for_a_stop).build()
        result = await trail.run(agent, "go", session="s")
        assert (result.status, result.stop_reason) == ("completed", "user_requested")
        (execution,) = result.state.steps[0].tool_executions
        assert execution.result == "landed"
        events = await log_of(trail)
        assert [e.by for e in events if isinstance(e, StopRequested)] == ["ops"]
        assert [e.TYPE for e in events].count("step.started.v1") == 1


CUT: list[tuple[HookType, int]] = [
    (HookType.AFTER_INFERENCE, 1),
    (HookType.PRE_TOOL_USE, 1),
    (HookType.POST_TOOL_USE, 1),
    (HookType.AFTER_STEP, 1),
    (HookType.BEFORE_STEP, 1),
    (HookType.STOP, 1),
    (HookType.EXECUTION_END, 1),
]


@pytest.mark.parametrize(("hook_type", "number"), CUT)
async def test_a_pause_by_somebody_without_the_agent_leaves_the_hooks_to_who_has_it(
    hook_type: HookType, number: int
) -> None:
    runs: list[str] = []
    clock = HandClock()
    agent = agent_of(
        [call("add", a=1, b=2), "done"], (hook_type, hook("guard", lambda s: runs.append(s.hook_type.value)))
    ).build()
    async with trail_of(clock, crash_at("before-hooks", number)) as trail:
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        assert runs == []
        session = again_on(trail, clock).session("s")
        paused = await session.pause(by="ops")
        assert paused.status is ExecutionStatus.PAUSED
        result = await session.resume(agent)
        assert (result.status, result.stop_reason) == ("completed", "completed")
        events = await log_of(trail)
        assert all(e.hooks == ("guard",) for e in events if isinstance(e, HooksRan))
    assert runs
    assert set(runs) == {hook_type.value}


LATE: list[Callable[[HookState], HookState]] = [
    lambda s: s.with_metadata("k", 1),
    lambda s: s.with_blocked_tool_call("too late"),
]


@pytest.mark.parametrize("late", LATE)
async def test_a_change_after_the_phase_is_refused_and_not_lost_in_silence(
    late: Callable[[HookState], HookState],
) -> None:
    kept: list[HookState] = []
    agent = agent_of([call("add", a=1, b=2), "done"], (HookType.PRE_TOOL_USE, hook("keeps", kept.append))).build()
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        with pytest.raises(ConfigurationError, match="the pre_tool_use hooks have ended"):
            late(kept[0])


@pytest.mark.parametrize("command", ["pause", "stop"])
async def test_what_an_owner_that_let_go_did_not_see_is_carried_out_with_its_reason(command: str) -> None:
    clock = HandClock()
    async with trail_of(clock, crash_at("before-append", 4)) as trail:
        session = again_on(trail, clock).session("s")

        @tool
        async def ask_somebody() -> str:
            """Have somebody ask for an end while the owner is at work, which dies before it sees that."""
            await (session.pause if command == "pause" else session.stop)(by="ops", reason="deploy")
            return "landed"

        agent = agent_of([call("ask_somebody"), "done"]).with_tools(ask_somebody).build()
        with pytest.raises(Crash):
            await trail.run(agent, "go", session="s")
        events = await log_of(trail)
        requests = [(e.by, e.reason) for e in events if isinstance(e, StopRequested | PauseRequested)]
        assert set(requests) == {("ops", "deploy")}
        if command == "pause":
            assert [(e.by, e.reason) for e in events if isinstance(e, ExecutionPaused)] == [("ops", "deploy")]
        else:
            state = await session.state()
            assert (state.status, state.stop_reason) == ("completed", "user_requested")
