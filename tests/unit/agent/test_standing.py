"""Where a session stands for those who know no agents: who is to act, from when, and what is waited for."""

import pytest
from msgspec.structs import replace

from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalGranted,
    ApprovalRequested,
    ExecutionPaused,
    PauseRequested,
    SessionForked,
    SessionStarted,
    ToolExecutionSuspended,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.evolve import initial
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.standing import standing
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.commands import Leave, Pause, Stop
from steptrail.domain.kernel.standing import Standing, StandingState, Wait
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolSpec
from steptrail.domain.usage import BilledUsage
from steptrail.testing.scenario import SECOND, AgentScenario, given
from tests.unit.agent.story import (
    a_tool,
    agent,
    answered,
    asked,
    decided,
    done,
    ended,
    failed,
    finished,
    opened,
    pause_asked,
    paused,
    resumed,
    returned,
    running,
    said,
    step,
    stop_asked,
    told,
    wants,
)

PAY = ToolSpec(name="pay", effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600))
DESK = ToolSpec(name="desk", effect=ToolEffect.IDEMPOTENT, concurrent=True, runs_children="agent")
HOUR = 3600 * SECOND
WORKING = Standing(state=StandingState.WORKING)


def stands(scenario: AgentScenario) -> Standing:
    """Say where a session stands, but for its status and the number of its runs."""
    return replace(standing(scenario.state), status="", runs=0)


def asking(scenario: AgentScenario) -> AgentScenario:
    """A person is asked whether the first call may run, for an hour."""
    until = scenario.clock + HOUR
    digest = scenario.state.tool_executions[0].arguments_digest
    return scenario.and_(
        ApprovalRequested(
            approval_id="session:1:1:0",
            position=0,
            tool="pay",
            arguments_digest=digest,
            expires_at=until,
            asked_by="pay",
            reason=None,
        ),
        WaitStarted(kind="approval", position=0, until=until),
    )


def waiting_for_a_yes() -> AgentScenario:
    return asking(given(*opened(agent(PAY)), *step(), asked(), wants("pay")))


def answer(scenario: AgentScenario) -> AgentScenario:
    return scenario.and_(ApprovalGranted(approval_id="session:1:1:0", by="ana"), WaitEnded(reason="approved", by="ana"))


def open_wait(scenario: AgentScenario) -> Wait:
    (wait,) = stands(scenario).waits
    return wait


def test_a_stream_without_events_is_absent_and_one_that_has_ended_is_done() -> None:
    assert standing(initial("s")) == Standing(state=StandingState.ABSENT, status="pending")
    assert stands(given(*opened(), *answered(), done(1), finished())) == Standing(state=StandingState.DONE)


def test_a_session_that_nothing_was_started_in_has_nothing_that_is_due() -> None:
    scenario = given(SessionStarted(name="triage"))
    assert stands(scenario) == Standing(state=StandingState.DONE)


@pytest.mark.parametrize(
    "events",
    [
        opened(),
        (*opened(), *step()),
        (*opened(), *step(), asked()),
        (*opened(), *step(), asked(), wants("look"), running()),
        (*opened(), *answered(), done(1)),
    ],
    ids=["boundary", "step", "inferring", "a tool that runs", "stopping"],
)
def test_what_only_its_owner_can_bring_on_is_work(events: tuple[AgentEvent, ...]) -> None:
    assert stands(given(*events)) == WORKING


def test_a_wait_that_the_owner_stays_for_is_work_and_a_longer_one_is_rest() -> None:
    before = given(*opened(), *failed(), decided(1, retries=True))
    short, long = before.clock + SECOND, before.clock + HOUR
    assert stands(before.and_(WaitStarted(kind="retry", until=short))).state is StandingState.WORKING
    wait = Wait(
        id="session:1:1", kind="retry", since=before.clock, due_at=long, asked_at_version=before.state.version + 1
    )
    rests = stands(before.and_(WaitStarted(kind="retry", until=long)))
    assert rests == Standing(state=StandingState.RESTING, due_at=long, waits=(wait,))
    assert not rests.is_due(long - 1)
    assert rests.is_due(long)


def test_an_approval_is_a_wait_that_names_the_event_which_asks() -> None:
    before = given(*opened(agent(PAY)), *step(), asked(), wants("pay"))
    scenario = asking(before)
    wait = Wait(
        id="session:1:1:0",
        kind="approval",
        since=before.clock,
        due_at=before.clock + HOUR,
        asked_at_version=before.state.version + 1,
    )
    assert stands(scenario) == Standing(state=StandingState.RESTING, due_at=wait.due_at, waits=(wait,))


def test_what_was_answered_is_due_until_somebody_goes_on() -> None:
    scenario = waiting_for_a_yes()
    rests = stands(answer(scenario))
    assert rests.state is StandingState.RESTING
    assert [wait.answered_at for wait in rests.waits] == [rests.due_at] == [scenario.clock]
    assert stands(answer(scenario).and_(resumed(2, SegmentEnd.WAIT))) == WORKING


def test_a_wait_that_is_gone_on_with_in_vain_is_the_same_wait() -> None:
    scenario = waiting_for_a_yes()
    again = scenario.and_(resumed(2, SegmentEnd.WAIT), decided(0, phase=DecisionPhase.RESUME))
    assert stands(again) == stands(scenario)


def test_an_approval_is_asked_for_where_it_was_asked_first() -> None:
    scenario = waiting_for_a_yes()
    first = open_wait(scenario)
    again = scenario.and_(WaitEnded(reason="settled"), WaitStarted(kind="approval", position=0, until=first.due_at))
    assert open_wait(again) == first


def test_each_child_that_rests_is_a_wait_for_its_stream() -> None:
    before = given(*opened(agent(DESK)), *step(), asked(), wants("desk", "desk"))
    until = before.clock + HOUR
    children = tuple(session_for_call(f"session:1:1:{position}") for position in (0, 1))
    for position, due in ((0, None), (1, until)):
        before = before.and_(
            running(position, "desk", ToolEffect.IDEMPOTENT),
            ToolExecutionSuspended(
                position=position,
                session=children[position],
                reason="is waiting",
                until=due,
                usage=BilledUsage(),
                duration_seconds=0.0,
            ),
        )
    scenario = before.and_(WaitStarted(kind="child", position=1, until=until))
    rests = stands(scenario)
    assert [(wait.id, wait.kind, wait.due_at, wait.on) for wait in rests.waits] == [
        ("session:1:1:0", "child", None, f"agent:{children[0]}"),
        ("session:1:1:1", "child", until, f"agent:{children[1]}"),
    ]
    assert rests.due_at == until


def test_a_session_is_due_when_the_first_of_its_children_can_go_on() -> None:
    before = given(*opened(agent(DESK)), *step(), asked(), wants("desk", "desk"))
    for position in (0, 1):
        until = before.clock + (2 - position) * HOUR
        rests = ToolExecutionSuspended(
            position=position, session="s", reason="is waiting", until=until, usage=BilledUsage(), duration_seconds=0.0
        )
        before = before.and_(running(position, "desk", ToolEffect.IDEMPOTENT), rests)
    assert stands(before.and_(WaitStarted(kind="child", position=1, until=until))).due_at == until


def test_a_parked_call_waits_for_a_verdict_and_is_due_when_it_has_one() -> None:
    parking = agent(a_tool("look", on_unknown=OnUnknown.PARK))
    before = given(*opened(parking), *step(), asked(), wants("look"), running())
    scenario = before.and_(WaitStarted(kind="unknown_outcome", position=0))
    wait = open_wait(scenario)
    assert (wait.id, wait.kind, wait.due_at) == ("session:1:1:0", "unknown_outcome", None)
    assert not stands(scenario).is_due(before.clock + HOUR)
    settled = scenario.and_(returned(), WaitEnded(reason="settled", by="ana"))
    assert stands(settled).is_due(settled.state.as_of)


def test_a_pause_that_a_person_asked_for_is_not_due_and_one_of_a_cancelled_caller_is() -> None:
    scenario = given(*opened(), pause_asked())
    assert stands(scenario.and_(paused())) == Standing(state=StandingState.PAUSED, paused_by_person=True)
    left = (
        given(*opened())
        .when(Leave(at=scenario.clock))
        .then(
            PauseRequested(by="caller", reason="cancelled"),
            ExecutionPaused(by="caller", reason="cancelled", step_seconds=0.0),
        )
    )
    assert stands(left) == Standing(state=StandingState.PAUSED, due_at=left.state.as_of)
    assert stands(left).is_due(left.state.as_of)


def test_a_caller_who_leaves_what_is_paused_or_over_changes_nothing() -> None:
    given(*opened(), pause_asked(), paused()).when(Leave(at=0)).then_nothing()
    given(*opened(), *answered(), done(1), finished()).when(Leave(at=0)).then_nothing()


def test_a_fork_is_paused_by_the_person_who_made_it_also_where_a_caller_had_left_the_past() -> None:
    left = given(*opened(), ExecutionPaused(by="caller", reason="cancelled", step_seconds=0.0))
    fork = SessionForked(
        name="triage",
        source="session",
        version=left.state.version,
        digest="",
        by="ana",
        status=ExecutionStatus.PAUSED,
        executions=1,
        steps=0,
    )
    assert stands(left.and_(fork)) == Standing(state=StandingState.PAUSED, paused_by_person=True)


def test_what_is_said_to_it_while_it_is_paused_makes_it_due_once() -> None:
    pausing = given(*opened(), pause_asked(), paused())
    assert not stands(pausing).asked_again
    asked_again = pausing.and_(told("and?"))
    assert stands(asked_again).asked_again
    assert stands(asked_again).is_due(pausing.clock)
    assert not stands(asked_again.and_(resumed(2), decided(0, phase=DecisionPhase.RESUME))).asked_again


def test_what_is_said_to_it_while_it_waits_changes_nothing_before_the_wait_is_over() -> None:
    waiting = waiting_for_a_yes()
    assert stands(waiting.and_(told("and?"))) == stands(waiting)


def test_what_is_said_while_its_owner_is_there_is_for_the_owner() -> None:
    scenario = given(*opened(), *step(), told("and?"), asked(), said("hi"), ended(), pause_asked(), paused())
    assert not stands(scenario).asked_again


def test_what_was_asked_of_an_owner_is_a_stop_rather_than_a_pause_until_it_is_carried_out() -> None:
    scenario = given(*opened(), pause_asked())
    assert AGENT.control.asked(scenario.state) == Pause(by="ana")
    assert AGENT.control.asked(scenario.and_(stop_asked("bo", "enough")).state) == Stop(by="bo", reason="enough")
    assert AGENT.control.asked(scenario.and_(paused()).state) is None
    over = given(*opened(), *answered(), stop_asked("bo"), done(1), finished())
    assert AGENT.control.asked(over.state) == Stop(by="bo")


def test_running_effects_have_a_grace_as_soon_as_a_stop_was_asked_for() -> None:
    scenario = given(*opened(), pause_asked())
    assert AGENT.control.stop_grace(scenario.state) is None
    assert AGENT.control.stop_grace(scenario.and_(stop_asked()).state) == agent().limits.stop_grace


def test_a_key_was_answered_where_the_execution_that_came_with_it_ended() -> None:
    scenario = given(*opened(key="k"), *answered(), done(1))
    assert version(scenario.state, "k") is None
    over = scenario.and_(finished())
    assert version(over.state, "k") == over.state.version
    assert version(over.state, "other") is None


def version(state: AgentState, key: str) -> int | None:
    return AGENT.control.version_of_key(state, key)


def test_the_children_are_the_sessions_that_calls_run_and_did_not_bring_to_an_end() -> None:
    calls = given(*opened(agent(DESK)), *step(), asked(), wants("desk", "desk"))
    both = calls.and_(running(0, "desk", ToolEffect.IDEMPOTENT), running(1, "desk", ToolEffect.IDEMPOTENT))
    ids = [f"agent:{session_for_call(f'session:1:1:{position}')}" for position in (0, 1)]
    assert AGENT.control.children(calls.state) == {}
    assert [*AGENT.control.children(both.state)] == ids
    assert [*AGENT.control.children(both.and_(returned(0)).state)] == ids[1:]
