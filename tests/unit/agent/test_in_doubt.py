"""A call that was running when its segment ended without a word: what it does to the world decides what follows."""

import pytest
from msgspec import structs

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.commands import Settle
from steptrail.domain.agent.effects import KeepWaiting, Record, RunCalls, RunHooks
from steptrail.domain.agent.events import (
    AgentEvent,
    ToolExecutionSettledLate,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.base import full_form
from steptrail.domain.hooks.types import HookType
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.testing.scenario import SECOND, AgentScenario, given
from tests.unit.agent.story import (
    BOOM,
    a_tool,
    agent,
    asked,
    broke,
    cut_off,
    decided,
    ended,
    hooks_ran,
    opened,
    pause_asked,
    paused,
    resume,
    resumed,
    returned,
    running,
    step,
    wants,
)

EFFECT_ID = "session:1:1:1"
PARK = WaitStarted(kind="unknown_outcome", position=1)
RERUN_IT, TELL_IT, FAIL_IT, PARK_IT = (cut_off(1, then) for then in Then)
REPEATABLE = (ToolEffect.READ, ToolEffect.IDEMPOTENT, ToolEffect.KEYED)


def crashed(effect: ToolEffect, on_unknown: OnUnknown = OnUnknown.TELL, *hooks: HookType) -> AgentScenario:
    """A crash in the second of three calls, and a resume that no guard forbids."""
    snapshot = agent(a_tool("look", effect, on_unknown), hooks=hooks)
    return given(
        *opened(snapshot),
        *step(),
        asked(),
        wants("look", "look", "look"),
        running(0, effect=effect),
        returned(0, "first"),
        running(1, effect=effect),
        resumed(),
        decided(0, phase=DecisionPhase.RESUME),
    )


@pytest.mark.parametrize("effect", ToolEffect)
@pytest.mark.parametrize("on_unknown", OnUnknown)
def test_what_was_in_doubt_is_closed_first_and_nothing_else_is_touched(
    effect: ToolEffect, on_unknown: OnUnknown
) -> None:
    follows = Then.RERUN if effect in REPEATABLE else Then(on_unknown)
    lost = cut_off(1, follows)
    scenario = crashed(effect, on_unknown).next().is_(Record((lost,)))
    first, second, third = scenario.and_(lost).state.tool_executions
    assert (first.status, first.result) == (CallStatus.COMPLETED, "first")
    assert second.phase is not CallPhase.IN_DOUBT
    assert (third.phase, third.attempt) == (CallPhase.NEW, 0)


@pytest.mark.parametrize("effect", REPEATABLE)
@pytest.mark.parametrize("on_unknown", OnUnknown)
def test_what_may_be_repeated_runs_again_under_the_same_effect_id(effect: ToolEffect, on_unknown: OnUnknown) -> None:
    scenario = crashed(effect, on_unknown).and_(RERUN_IT).next().is_(RunCalls((1,)))
    call = scenario.state.tool_executions[1]
    assert (call.effect_id, call.attempt) == (EFFECT_ID, 1)
    scenario.and_(running(1, effect=effect, attempt=2)).next().is_(RunCalls(running=(1,)))


def test_a_repeated_call_does_not_pass_its_hooks_again() -> None:
    scenario = crashed(ToolEffect.READ, OnUnknown.TELL, HookType.PRE_TOOL_USE).and_(RERUN_IT)
    scenario.next().is_(RunCalls((1,)))


def test_an_unsafe_call_tells_the_model_that_its_outcome_is_unknown_and_is_no_failure() -> None:
    scenario = crashed(ToolEffect.UNSAFE).and_(TELL_IT).next().is_(RunCalls((2,)))
    scenario = scenario.and_(running(2), returned(2), ended())
    call = scenario.state.steps[0].tool_executions[1]
    assert call.status is CallStatus.INTERRUPTED
    assert "outcome of this call is unknown" in full_form(call.message().parts[0])["text"]
    assert scenario.state.total_failures == 0


def test_an_unsafe_call_may_count_as_a_failure() -> None:
    scenario = crashed(ToolEffect.UNSAFE, OnUnknown.FAIL).and_(FAIL_IT).next().is_(RunCalls((2,)))
    scenario = scenario.and_(running(2), returned(2), ended(errors=1))
    assert scenario.state.total_failures == 1
    last = scenario.state.current_step
    assert last is not None
    assert [failure.error.error_class for failure in last.errors] == ["steptrail:OutcomeUnknown"]


def test_an_unsafe_call_may_wait_for_a_person() -> None:
    scenario = crashed(ToolEffect.UNSAFE, OnUnknown.PARK).and_(PARK_IT).next().is_(Record((PARK,))).and_(PARK)
    assert scenario.state.status is ExecutionStatus.WAITING
    scenario.next().is_(KeepWaiting("unknown_outcome", None))


@pytest.mark.parametrize("on_unknown", OnUnknown)
def test_hooks_see_a_call_whose_outcome_is_unknown_before_the_next_one_starts(on_unknown: OnUnknown) -> None:
    scenario = crashed(ToolEffect.UNSAFE, on_unknown, HookType.POST_TOOL_USE)
    scenario = scenario.and_(hooks_ran(HookType.POST_TOOL_USE, 1, 0), cut_off(1, Then(on_unknown)))
    if on_unknown is OnUnknown.PARK:
        scenario = scenario.and_(PARK, WaitEnded(reason="tell", by="ana"))
    scenario.next().is_(RunHooks(HookType.POST_TOOL_USE, 1, 1))


PARKED = crashed(ToolEffect.UNSAFE, OnUnknown.PARK).and_(PARK_IT, PARK)
WHY = "the bank says so"
DID = Settle(effect_id=EFFECT_ID, by="ana", verdict="completed", result="it went through", reason=WHY)
DID_NOT = Settle(effect_id=EFFECT_ID, by="ana", verdict="failed", message="no trace of it", reason=WHY)
RERUN = Settle(effect_id=EFFECT_ID, by="ana", verdict="rerun", reason=WHY)
TELL = Settle(effect_id=EFFECT_ID, by="ana", verdict="tell", reason=WHY)
SETTLED = WaitEnded(reason="settled", by="ana")


def settled_as(command: Settle) -> tuple[AgentEvent, ...]:
    error = structs.replace(BOOM, error_class="steptrail:SettledAsFailed", message="no trace of it")
    by_ana = {"duration_seconds": 0.0, "settled_by": "ana", "settled_reason": WHY}
    match command.verdict:
        case "completed":
            return (structs.replace(returned(1, "it went through"), **by_ana), SETTLED)
        case "failed":
            return (structs.replace(broke(1, error), **by_ana), SETTLED)
        case "rerun" | "tell":
            return (WaitEnded(reason=command.verdict, by="ana", settled_reason=WHY),)


@pytest.mark.parametrize(
    ("command", "status", "due"),
    [
        (DID, CallStatus.COMPLETED, RunCalls((2,))),
        (DID_NOT, CallStatus.FAILED, RunCalls((2,))),
        (RERUN, CallStatus.PENDING, RunCalls((1,))),
        (TELL, CallStatus.INTERRUPTED, RunCalls((2,))),
    ],
)
def test_a_person_settles_a_parked_call_and_the_step_goes_on(
    command: Settle, status: CallStatus, due: RunCalls
) -> None:
    scenario = PARKED.when(command).then(*settled_as(command)).next().is_(due)
    call = scenario.state.tool_executions[1]
    assert (call.status, call.waits_for_a_person) == (status, False)
    assert scenario.state.status is ExecutionStatus.IN_PROGRESS
    scenario.when(command).then_rejected(f"no call with the effect id '{EFFECT_ID}' waits for a verdict")


@pytest.mark.parametrize("command", [DID, DID_NOT, RERUN, TELL])
def test_a_call_that_is_parked_and_paused_can_be_settled_and_stays_paused(command: Settle) -> None:
    scenario = PARKED.and_(pause_asked(), paused()).when(command).then(*settled_as(command))
    assert scenario.state.phase is Phase.PAUSED
    scenario = scenario.and_(resumed(3, SegmentEnd.PAUSE), decided(0, phase=DecisionPhase.RESUME))
    after = WaitEnded(reason="settled")
    scenario = scenario.next().is_(Record((after,))).and_(after)
    scenario.next().is_(RunCalls((1 if command is RERUN else 2,)))


def test_a_parked_call_outlives_a_resume_that_settles_nothing() -> None:
    scenario = PARKED.when(resume(PARKED.state.agent or agent())).then(resumed(3, SegmentEnd.WAIT))
    scenario.and_(decided(0, phase=DecisionPhase.RESUME)).next().is_(KeepWaiting("unknown_outcome", None))


def test_only_a_parked_call_takes_a_verdict() -> None:
    crashed(ToolEffect.UNSAFE).when(DID).then_rejected("waits for a verdict")
    stranger = Settle(effect_id="session:1:9:9", by="ana", verdict="tell")
    PARKED.when(stranger).then_rejected("'session:1:9:9'")


def test_the_time_a_person_takes_is_no_active_time() -> None:
    day = 86_400 * SECOND
    before = PARKED.state.at(PARKED.clock + day).cumulative_execution_seconds
    asleep = PARKED.at(PARKED.clock + day).when(TELL).then(*settled_as(TELL))
    later = asleep.clock + day
    back = resume(PARKED.state.agent or agent(), last_seen=asleep.state.as_of)
    scenario = (
        asleep.at(later).when(back).then(resumed(3, SegmentEnd.WAIT)).and_(decided(0, phase=DecisionPhase.RESUME))
    )
    assert scenario.state.cumulative_execution_seconds - before <= 2.0
    assert before == 3.0


def test_a_pause_of_a_parked_call_adds_no_active_time() -> None:
    day = 86_400 * SECOND
    scenario = PARKED.at(PARKED.clock + day, pause_asked())
    scenario.next().is_(Record((paused(0.0),)))


def late(
    attempt: int = 1, *, result: str | None = "at last", fails: bool = False, effect: str = EFFECT_ID
) -> ToolExecutionSettledLate:
    return ToolExecutionSettledLate(
        effect_id=effect,
        attempt=attempt,
        segment=1,
        result=None if fails else result,
        error=BOOM if fails else None,
    )


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_fenced_worker_learned_closes_a_call_that_is_in_doubt(fails: bool) -> None:
    scenario = crashed(ToolEffect.UNSAFE).and_(late(fails=fails)).next().is_(RunCalls((2,)))
    call = scenario.state.tool_executions[1]
    assert call.status is (CallStatus.FAILED if fails else CallStatus.COMPLETED)


@pytest.mark.parametrize("on_unknown", [OnUnknown.TELL, OnUnknown.FAIL])
def test_what_a_fenced_worker_learned_replaces_an_unknown_outcome(on_unknown: OnUnknown) -> None:
    scenario = (
        crashed(ToolEffect.UNSAFE, on_unknown).and_(cut_off(1, Then(on_unknown)), late()).next().is_(RunCalls((2,)))
    )
    call = scenario.state.tool_executions[1]
    assert (call.status, call.result, call.error) == (CallStatus.COMPLETED, "at last", None)


def test_what_a_fenced_worker_learned_spares_a_repetition() -> None:
    crashed(ToolEffect.READ).and_(RERUN_IT, late()).next().is_(RunCalls((2,)))


def test_what_a_fenced_worker_learned_ends_the_wait_for_a_person() -> None:
    over = WaitEnded(reason="settled")
    scenario = PARKED.and_(late()).next().is_(Record((over,)))
    scenario.and_(over).next().is_(RunCalls((2,)))


def test_an_interruption_that_comes_after_the_late_word_changes_nothing() -> None:
    scenario = crashed(ToolEffect.READ).and_(late(), RERUN_IT).next().is_(RunCalls((2,)))
    assert scenario.state.tool_executions[1].status is CallStatus.COMPLETED


@pytest.mark.parametrize(
    "evidence",
    [
        late(attempt=1),
        late(attempt=2, effect="session:1:1:0"),
        late(attempt=1, effect="session:1:9:9"),
    ],
)
def test_a_late_word_about_another_attempt_is_evidence_and_changes_nothing(evidence: ToolExecutionSettledLate) -> None:
    again = crashed(ToolEffect.READ).and_(RERUN_IT, running(1, effect=ToolEffect.READ, attempt=2))
    scenario = again.and_(evidence).next().is_(RunCalls(running=(1,)))
    assert scenario.state.tool_executions == again.state.tool_executions


def test_a_late_word_after_the_step_has_ended_is_evidence() -> None:
    over = crashed(ToolEffect.UNSAFE).and_(TELL_IT, running(2), returned(2), ended())
    assert over.and_(late()).state.steps == over.state.steps
    assert over.and_(late()).state.messages == over.state.messages
