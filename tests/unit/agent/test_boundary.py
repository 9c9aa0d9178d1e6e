"""Between two steps: hooks first, then one decision, then the next step or the end."""

import pytest
from msgspec import structs

from steptrail.domain.agent.effects import Record, RunHooks, StartInference, TakeDecision
from steptrail.domain.agent.events import StepStarted
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.phases import Phase
from steptrail.domain.continuation.criteria.pending_input import PendingInput
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.hooks.types import HookType
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.runtime.agent.agent import criteria_for
from steptrail.testing.scenario import given
from tests.unit.agent.story import (
    agent,
    answered,
    asked,
    decided,
    done,
    ended,
    failed,
    finished,
    forbid,
    forbidden,
    given_up,
    hooks_ran,
    opened,
    start,
    step,
    stop_asked,
    told,
    unanswered,
    votes,
)


def test_a_session_that_is_not_there_has_nothing_to_do() -> None:
    given().next().is_nothing()
    assert given().state.phase is Phase.ABSENT
    assert given().state.status is ExecutionStatus.PENDING


def test_starting_opens_the_session_and_an_execution_in_it() -> None:
    scenario = given().when(start()).then(*opened())
    assert scenario.state.phase is Phase.BOUNDARY
    assert scenario.state.status is ExecutionStatus.IN_PROGRESS


def test_before_the_first_step_a_decision_is_taken() -> None:
    given(*opened()).next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))


def test_the_hooks_of_the_start_run_before_that_decision_in_order() -> None:
    hooks = (HookType.BEFORE_STEP, HookType.EXECUTION_START, HookType.AFTER_STEP)
    scenario = given(*opened(agent(hooks=hooks))).next().is_(RunHooks(HookType.EXECUTION_START, 0))
    scenario = scenario.and_(hooks_ran(HookType.EXECUTION_START, 0)).next().is_(RunHooks(HookType.BEFORE_STEP, 0))
    scenario.and_(hooks_ran(HookType.BEFORE_STEP, 0)).next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))


def test_a_request_starts_the_first_step() -> None:
    scenario = given(*opened(), decided(0)).next().is_(Record((StepStarted(number=1),)))
    scenario.and_(StepStarted(number=1)).next().is_(StartInference(1, 1))


def test_a_forbid_before_the_first_step_starts_none_and_completes_by_the_limit() -> None:
    ending = finished(ExecutionStatus.COMPLETED, StopReason.STEPS_LIMIT, "StepsLimit")
    scenario = given(*opened(), forbidden(0)).next().is_(Record((ending,))).and_(ending)
    assert scenario.state.step_count == 0
    assert scenario.state.stop_reason is StopReason.STEPS_LIMIT
    scenario.next().is_nothing()


def test_a_limit_of_no_steps_forbids_the_first_one() -> None:
    limited = agent(limits=Limits(max_steps=0))
    state = given(*opened(limited)).state
    forbids = [
        vote.criterion_class
        for criterion in criteria_for(limited, ()).criteria
        if (vote := getattr(criterion, "explain")(state)) and vote.decision is ContinuationDecision.FORBID  # noqa: B009
    ]
    assert forbids == ["StepsLimit"]


def test_after_a_step_its_hooks_run_before_those_of_the_next_one() -> None:
    hooks = (HookType.BEFORE_STEP, HookType.AFTER_STEP, HookType.ON_ERROR)
    before = given(*opened(agent(hooks=hooks)), hooks_ran(HookType.BEFORE_STEP, 0))
    scenario = before.and_(*answered()).next().is_(RunHooks(HookType.AFTER_STEP, 1))
    scenario = scenario.and_(hooks_ran(HookType.AFTER_STEP, 1)).next().is_(RunHooks(HookType.BEFORE_STEP, 1))
    scenario.and_(hooks_ran(HookType.BEFORE_STEP, 1)).next().is_(TakeDecision(1, DecisionPhase.BOUNDARY))


def test_the_hooks_of_an_error_run_after_a_failed_step_only() -> None:
    scenario = given(*opened(agent(hooks=(HookType.ON_ERROR,))))
    scenario.and_(*failed()).next().is_(RunHooks(HookType.ON_ERROR, 1))
    scenario.and_(*answered()).next().is_(TakeDecision(1, DecisionPhase.BOUNDARY))


@pytest.mark.parametrize(("fails", "status"), [(True, ExecutionStatus.FAILED), (False, ExecutionStatus.COMPLETED)])
@pytest.mark.parametrize("by", ["ErrorPolicyCriterion", "AnswerComplete", "RetryLimit", "app.Own"])
def test_whether_a_forbid_fails_the_execution_it_says_itself_whatever_it_is_called(
    by: str, fails: bool, status: ExecutionStatus
) -> None:
    against = (forbid(by, StopReason.RETRY_LIMIT, fails=fails), forbidden(1, by, StopReason.RETRY_LIMIT))
    ending = finished(status, StopReason.RETRY_LIMIT, by)
    given(*opened(), *answered(), *against).next().is_(Record((ending,)))


def test_the_reasons_error_and_user_requested_say_by_themselves_whether_it_failed() -> None:
    broken = (forbid("app.Own", StopReason.ERROR), forbidden(1, "app.Own", StopReason.ERROR))
    failing = finished(ExecutionStatus.FAILED, StopReason.ERROR, "app.Own")
    given(*opened(), *answered(), *broken).next().is_(Record((failing,)))
    stopped = (forbid("UserStop", StopReason.USER_REQUESTED), forbidden(1, "UserStop", StopReason.USER_REQUESTED))
    completed = finished(ExecutionStatus.COMPLETED, StopReason.USER_REQUESTED, "UserStop")
    given(*opened(), *answered(), *stopped).next().is_(Record((completed,)))


@pytest.mark.parametrize("answered_it", [True, False])
def test_an_execution_ends_as_answered_as_its_decision_says(answered_it: bool) -> None:
    by_itself = given(*opened(), *answered(), done(1, answered=answered_it))
    by_itself.next().is_(Record((finished(answered=answered_it),)))
    at_a_limit = given(*opened(), *answered(), forbidden(1, answered=answered_it))
    ending = finished(reason=StopReason.STEPS_LIMIT, by="StepsLimit", answered=answered_it)
    at_a_limit.next().is_(Record((ending,)))


def test_an_execution_whose_last_step_failed_never_completes() -> None:
    ending = finished(ExecutionStatus.FAILED)
    given(*opened(), *failed(), done(1)).next().is_(Record((ending,)))
    limit = finished(ExecutionStatus.FAILED, StopReason.STEPS_LIMIT, "StepsLimit")
    given(*opened(), *failed(), forbidden(1)).next().is_(Record((limit,)))


def test_the_hooks_of_the_stop_run_before_those_of_the_end() -> None:
    hooks = (HookType.EXECUTION_END, HookType.STOP)
    scenario = given(*opened(agent(hooks=hooks)), *answered(), done(1)).next().is_(RunHooks(HookType.STOP, 1))
    scenario = scenario.and_(hooks_ran(HookType.STOP, 1)).next().is_(RunHooks(HookType.EXECUTION_END, 1))
    scenario.and_(hooks_ran(HookType.EXECUTION_END, 1)).next().is_(Record((finished(),)))


def test_a_vote_of_a_stop_hook_is_resolved_once_and_may_go_on() -> None:
    asked_on = votes(("hook.stop", ContinuationDecision.REQUEST), phase=DecisionPhase.STOP, hook="hook.stop")
    stopping = given(*opened(agent(hooks=(HookType.STOP,))), *answered(), done(1), asked_on)
    scenario = stopping.and_(hooks_ran(HookType.STOP, 1)).next().is_(TakeDecision(1, DecisionPhase.STOP))
    scenario.and_(decided(1, phase=DecisionPhase.STOP)).next().is_(Record((StepStarted(number=2),)))
    scenario.and_(done(1, phase=DecisionPhase.STOP)).next().is_(Record((finished(),)))


def test_an_allow_of_a_stop_hook_asks_for_nothing() -> None:
    content = votes(("hook.stop", ContinuationDecision.ALLOW), phase=DecisionPhase.STOP, hook="hook.stop")
    stopping = given(*opened(agent(hooks=(HookType.STOP,))), *answered(), done(1), content)
    stopping.and_(hooks_ran(HookType.STOP, 1)).next().is_(Record((finished(),)))


def test_a_stop_hook_cannot_turn_a_forbid_around() -> None:
    asked_on = votes(("hook.stop", ContinuationDecision.REQUEST), phase=DecisionPhase.STOP, hook="hook.stop")
    hooks = opened(agent(hooks=(HookType.STOP,)))
    stopping = given(*hooks, *answered(), forbidden(1, answered=True), asked_on)
    ending = finished(ExecutionStatus.COMPLETED, StopReason.STEPS_LIMIT, "StepsLimit")
    stopping.and_(hooks_ran(HookType.STOP, 1)).next().is_(Record((ending,)))


def test_what_the_user_said_meanwhile_reopens_a_stop_that_nobody_forbade() -> None:
    given(*opened(), *answered(), done(1), told("one more thing")).next().is_(TakeDecision(1, DecisionPhase.BOUNDARY))
    ending = finished(ExecutionStatus.COMPLETED, StopReason.STEPS_LIMIT, "StepsLimit")
    given(*opened(), *answered(), forbidden(1, answered=True), told("one more thing")).next().is_(Record((ending,)))


def test_a_stop_that_comes_after_the_decision_to_go_on_is_decided_again() -> None:
    given(*opened(), decided(0), stop_asked()).next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))


def test_the_votes_of_a_decision_are_those_since_the_one_before() -> None:
    first = votes(("A", ContinuationDecision.REQUEST))
    second = votes(("B", ContinuationDecision.STOP))
    state = given(*opened(), first, *step(), *answered()[2:], second, done(1)).state
    outcome = state.last_continuation_outcome
    assert outcome is not None
    assert [vote.criterion_class for vote in outcome.evaluations] == ["B"]
    assert state.pending_votes == ()


def test_an_open_step_has_no_decision_yet_and_the_last_one_stays() -> None:
    decided_before = given(*opened(), decided(0)).state
    in_a_step = given(*opened(), *step()).state
    assert decided_before.continuation_outcome == decided_before.last_continuation_outcome
    assert decided_before.continuation_outcome is not None
    assert in_a_step.continuation_outcome is None
    assert in_a_step.last_continuation_outcome == decided_before.last_continuation_outcome


def test_the_votes_of_criteria_stand_before_those_of_hooks() -> None:
    hooks = votes(("hook.after", ContinuationDecision.ALLOW), hook="hook.after")
    criteria = votes(("A", ContinuationDecision.REQUEST))
    state = given(*opened(), *answered(), hooks, criteria).state
    assert [vote.criterion_class for vote in state.pending_votes] == ["A", "hook.after"]


def test_a_second_input_counts_its_steps_anew_and_keeps_the_conversation() -> None:
    first = given(*opened(), *answered(), done(1), finished())
    second = start(text="and now?")
    scenario = first.when(second).then(
        started_again := structs.replace(
            opened()[1], execution_id="session:2", ordinal=2, segment=2, input=second.input
        )
    )
    assert started_again.TYPE == "execution.started.v1"
    state = scenario.state
    assert (state.step_count, state.usage.total, state.total_usage.total) == (0, 0, 15)
    assert [message.text for message in state.messages] == ["hello", "done", "and now?"]
    scenario.next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))


def test_an_input_whose_model_call_was_given_up_still_waits_for_an_answer() -> None:
    cut = given(*opened(), *step(), asked(), given_up("stop"), ended())
    failing = given(*opened(), *step(), asked(), unanswered(), ended(errors=1))
    assert PendingInput().explain(cut.state) is not None
    assert PendingInput().explain(failing.state) is None
