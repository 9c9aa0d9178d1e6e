"""Conclusions are drawn from a state, an instant and judges: without a clock, a model, a tool or chance."""

import pytest
from msgspec import structs

from steptrail.domain.agent.conclude import Judges, conclude
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.deadline import Deadline
from steptrail.domain.agent.effects import CallModel, KeepWaiting, RunCalls, RunHooks, ScheduleRetry, StartInference
from steptrail.domain.agent.events import InferenceStarted, RetryScheduled, ToolCallCancelled
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.failures import ErrorType
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.run import CutBy
from steptrail.runtime.agent.agent import criteria_for
from steptrail.runtime.agent.request import Requests
from steptrail.testing.scenario import SECOND, given
from tests.unit.agent.story import agent, asked, opened, step, wants


def judges(draw: float = 0.5) -> Judges:
    return Judges(
        criteria=lambda recorded: criteria_for(recorded, ()),
        are_ours=True,
        failed=ContinuationEvaluation.from_exception,
        requests=Requests(),
        draw=lambda: draw,
    )


def of(snapshot: AgentSnapshot) -> AgentState:
    return given(*opened(snapshot), *step()).state


def test_a_delay_follows_from_the_recorded_draw_and_is_due_counted_from_the_ask() -> None:
    backoff = Backoff.linear(8.0, jitter=0.5)
    state = of(agent(policy=structs.replace(ErrorPolicy.retry_all(2), backoff=backoff)))
    due = ScheduleRetry(ErrorType.MODEL, 1, None)
    concluded = conclude(state, due, state.as_of + SECOND, judges(draw=0.25))
    assert concluded is not None
    (scheduled,) = concluded
    assert isinstance(scheduled, RetryScheduled)
    assert (scheduled.draw, scheduled.delay_seconds) == (0.25, 7.0)
    assert scheduled.due_at == state.as_of + 8 * SECOND
    assert conclude(state, due, state.as_of + SECOND, judges(draw=scheduled.draw)) == concluded


def test_a_model_call_starts_with_the_digest_of_its_request_which_is_the_same_each_time() -> None:
    state = of(agent(prompt="Be brief."))
    first, again = (conclude(state, StartInference(1, 1), state.as_of, judges()) for _ in range(2))
    assert first is not None
    assert first == again
    (started,) = first
    assert isinstance(started, InferenceStarted)
    assert (len(started.request_digest), started.message_count) == (64, 2)


def test_calls_whose_deadline_has_come_are_cancelled_and_not_started() -> None:
    state = given(*opened(), *step(), asked(), wants("look")).state
    due = RunCalls((0,), deadline=Deadline(state.as_of, CutBy.CUMULATIVE_TIMEOUT))
    cancelled = ToolCallCancelled(position=0, reason="the run's time is up", cut_by=CutBy.CUMULATIVE_TIMEOUT)
    assert conclude(state, due, state.as_of, judges()) == (cancelled,)
    assert conclude(state, due, state.as_of - 1, judges()) != (cancelled,)


@pytest.mark.parametrize(
    "effect",
    [CallModel(1), RunCalls(running=(0,)), RunHooks("before_step", 1), KeepWaiting("approval", None)],
    ids=repr,
)
def test_what_needs_the_world_comes_to_nothing_without_it(
    effect: CallModel | RunCalls | RunHooks | KeepWaiting,
) -> None:
    state = given(*opened(), *step(), asked(), wants("look")).state
    assert conclude(state, effect, state.as_of, judges()) is None
