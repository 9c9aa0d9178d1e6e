"""A wait for a retry and the run's own limits: nothing starts after one unasked, and none outlasts the run."""

import asyncio
from collections.abc import Sequence

import pytest

from steptrail import AgentBuilder, ErrorPolicy, tool
from steptrail.domain.agent.events import (
    ContinuationEvaluated,
    ExecutionFinished,
    RetryScheduled,
    StepStarted,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.kernel.record import Recorded
from steptrail.errors import Backoff
from steptrail.events import AgentEvent
from steptrail.testing import ScriptedModel, call
from steptrail.tools import ToolRetry
from tests.runner.kit import NOON, HandClock, Run, again_on, agent_of, crash_at, dies, run, trail_of


class Told(Exception):
    """What a client raises for a status 429 that says when to come back."""

    status_code = 429

    def __init__(self, seconds: int) -> None:
        super().__init__("slow down")
        self.headers = {"retry-after": str(seconds)}


def patient(seconds: int) -> AgentBuilder:
    return agent_of([Told(seconds), "done"]).with_error_policy(ErrorPolicy.retry_all(3))


def wall_seconds(ran: Run) -> float:
    return ran.why.spent.wall_seconds


async def test_a_wait_that_would_outlast_the_run_is_not_begun_and_the_run_has_failed_at_once() -> None:
    ran = await run(patient(50).with_timeout(40).build())
    assert ran.ending == ("failed", "time_limit")
    assert (wall_seconds(ran), len(ran.all(RetryScheduled)), ran.all(WaitStarted)) == (0.0, 1, [])
    assert len(ran.all(StepStarted)) == 1
    assert ran.why.decided_by is not None
    assert ran.why.decided_by.reason == "Execution time limit reached: 50.00s/40.00s"
    assert not ran.result.answered


async def test_a_wait_within_the_time_of_the_run_is_sat_out() -> None:
    ran = await run(patient(50).with_timeout(60).build())
    assert ran.ending == ("completed", "completed")
    assert wall_seconds(ran) == 50.0


async def test_a_limit_that_is_reached_in_a_wait_stops_the_run_before_anything_starts() -> None:
    clock = HandClock()

    def overslept(records: list[Recorded[AgentEvent]]) -> None:
        if any(isinstance(record.event, WaitStarted) for record in records):
            clock.advance(90.0)

    ran = await run(patient(10).with_timeout(60).build(), clock=clock, on_commit=overslept)  # type: ignore[arg-type]
    assert ran.ending == ("failed", "time_limit")
    kinds = [type(event) for event in ran.events]
    assert len(ran.all(StepStarted)) == 1
    assert kinds.index(WaitEnded) < len(kinds) - 1 - kinds[::-1].index(ContinuationEvaluated)
    assert kinds[-1] is ExecutionFinished


async def test_a_tools_own_retry_does_not_outlast_the_run_either() -> None:
    @tool(retry=ToolRetry(attempts=3, backoff=Backoff.linear(50.0)))
    def charge() -> str:
        """Charge a card."""
        raise ConnectionError("no line")

    agent = AgentBuilder("x").with_model(ScriptedModel([call("charge"), "done"])).with_tools(charge).with_timeout(40)
    ran = await run(agent.with_cumulative_timeout(30).build())
    assert ran.result.stop_reason == "time_limit"
    assert (wall_seconds(ran), ran.all(WaitStarted)) == (0.0, [])
    forbids = [vote.criterion_class for vote in ran.why.votes if vote.decision == "forbid"]
    assert forbids == ["ExecutionTimeLimit"]  # a wait takes no active time


async def test_a_wait_that_is_longer_than_a_process_stays_ends_the_segment_and_not_the_run() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        agent = patient(3600).build()
        result = await trail.run(agent, "go", session="s")
        assert result.status == "waiting"
        clock.advance(3600.0)
        assert (await trail.session("s").resume(agent)).status == "completed"


@pytest.mark.parametrize("point", ["before-append", "after-append"])
@pytest.mark.parametrize("number", range(1, 6))
async def test_a_crash_anywhere_around_a_wait_ends_like_no_crash(point: str, number: int) -> None:
    clock = HandClock()
    dying = trail_of(clock, crash_at(point, number))
    agent = patient(50).with_timeout(60).build()
    with dies(number, 4):
        await dying.run(agent, "go", session="s", key="k", on_commit=clock.sit_out)
    clock.advance(50.0)  # who died in the wait has not sat it out
    result = await again_on(dying, clock).run(agent, "go", session="s", key="k", on_commit=clock.sit_out)
    assert (result.status, result.stop_reason, result.answered) == ("completed", "completed", True)
    events = [record.event for record in await dying.session("s").events()]
    waits = [type(event) for event in events if isinstance(event, WaitStarted | WaitEnded)]
    assert waits == [WaitStarted, WaitEnded]


async def test_a_pause_in_a_wait_goes_on_with_the_rest_of_it() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        agent = patient(3600).build()
        await trail.run(agent, "go", session="s")
        await trail.session("s").pause(by="ana")
        clock.advance(1800.0)
        assert (await trail.session("s").resume(agent)).status == "waiting"
        clock.advance(1800.0)
        result = await trail.session("s").resume(agent)
        assert (result.status, result.answered) == ("completed", True)


async def test_a_run_in_which_nothing_ever_succeeded_has_failed_also_when_its_time_cuts_the_next_try() -> None:
    clock = HandClock()

    def slow(_: object) -> str:
        clock.advance(500.0)
        raise TimeoutError

    agent = agent_of([Told(1), slow]).with_error_policy(ErrorPolicy.retry_all(3)).with_timeout(60)
    ran = await run(agent.build(), clock=clock)
    assert ran.ending == ("failed", "time_limit")


@pytest.mark.usefixtures("soon")
async def test_a_stop_during_a_wait_ends_the_run_there() -> None:
    clock = HandClock()
    async with trail_of(clock) as trail:
        session = trail.session("s")

        stopping: list[asyncio.Task[object]] = []

        def stop_in_the_wait(records: Sequence[Recorded[AgentEvent]]) -> None:
            if any(isinstance(record.event, WaitStarted) for record in records):
                stopping.append(asyncio.create_task(session.stop(by="ana")))

        result = await trail.run(patient(50).build(), "go", session="s", on_commit=stop_in_the_wait)
        await asyncio.gather(*stopping)
        events = [record.event for record in await session.events()]
    assert (result.stop_reason, clock.utc()) == ("user_requested", NOON)
    assert [event.reason for event in events if isinstance(event, WaitEnded)] == ["stop"]
