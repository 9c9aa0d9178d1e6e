"""Why a run goes on is said of every way to wait, and of a run that nobody has taken yet."""

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail, tool
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.policy.backoff import Backoff
from steptrail.testing import ScriptedModel, calls
from steptrail.tools import ApprovalRule
from steptrail.workflow import Workflow
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, trail_of


@tool(approval=ApprovalRule(reason="it moves money"))
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


async def test_a_run_that_waits_for_two_people_says_how_many() -> None:
    agent = (
        AgentBuilder("a")
        .with_model(ScriptedModel([calls(("pay", {"cents": 5}), ("pay", {"cents": 6})), "done"]))
        .with_tools(pay)
        .build()
    )
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "go", session="s")
        assert (await trail.session("s").why()).verdict == "not stopped: waiting after 0 steps for 2 approvals"


async def test_a_run_that_waits_for_its_retry_says_until_when() -> None:
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(60.0))
    agent = agent_of([ConnectionError("down"), "Up."]).with_error_policy(policy)
    async with trail_of(HandClock()) as trail:
        await trail.run(agent.with_limits(Limits(longest_wait=0.0)).build(), "go", session="s")
        assert (await trail.session("s").why()).verdict == (
            "not stopped: waiting after 1 step for the time of a retry, 2027-01-15 08:01:00 UTC (60 s from now)"
        )


async def test_a_run_whose_process_died_as_it_sat_out_a_wait_has_crashed_as_lists_say() -> None:
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(30.0))
    agent = agent_of([ConnectionError("down"), "Up."]).with_error_policy(policy).build()
    clock = HandClock()
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("before-wait")).run(agent, "go", session="s")
        (row,) = await trail.runs()
        why = await trail.session("s").why()
        assert (row.is_crashed, why.is_crashed, why.status) == (True, True, "waiting")
        assert why.crash is not None
        said = "not stopped: waiting after 1 step for the time of a retry, 2027-01-15 08:00:30 UTC"
        assert why.verdict == f"{said} (30 s from now), crashed, and no process runs it"
        clock.advance(60.0)
        later = (await trail.session("s").why()).verdict
        assert later == f"{said}, which has passed, crashed, and no process runs it"


async def test_a_run_whose_questions_are_answered_has_not_crashed_but_waits_for_who_goes_on() -> None:
    agent = (
        AgentBuilder("a")
        .with_model(ScriptedModel([calls(("pay", {"cents": 5}), ("pay", {"cents": 6})), "done"]))
        .with_tools(pay)
        .build()
    )
    clock = HandClock()
    async with trail_of(clock) as trail:
        await trail.run(agent, "go", session="s")
        for question in await trail.inbox():
            await trail.session("s").approve(question.id, by="ana")
        clock.advance(60.0)
        why = await trail.session("s").why()
        assert (why.status, why.is_owned, why.is_crashed, why.crash) == ("in_progress", False, False, None)
        assert why.verdict == (
            "not stopped: answered after 0 steps, waiting for a worker since 2027-01-15 08:00:00 UTC"
        )


async def test_a_workflow_whose_question_is_answered_says_that_it_waits_for_a_worker() -> None:
    flow = Workflow("f").human("ask", prompt="Go on?").build()
    clock = HandClock()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").answer("ask", approved=True, by="ana")
        clock.advance(60.0)
        why = await trail.flow("f").why()
        assert why.verdict == "answered, waiting for a worker since 2027-01-15 08:00:00 UTC"
