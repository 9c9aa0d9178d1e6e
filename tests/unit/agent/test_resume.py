"""Going on with an execution: in which segment, since when, with which agent, and when not at all."""

import pytest
from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import CallModel, Record, RunCalls, RunHooks, StartInference, TakeDecision
from steptrail.domain.agent.events import PauseRequested
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.limits import CrashLoopLimit, Limits
from steptrail.domain.hooks.types import HookType
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.tools import ToolEffect
from steptrail.runtime.agent.agent import criteria_for
from steptrail.testing.scenario import SECOND, START, AgentScenario, given
from tests.unit.agent.story import (
    AGENT,
    a_tool,
    agent,
    asked,
    cut_off,
    decided,
    done,
    ended,
    failed,
    finished,
    hooks_ran,
    lost_reply,
    opened,
    pause_asked,
    paused,
    resume,
    resumed,
    returned,
    running,
    said,
    step,
    stop_asked,
    votes,
    wants,
)


def test_a_resume_opens_a_segment_and_asks_the_guards_before_anything_else() -> None:
    scenario = (
        given(*opened(), *step(), asked())
        .when(resume(last_seen=START + 9 * SECOND))
        .then(resumed(2, SegmentEnd.CRASH, interrupted=6.0))
    )
    assert scenario.state.fold.segment == 2
    scenario.next().is_(TakeDecision(0, DecisionPhase.RESUME))


def test_a_crash_between_two_steps_cuts_no_interval_open() -> None:
    given(*opened()).when(resume(last_seen=START + 9 * SECOND)).then(resumed())


def test_a_resume_at_the_boundary_runs_its_hooks_and_lets_everybody_vote() -> None:
    hooks = (HookType.AFTER_STEP, HookType.ON_ERROR)
    crashed = given(*opened(agent(hooks=hooks)), *failed())
    scenario = crashed.and_(resumed()).next().is_(RunHooks(HookType.AFTER_STEP, 1))
    scenario = scenario.and_(hooks_ran(HookType.AFTER_STEP, 1)).next().is_(RunHooks(HookType.ON_ERROR, 1))
    scenario.and_(hooks_ran(HookType.ON_ERROR, 1)).next().is_(TakeDecision(1, DecisionPhase.BOUNDARY))


def test_a_run_that_keeps_dying_at_the_boundary_is_decided_before_its_hooks_run_again() -> None:
    deadly = agent(hooks=(HookType.BEFORE_STEP,), limits=Limits(max_unproductive_segments=2))
    scenario = given(*opened(deadly), resumed(2)).next().is_(RunHooks(HookType.BEFORE_STEP, 0))
    scenario.and_(resumed(3)).next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))


def test_a_guard_against_crash_loops_in_shadow_keeps_no_hook_from_running() -> None:
    limits = Limits(max_unproductive_segments=1, shadow=("max_unproductive_segments",))
    scenario = given(*opened(agent(hooks=(HookType.BEFORE_STEP,), limits=limits)), resumed(2), resumed(3))
    scenario.next().is_(RunHooks(HookType.BEFORE_STEP, 0))
    votes = criteria_for(agent(limits=limits), ()).votes(scenario.state)
    (vote,) = [each for each in votes if each.criterion_class == "CrashLoopLimit"]
    assert (vote.decision, vote.shadow) == (ContinuationDecision.ALLOW, ContinuationDecision.FORBID)


def test_the_interval_of_a_step_that_a_crash_cut_ends_at_the_last_sign_of_life() -> None:
    day = 86_400 * SECOND
    crashed = given(*opened(), *step(), asked())
    seen = crashed.clock
    scenario = crashed.at(crashed.clock + day).when(resume(last_seen=seen)).then(resumed(interrupted=2.0))
    scenario = scenario.and_(decided(0, phase=DecisionPhase.RESUME))
    assert scenario.state.cumulative_execution_seconds == 3.0
    assert scenario.state.elapsed_seconds == 1.0


def test_a_clock_that_was_set_back_takes_no_time() -> None:
    given(*opened(), *step()).when(resume(last_seen=START)).then(resumed(interrupted=0.0))


def test_taking_over_a_paused_step_counts_its_time_once() -> None:
    rest = given(*opened(), *step(), pause_asked(), paused(2.0))
    command = resume(last_seen=rest.clock, ended_by=SegmentEnd.TAKE_OVER)
    rest.when(command).then(resumed(2, SegmentEnd.TAKE_OVER, productive=True))


def test_the_guards_that_allow_return_to_where_the_crash_was() -> None:
    scenario = given(*opened(), *step(), asked(), wants("look"), running(), returned(), resumed())
    scenario = scenario.and_(decided(0, phase=DecisionPhase.RESUME))
    scenario.next(scenario.clock).is_(Record((ended(seconds=2.0),)))


def test_the_votes_on_a_resume_leave_the_last_decision_as_it_was() -> None:
    guard = votes(("UserStop", ContinuationDecision.ALLOW), phase=DecisionPhase.RESUME)
    first = votes(("A", ContinuationDecision.REQUEST))
    state = given(*opened(), first, *step(), resumed(), guard, decided(0, phase=DecisionPhase.RESUME)).state
    outcome = state.last_continuation_outcome
    assert outcome is not None
    assert [vote.criterion_class for vote in outcome.evaluations] == ["A"]


def test_a_model_call_that_a_crash_cut_is_made_again_as_the_next_attempt() -> None:
    crashed = given(*opened(), *step(), asked(), resumed(), decided(0, phase=DecisionPhase.RESUME))
    lost = lost_reply()
    scenario = crashed.next().is_(Record((lost,))).and_(lost).next().is_(StartInference(1, 2))
    scenario.and_(asked(attempt=2)).next().is_(CallModel(1))


def test_a_wait_for_the_next_segment_does_not_count_towards_the_wall_clock() -> None:
    week = 7 * 86_400 * SECOND
    scenario = given(*opened(), pause_asked(), paused()).at(START + week, resumed(ended_by=SegmentEnd.PAUSE))
    assert scenario.state.elapsed_seconds == 0.0
    assert scenario.state.started_at.timestamp() == START / SECOND


@pytest.mark.parametrize(
    ("snapshot", "changes"),
    [
        (agent(prompt="be kind", fingerprint="f2"), ("system_prompt",)),
        (agent(a_tool("find"), fingerprint="f2"), ("tool find added", "tool look removed")),
        (agent(a_tool("look", ToolEffect.READ), fingerprint="f2"), ("tool look changed",)),
    ],
)
def test_an_agent_that_has_changed_is_recorded_with_what_changed(
    snapshot: AgentSnapshot, changes: tuple[str, ...]
) -> None:
    scenario = (
        given(*opened(), *step())
        .when(resume(snapshot))
        .then(structs.replace(resumed(), agent=snapshot, changes=changes))
    )
    assert scenario.state.agent is not None
    assert scenario.state.agent.fingerprint == "f2"


def test_a_changed_agent_keeps_the_limits_and_the_policy_the_execution_began_with() -> None:
    began = agent(limits=Limits(max_steps=7), policy=ErrorPolicy.retry_all())
    changed = agent(limits=Limits(max_steps=99), fingerprint="f2", prompt="new")
    command = resume(changed)
    scenario = given(*opened(began)).when(command)
    state = scenario.then(structs.replace(resumed(), agent=changed, changes=("system_prompt",))).state
    assert state.agent is not None
    assert (state.agent.limits.max_steps, state.agent.error_policy) == (7, ErrorPolicy.retry_all())
    assert state.agent.system_prompt == "new"


def test_limits_and_policy_given_with_the_resume_replace_the_recorded_ones() -> None:
    limits, policy = Limits(max_steps=99), ErrorPolicy.retry_all()
    amended = structs.replace(resumed(limits=limits), error_policy=policy)
    scenario = given(*opened()).when(resume(limits=limits, policy=policy)).then(amended)
    assert scenario.state.agent == structs.replace(AGENT, limits=limits, error_policy=policy)


def test_amended_limits_last_for_the_execution_and_not_for_the_next_one() -> None:
    raised = given(
        *opened(), resumed(limits=Limits(max_steps=99)), decided(0, phase=DecisionPhase.RESUME), done(0), finished()
    )
    again = raised.and_(structs.replace(opened()[1], ordinal=2, segment=3, execution_id="session:2"))
    assert again.state.agent == AGENT


def crash(scenario: AgentScenario) -> AgentScenario:
    """A crash, and the segment that the machine begins after it."""
    return scenario.and_(*decide(scenario.state, resume(scenario.state.agent or AGENT)))


def crashes(scenario: AgentScenario, count: int) -> AgentScenario:
    for _ in range(count):
        scenario = crash(scenario).and_(decided(0, phase=DecisionPhase.RESUME))
    return scenario


@pytest.mark.parametrize(("count", "forbids"), [(0, False), (2, False), (3, True), (5, True)])
def test_segments_that_end_without_progress_are_counted_until_the_guard_forbids(count: int, forbids: bool) -> None:
    state = crashes(given(*opened(), *step(), asked()), count).state
    assert state.unproductive_segments == count
    vote = CrashLoopLimit(3).explain(state)
    assert (vote.decision is ContinuationDecision.FORBID) is forbids


@pytest.mark.parametrize("progress", ["reply", "result", "pause"])
def test_progress_ends_the_row_of_unproductive_segments(progress: str) -> None:
    stuck = crashes(given(*opened(), *step(), asked(), wants("look"), running()), 2)
    match progress:
        case "reply":
            stuck = crashes(given(*opened(), *step(), asked()), 2).and_(said("done"))
        case "result":
            stuck = stuck.and_(cut_off(0, Then.RERUN), running(attempt=2), returned())
        case _:
            stuck = stuck.and_(PauseRequested(by="ana"), paused())
    assert crashes(stuck, 1).state.unproductive_segments == 0


def test_a_running_call_of_this_segment_is_not_in_doubt() -> None:
    given(*opened(), *step(), asked(), wants("look"), running()).next().is_(RunCalls(running=(0,)))


def test_a_stop_on_a_crashed_run_is_seen_by_the_guards_of_the_resume() -> None:
    state = given(*opened(), *step(), stop_asked("ops", "deploy"), resumed()).state
    assert state.stop_request is not None
    assert (state.stop_request.by, state.stop_request.reason) == ("ops", "deploy")


def test_examples_are_among_what_may_change() -> None:
    snapshot = structs.replace(AGENT, examples=(Message.user("x"),), fingerprint="f2")
    given(*opened()).when(resume(snapshot)).then(structs.replace(resumed(), agent=snapshot, changes=("examples",)))
