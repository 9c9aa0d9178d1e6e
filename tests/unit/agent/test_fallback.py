"""The decision after a failed step says when an execution goes on with its next model, and the fold applies it."""

import pytest
from msgspec import structs

from steptrail.domain.agent.conclude import Judges, conclude
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.effects import Record, TakeDecision
from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    EvaluationsRecorded,
    ExecutionResumed,
    ModelSwitched,
    StepStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.machine import AGENT as MACHINE
from steptrail.domain.continuation.criteria.error_policy import ErrorPolicyCriterion
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.inference import ModelInfo
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.context import ErrorHandlingDecision
from steptrail.domain.policy.fallback import SWITCHING, FallbackModel, FallbackSpec
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.runtime.agent.agent import criteria_for
from steptrail.runtime.agent.request import Requests
from steptrail.testing.scenario import given
from tests.unit.agent.story import (
    agent,
    answered,
    asked,
    broke,
    decided,
    ended,
    failed,
    finished,
    forbidden,
    given_up,
    opened,
    resume,
    running,
    said,
    started,
    step,
    stop_asked,
    unanswered,
    wants,
)

LIMITED, LATE, LOST, WRONG_KEY = (
    ErrorInfo(type=kind, error_class="x:Y", message="no", retryable=retryable)
    for kind, retryable in (
        (ErrorType.RATE_LIMIT, True),
        (ErrorType.TIMEOUT, True),
        (ErrorType.MODEL, True),
        (ErrorType.MODEL, False),
    )
)
FOLLOWING = (StepStarted(number=3),)


def model(name: str) -> FallbackModel:
    return FallbackModel(model=ModelInfo(driver="scripted", model=name))


def falling_back(
    *names: str,
    after: int = 2,
    on: tuple[ErrorType, ...] = SWITCHING,
    policy: ErrorPolicy | None = None,
    limits: Limits | None = None,
) -> AgentSnapshot:
    fallback = FallbackSpec(models=tuple(map(model, names)), on=on, after=after)
    return structs.replace(agent(policy=policy, limits=limits), fallback=fallback)


AGENT = falling_back("b", "c")
SWITCH = ModelSwitched(step=2, from_model="scripted", to_model="b", error_type=ErrorType.RATE_LIMIT, failures=2)
ONCE = (*opened(AGENT), *failed(1, LIMITED))
TWICE = (*ONCE, *failed(2, LIMITED))


def decision_after(*events: AgentEvent, phase: DecisionPhase = DecisionPhase.BOUNDARY) -> tuple[AgentEvent, ...]:
    """Return what the decision after these events comes to, without the votes."""
    state = given(*events).state
    judges = Judges(
        criteria=lambda recorded: criteria_for(recorded, ()),
        are_ours=True,
        failed=ContinuationEvaluation.from_exception,
        requests=Requests(),
        draw=lambda: 0.5,
    )
    concluded = conclude(state, TakeDecision(state.step_count, phase), state.as_of, judges)
    assert concluded is not None
    return tuple(event for event in concluded if not isinstance(event, EvaluationsRecorded))


def outcome(*events: AgentEvent, phase: DecisionPhase = DecisionPhase.BOUNDARY) -> str:
    made, *more = decision_after(*events, phase=phase)
    assert isinstance(made, ContinuationEvaluated)
    match more:
        case [ModelSwitched(to_model=name)]:
            assert made.should_continue
            assert not made.retries
            return f"to {name}"
        case _:
            return "retry" if made.retries else "go on" if made.should_continue else made.stop_reason.value


def test_a_decision_to_go_on_comes_with_the_switch_when_it_is_due() -> None:
    _, switch = decision_after(*TWICE)
    assert switch == SWITCH


def test_the_failures_before_it_are_tried_again_even_if_the_policy_would_stop() -> None:
    assert outcome(*ONCE) == "retry"
    assert outcome(*opened(falling_back("b", after=1)), *failed(1, LIMITED)) == "to b"
    assert outcome(*opened(agent()), *failed(1, LIMITED)) == "error"


def test_a_switch_comes_before_the_policy_has_used_up_its_tries() -> None:
    retrying = falling_back("b", after=3, policy=ErrorPolicy.retry_all(2))
    two = (*opened(retrying), *failed(1, LIMITED), *failed(2, LATE))
    assert outcome(*two) == "retry"
    assert outcome(*two, *failed(3, LOST)) == "to b"


@pytest.mark.parametrize(
    ("errors", "comes_to"),
    [
        ((LIMITED, LATE), "to b"),
        ((LATE, LOST), "to b"),
        ((LIMITED, WRONG_KEY), "error"),
        ((WRONG_KEY, LIMITED), "retry"),
        ((WRONG_KEY,), "error"),
    ],
)
def test_only_errors_that_may_pass_count_and_only_in_a_row(errors: tuple[ErrorInfo, ...], comes_to: str) -> None:
    steps = [event for number, error in enumerate(errors, 1) for event in failed(number, error)]
    assert outcome(*opened(AGENT), *steps) == comes_to


def test_only_the_types_that_the_agent_names_count() -> None:
    some = opened(falling_back("b", after=1, on=(ErrorType.RATE_LIMIT,)))
    assert outcome(*some, *failed(1, LIMITED)) == "to b"
    assert outcome(*some, *failed(1, LOST)) == "error"


def test_a_tool_that_meets_a_rate_limit_leads_to_no_other_model() -> None:
    steps = (*step(), asked(), wants("look"), running(), broke(error=LIMITED), ended(errors=1))
    assert outcome(*opened(falling_back("b", after=1)), *steps) == "error"


def test_a_reply_between_two_failures_has_them_counted_anew_and_a_call_that_was_given_up_does_not() -> None:
    cut = (*step(2), asked(2), given_up(), ended(2))
    assert outcome(*ONCE, *cut, *failed(3, LIMITED)) == "to b"
    assert outcome(*ONCE, *answered(2), *failed(3, LIMITED)) == "retry"


def test_with_the_last_model_the_policy_decides() -> None:
    second = (*TWICE, decided(2), SWITCH, StepStarted(number=3), asked(3), unanswered(LATE), ended(3, errors=1))
    assert outcome(*second) == "retry"
    third = (*second, *failed(4, LATE))
    assert outcome(*third) == "to c"
    to_c = ModelSwitched(step=4, from_model="b", to_model="c", error_type=ErrorType.TIMEOUT, failures=2)
    last = (*third, decided(4), to_c, StepStarted(number=5), asked(5), unanswered(LATE), ended(5, errors=1))
    assert outcome(*last) == "error"


@pytest.mark.parametrize(("asks_for", "comes_to"), [(20.0, "retry"), (299.0, "to b"), (7200.0, "to b")])
def test_a_wait_that_the_run_does_not_sit_out_leads_to_the_next_model_at_once(asks_for: float, comes_to: str) -> None:
    agent = falling_back("b", after=3, limits=Limits(timeout=300.0, longest_wait=3600.0))
    assert outcome(*opened(agent), *failed(1, structs.replace(LIMITED, retry_after=asks_for))) == comes_to


@pytest.mark.parametrize(("base", "comes_to"), [(20.0, "retry"), (299.0, "to b"), (7200.0, "to b")])
def test_a_backoff_that_the_run_does_not_sit_out_leads_to_the_next_model_at_once(base: float, comes_to: str) -> None:
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(base, jitter=0.5))
    agent = falling_back("b", after=3, policy=policy, limits=Limits(timeout=300.0, longest_wait=3600.0))
    assert outcome(*opened(agent), *failed(1, LIMITED)) == comes_to


@pytest.mark.parametrize(("base", "comes_to"), [(20.0, "retry"), (160.0, "to b")])
def test_the_backoff_is_that_of_the_failures_so_far(base: float, comes_to: str) -> None:
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(base, max_seconds=3600.0))
    agent = falling_back("b", after=3, policy=policy, limits=Limits(timeout=300.0, longest_wait=3600.0))
    assert outcome(*opened(agent), *failed(1, LIMITED)) == "retry"
    assert outcome(*opened(agent), *failed(1, LIMITED), *failed(2, LIMITED)) == comes_to


def test_the_backoff_counts_for_no_failure_that_the_policy_ignores() -> None:
    def over(base: float) -> AgentSnapshot:
        policy = ErrorPolicy.retry_all(3).with_timeout_error_handling(ErrorHandlingDecision.IGNORE)
        policy = policy.with_backoff(Backoff.linear(base, max_seconds=3600.0))
        return falling_back("b", after=3, policy=policy, limits=Limits(timeout=300.0, longest_wait=3600.0))

    assert outcome(*opened(over(400.0)), *failed(1, LATE)) == "go on"
    assert outcome(*opened(over(160.0)), *failed(1, LATE), *failed(2, LIMITED)) == "retry"


def test_a_limit_and_a_stop_come_before_a_switch() -> None:
    few = falling_back("b", limits=Limits(max_steps=2))
    assert outcome(*opened(few), *failed(1, LIMITED), *failed(2, LIMITED)) == "steps_limit"
    assert outcome(*TWICE, stop_asked()) == "user_requested"


def test_guards_on_a_resume_switch_nothing() -> None:
    assert outcome(*TWICE, phase=DecisionPhase.RESUME) == "go on"


def test_after_a_switch_the_next_step_starts_at_once_and_asks_the_next_model() -> None:
    scenario = given(*TWICE, decided(2), SWITCH)
    scenario.next().is_(Record(FOLLOWING))
    assert scenario.state.agent is not None
    assert scenario.state.agent.model == model("b").model
    assert scenario.state.agent.fallback is not None
    assert scenario.state.agent.fallback.models == (model("c"),)
    assert scenario.state.consecutive_failures == 0
    assert scenario.state.total_failures == 2
    assert scenario.state.model_name == "b"


def test_a_limit_on_the_cost_sees_the_model_that_the_next_step_asks() -> None:
    assert given(*ONCE).state.model_name == "scripted"
    assert given(*TWICE).state.model_name == "b"


def test_a_run_that_is_stopped_right_after_a_switch_has_failed() -> None:
    scenario = given(*TWICE, decided(2), SWITCH, stop_asked())
    scenario = scenario.and_(forbidden(2, "UserStop", StopReason.USER_REQUESTED))
    failed_run = finished(ExecutionStatus.FAILED, StopReason.USER_REQUESTED, "UserStop")
    scenario.next().is_(Record((failed_run,)))


def test_a_new_execution_begins_with_the_first_model() -> None:
    over = (*TWICE, decided(2), SWITCH, StepStarted(number=3), asked(3), said("done"), ended(3))
    done = (*over, forbidden(3), finished())
    scenario = given(*done, started(AGENT, ordinal=2, text="and now?"))
    assert scenario.state.model_name == "scripted"


def resumed_with(snapshot: AgentSnapshot) -> tuple[ExecutionResumed, str | None]:
    scenario = given(*TWICE, decided(2), SWITCH)
    (event,) = MACHINE.decide(scenario.state, resume(structs.replace(snapshot, fingerprint="f2")))
    assert isinstance(event, ExecutionResumed)
    return event, scenario.and_(event).state.model_name


def test_an_agent_that_has_changed_goes_on_with_the_model_that_the_run_has_come_to() -> None:
    event, name = resumed_with(falling_back("new", "b", "c"))
    assert (event.switched, event.changes, name) == (2, (), "b")
    event, name = resumed_with(falling_back("b"))
    assert (event.switched, event.changes, name) == (1, ("fallback",), "b")


def test_of_two_models_of_one_name_a_resume_goes_on_with_the_one_that_the_run_has_come_to() -> None:
    regions = falling_back("scripted", "c")
    switch = structs.replace(SWITCH, to_model="scripted")
    scenario = given(*opened(regions), *failed(1, LIMITED), *failed(2, LIMITED), decided(2), switch)
    for changed, place in ((regions, 1), (falling_back("c"), 0), (falling_back("c", "scripted"), 0)):
        (event,) = MACHINE.decide(scenario.state, resume(structs.replace(changed, fingerprint="f2")))
        assert isinstance(event, ExecutionResumed)
        assert event.switched == place


def test_an_agent_without_that_model_begins_with_its_first_one_and_the_event_says_so() -> None:
    event, name = resumed_with(falling_back("c"))
    assert (event.switched, event.changes, name) == (0, ("model",), "scripted")
    event, name = resumed_with(agent())
    assert (event.switched, event.changes, name) == (0, ("model", "fallback"), "scripted")


def test_the_same_agent_changes_nothing_on_a_resume() -> None:
    scenario = given(*TWICE, decided(2), SWITCH)
    (event,) = MACHINE.decide(scenario.state, resume(AGENT))
    assert isinstance(event, ExecutionResumed)
    assert (event.agent, event.switched) == (None, 0)
    assert scenario.and_(event).state.model_name == "b"


def test_another_model_after_a_crash_is_not_blamed_for_the_failures_of_the_one_before() -> None:
    other = structs.replace(falling_back("e"), model=ModelInfo(driver="scripted", model="d"), fingerprint="f2")
    (event,) = MACHINE.decide(given(*TWICE).state, resume(other))
    assert outcome(*TWICE, event) == "go on"
    scenario = given(*ONCE, decided(1, retries=True))
    (event,) = MACHINE.decide(scenario.state, resume(other))
    scenario = scenario.and_(event, decided(1, phase=DecisionPhase.RESUME))
    scenario.next().is_(Record((StepStarted(number=2),)))


@pytest.mark.parametrize("changed", [falling_back("e"), agent()])
def test_another_model_changes_nothing_about_a_failure_of_a_tool_but_is_not_blamed_for_one_of_the_model(
    changed: AgentSnapshot,
) -> None:
    other = structs.replace(changed, model=ModelInfo(driver="scripted", model="d"), fingerprint="f2")
    broken = (*opened(AGENT), *step(), asked(), wants("look"), running(), broke(), ended(errors=1))
    for events, comes_to in ((broken, "error"), (ONCE, "go on"), (TWICE, "go on")):
        (event,) = MACHINE.decide(given(*events).state, resume(other))
        assert outcome(*events, event) == comes_to


def test_the_vote_says_how_far_the_next_model_is() -> None:
    criterion = ErrorPolicyCriterion(AGENT.error_policy, fallback=AGENT.fallback)
    assert criterion.explain(given(*ONCE).state).reason == "Rate_limit error, 1/2 before model b is asked"
