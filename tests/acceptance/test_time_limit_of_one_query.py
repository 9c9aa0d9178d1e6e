"""Task 0.1: the wall-clock limit is that of one query, however old the session is."""

import pytest

from steptrail import Agent, AgentBuilder, RunResult, Steptrail, StopReason, ToolEffect, tool
from steptrail.domain.agent.events import SessionStarted
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.testing.scenario import START, given
from tests.runner.kit import NOON, Crash, HandClock, again_on, crash_at, slowly, trail_of

HOUR = 3600.0
WEEK = 7 * 24 * HOUR


def answering(clock: HandClock, *seconds: float, limit: float = 300.0) -> Agent:
    """An agent whose every answer takes so many seconds."""
    script = [slowly(clock, each, f"answer {number}") for number, each in enumerate(seconds, 1)]
    return AgentBuilder("slow").with_model(ScriptedModel(script)).with_timeout(limit).build()


def elapsed(result: RunResult) -> object:
    """The wall time that the last decision was taken on."""
    assert result.outcome is not None
    vote = result.outcome.get_evaluation_for("ExecutionTimeLimit")
    assert vote is not None
    return vote.context["elapsedSeconds"]


async def two_inputs(gap: float, first: float, second: float) -> tuple[RunResult, RunResult]:
    clock = HandClock()
    agent = answering(clock, first, second)
    async with trail_of(clock) as trail:
        one = await trail.run(agent, "one", session="s")
        clock.advance(gap)
        return one, await trail.session("s").send(agent, "two")


@pytest.mark.acceptance("0.1-1")
async def test_the_first_execution_is_measured_from_its_own_start() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        clock.advance(WEEK)
        result = await trail.run(answering(clock, 7.0), "hello", session="s")
    assert elapsed(result) == 7.0
    assert result.stop_reason is StopReason.COMPLETED


@pytest.mark.acceptance("0.1-2")
async def test_each_further_input_has_a_clock_of_its_own() -> None:
    one, two = await two_inputs(gap=0.0, first=200.0, second=250.0)
    assert (elapsed(one), elapsed(two)) == (200.0, 250.0)
    assert (one.stop_reason, two.stop_reason) == (StopReason.COMPLETED, StopReason.COMPLETED)


@pytest.mark.acceptance("0.1-3")
async def test_a_session_that_is_read_back_has_no_running_clock_and_what_runs_next_is_measured_from_there() -> None:
    clock = HandClock()
    agent = answering(clock, 200.0, 250.0)
    trail = trail_of(clock, crash_at("before-append", 2))
    with pytest.raises(Crash):
        await trail.run(agent, "hello", session="s")
    clock.advance(WEEK)
    async with again_on(trail, clock) as later:
        read = await later.session("s").state()
        at_rest, result = read.elapsed_seconds, await later.session("s").resume(agent)
    assert at_rest == 0.0
    assert elapsed(result) == 200.0
    assert result.stop_reason is StopReason.COMPLETED


@pytest.mark.acceptance("0.1-4")
async def test_a_second_input_a_week_later_does_not_time_out() -> None:
    _, two = await two_inputs(gap=WEEK, first=1.0, second=1.0)
    assert two.stop_reason is StopReason.COMPLETED
    assert two.output == "answer 2"


@pytest.mark.acceptance("0.1-5")
async def test_the_start_of_the_session_is_set_once() -> None:
    one, two = await two_inputs(gap=WEEK, first=1.0, second=1.0)
    assert one.state.started_at == two.state.started_at
    assert two.state.started_at.timestamp() == NOON / 1e6
    assert two.state.execution_started_at is not None
    assert (two.state.execution_started_at - two.state.started_at).total_seconds() == WEEK + 1.0


async def paused_for_an_hour() -> RunResult:
    """Five seconds of work, a pause of an hour, and three more seconds of work."""

    clock = HandClock()
    trail: Steptrail = trail_of(clock)

    @tool(effect=ToolEffect.READ)
    async def rest() -> str:
        clock.advance(5.0)
        await trail.session("s").pause(by="ana", reason="lunch")
        return "rested"

    script: list[Reply] = [call("rest"), slowly(clock, 3.0, "done")]
    agent = AgentBuilder("worker").with_model(ScriptedModel(script)).with_tools(rest).build()
    async with trail:
        first = await trail.run(agent, "go", session="s")
        assert first.status == "paused"
        assert first.state.cumulative_execution_seconds == 5.0
        clock.advance(HOUR)
        return await trail.session("s").resume(agent)


@pytest.mark.acceptance("0.1-6")
async def test_a_pause_of_an_hour_is_no_active_time() -> None:
    result = await paused_for_an_hour()
    assert result.output == "done"
    assert result.state.cumulative_execution_seconds == 8.0


@pytest.mark.acceptance("0.1-7")
def test_before_its_first_execution_a_session_is_measured_from_its_own_start() -> None:
    state = given(SessionStarted(name="new")).state
    assert state.execution_started_at is None
    assert state.at(START + 90_000_000).elapsed_seconds == 90.0
