"""A failed step that the policy wants to try again: at once, or after a wait that outlives the process."""

import pytest
from msgspec import structs

from steptrail.domain.agent.effects import KeepWaiting, Record, ScheduleRetry, StartInference, TakeDecision
from steptrail.domain.agent.events import RetryScheduled, StepStarted, WaitEnded, WaitStarted
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.machine import AGENT as AGENT_MACHINE
from steptrail.domain.agent.phases import Phase
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.inference import ModelInfo
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.testing.scenario import SECOND, START, AgentScenario, given
from tests.unit.agent.story import (
    AGENT,
    agent,
    answered,
    asked,
    decided,
    done,
    ended,
    failed,
    finished,
    forbidden,
    given_up,
    opened,
    pause_asked,
    paused,
    resume,
    resumed,
    step,
    stop_asked,
)

DUE = START + 100 * SECOND
OTHER = structs.replace(AGENT, model=ModelInfo(driver="scripted", model="b"), fingerprint="f2")
RETRY = RetryScheduled(error_type=ErrorType.MODEL, failures=1, delay_seconds=90.0, due_at=DUE, draw=0.5)
GRANTED = given(*opened(), *failed(), decided(1, retries=True))
WAITING = GRANTED.and_(RETRY, WaitStarted(kind="retry", until=DUE))


def test_a_granted_retry_is_scheduled_before_the_next_step() -> None:
    GRANTED.next().is_(ScheduleRetry(ErrorType.MODEL, 1, None))


def test_the_longest_wait_that_a_provider_asked_for_is_passed_on() -> None:
    limited = ErrorInfo(type=ErrorType.RATE_LIMIT, error_class="x:Y", message="slow down", retry_after=7.5)
    scenario = given(*opened(), *failed(error=limited), decided(1, retries=True))
    scenario.next().is_(ScheduleRetry(ErrorType.RATE_LIMIT, 1, 7.5))


def test_without_a_delay_the_next_step_starts_at_once() -> None:
    now = RetryScheduled(error_type=ErrorType.MODEL, failures=1, due_at=START, delay_seconds=0.0, draw=0.5)
    scenario = GRANTED.and_(now).next().is_(Record((StepStarted(number=2),)))
    scenario.and_(StepStarted(number=2)).next().is_(StartInference(2, 1))


def test_an_ignored_failure_is_not_a_retry() -> None:
    scenario = given(*opened(), *failed(), decided(1))
    scenario.next().is_(Record((StepStarted(number=2),)))


def test_a_second_failure_is_scheduled_anew() -> None:
    now = RetryScheduled(error_type=ErrorType.MODEL, failures=1, due_at=START, delay_seconds=0.0, draw=0.5)
    again = (StepStarted(number=2), *failed(2)[2:], decided(2, retries=True))
    GRANTED.and_(now, *again).next().is_(ScheduleRetry(ErrorType.MODEL, 2, None))


def test_with_a_delay_the_run_waits_until_it_is_due() -> None:
    assert WAITING.state.status is ExecutionStatus.WAITING
    WAITING.next(DUE - 1).is_(KeepWaiting("retry", DUE))
    scenario = WAITING.next(DUE).is_(Record((WaitEnded(reason="due"),)))
    scenario = scenario.at(DUE, WaitEnded(reason="due")).next().is_(TakeDecision(1, DecisionPhase.RESUME))
    scenario = scenario.and_(decided(1, phase=DecisionPhase.RESUME))
    assert scenario.state.phase is Phase.CONTINUING
    scenario.next().is_(Record((StepStarted(number=2),)))


@pytest.mark.parametrize("now", [None, DUE], ids=["early", "late"])
def test_a_wait_is_begun_by_the_machine_however_late_it_is_asked(now: int | None) -> None:
    GRANTED.and_(RETRY).next(now).is_(Record((WaitStarted(kind="retry", until=DUE),)))


def test_no_wait_is_begun_that_was_over_when_the_last_event_was_recorded() -> None:
    GRANTED.and_(RETRY).at(DUE, resumed()).and_(decided(1, phase=DecisionPhase.RESUME)).next().is_(
        Record((StepStarted(number=2),))
    )


def limited(timeout: float | None, *, longest_wait: float = 3600.0, shadow: bool = False) -> Limits:
    return Limits(timeout=timeout, longest_wait=longest_wait, shadow=("timeout",) if shadow else ())


@pytest.mark.parametrize(
    ("limits", "is_begun"),
    [
        (limited(300.0), True),
        (limited(50.0), False),
        (limited(None), True),
        (limited(50.0, shadow=True), True),
        (limited(50.0, longest_wait=10.0), True),
    ],
)
def test_a_wait_that_would_end_when_the_wall_time_is_over_is_not_begun(limits: Limits, is_begun: bool) -> None:
    opening = opened(agent(limits=limits))
    scheduled = given(*opening, *failed(), decided(1, retries=True), RETRY)
    begun, at_its_end = Record((WaitStarted(kind="retry", until=DUE),)), TakeDecision(1, DecisionPhase.RESUME, DUE)
    scheduled.next().is_(begun if is_begun else at_its_end)
    over = forbidden(1, "ExecutionTimeLimit", StopReason.TIME_LIMIT, phase=DecisionPhase.RESUME)
    ending = finished(ExecutionStatus.FAILED, StopReason.TIME_LIMIT, "ExecutionTimeLimit")
    scheduled.and_(over).next().is_(Record((ending,)))


def test_a_stop_while_the_guards_are_about_to_vote_after_a_wait_is_decided_by_everybody() -> None:
    over = WAITING.at(DUE, WaitEnded(reason="due")).and_(stop_asked())
    over.next().is_(TakeDecision(1, DecisionPhase.BOUNDARY))


def test_a_step_that_was_given_up_makes_up_for_no_failure() -> None:
    again = (StepStarted(number=2), asked(2), given_up(), ended(2))
    state = given(*opened(), *failed(), decided(1, retries=True), *again)
    assert state.state.consecutive_failures == 1
    over = forbidden(2, "ExecutionTimeLimit", StopReason.TIME_LIMIT)
    ending = finished(ExecutionStatus.FAILED, StopReason.TIME_LIMIT, "ExecutionTimeLimit")
    state.and_(over).next().is_(Record((ending,)))


def test_a_crash_during_the_wait_resumes_the_rest_of_it() -> None:
    back = resumed(ended_by=SegmentEnd.WAIT)
    scenario = WAITING.when(resume(last_seen=WAITING.clock)).then(back)
    scenario = scenario.next().is_(TakeDecision(1, DecisionPhase.RESUME)).and_(decided(1, phase=DecisionPhase.RESUME))
    assert scenario.state.phase is Phase.WAITING
    scenario.next(DUE - 1).is_(KeepWaiting("retry", DUE))
    scenario.next(DUE + 5).is_(Record((WaitEnded(reason="due"),)))


def test_a_wait_takes_wall_time_and_no_active_time() -> None:
    state = WAITING.state
    assert state.at(DUE).cumulative_execution_seconds == state.cumulative_execution_seconds == 1.0
    assert state.at(DUE).elapsed_seconds == (DUE - START - SECOND) / SECOND


def test_a_pause_during_the_wait_keeps_what_is_left_of_it() -> None:
    scenario = WAITING.and_(pause_asked()).next().is_(Record((paused(),))).and_(paused())
    scenario.next(DUE + 5).is_nothing()
    scenario = scenario.and_(resumed(ended_by=SegmentEnd.PAUSE), decided(1, phase=DecisionPhase.RESUME))
    scenario.next(DUE - 1).is_(KeepWaiting("retry", DUE))


def test_a_stop_during_the_wait_ends_it_at_once() -> None:
    over = WaitEnded(reason="stop", by="ana")
    scenario = WAITING.and_(stop_asked()).next().is_(Record((over,)))
    scenario.and_(over).next().is_(TakeDecision(1, DecisionPhase.BOUNDARY))


def test_a_guard_that_forbids_on_resume_ends_the_wait_with_the_execution() -> None:
    scenario = WAITING.and_(resumed(ended_by=SegmentEnd.WAIT), forbidden(1, phase=DecisionPhase.RESUME))
    scenario = scenario.and_(finished(ExecutionStatus.FAILED))
    assert scenario.state.status is ExecutionStatus.FAILED
    execution = scenario.state.execution
    assert execution is not None
    assert execution.wait is None


def test_a_success_after_a_retry_completes_and_keeps_the_total_honest() -> None:
    now = RetryScheduled(error_type=ErrorType.MODEL, failures=1, due_at=START, delay_seconds=0.0, draw=0.5)
    scenario = GRANTED.and_(now, *answered(2)[1:], done(2))
    assert scenario.state.consecutive_failures == 0
    assert scenario.state.total_failures == 1
    scenario.next().is_(Record((finished(),)))


def test_the_retry_of_one_step_is_not_that_of_the_next() -> None:
    now = RetryScheduled(error_type=ErrorType.MODEL, failures=1, due_at=START, delay_seconds=0.0, draw=0.5)
    scenario = given(*opened(AGENT), *failed(), decided(1, retries=True), now, *step(2)[1:])
    state = scenario.and_(ended(2)).state
    assert state.execution is not None
    assert state.execution.retry is None


@pytest.mark.parametrize("waiting", [GRANTED.and_(RETRY), WAITING], ids=["before the wait", "in the wait"])
@pytest.mark.parametrize("timeout", [None, 60.0])
def test_another_model_does_not_sit_out_the_wait_before_the_next_try_of_the_one_before(
    waiting: AgentScenario, timeout: float | None
) -> None:
    limits = Limits(timeout=timeout, longest_wait=3600.0)  # the owner would stay, and the time of the run be over
    (event,) = AGENT_MACHINE.decide(waiting.state, structs.replace(resume(OTHER), limits=limits))
    scenario = waiting.and_(event).next().is_(TakeDecision(1, DecisionPhase.RESUME))
    scenario = scenario.and_(decided(1, phase=DecisionPhase.RESUME))
    if waiting is WAITING:
        scenario = scenario.next().is_(Record((WaitEnded(reason="settled"),))).and_(WaitEnded(reason="settled"))
    scenario.next().is_(Record((StepStarted(number=2),)))


def test_the_same_model_sits_it_out() -> None:
    (event,) = AGENT_MACHINE.decide(WAITING.state, resume(structs.replace(AGENT, fingerprint="f2")))
    scenario = WAITING.and_(event, decided(1, phase=DecisionPhase.RESUME))
    scenario.next().is_(KeepWaiting("retry", DUE))
