"""A cut ends at its deadline: the run's clocks are put forward to it, so that no time is left for one thing more."""

from typing import NamedTuple

import pytest

from steptrail.domain.agent.deadline import Deadline, deadline_of
from steptrail.domain.agent.effects import Record
from steptrail.domain.agent.events import InferenceInterrupted, ToolExecutionFailed
from steptrail.domain.agent.interruptions import model_interrupted
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.waiting import outlasts_the_run
from steptrail.domain.continuation.limits import CumulativeExecutionTimeLimit, ExecutionTimeLimit, Limits
from steptrail.domain.shared.run import CutBy, SegmentEnd
from steptrail.testing.scenario import SECOND, START, AgentScenario, given
from tests.unit.agent.story import (
    BOOM,
    agent,
    asked,
    cut_off,
    ended,
    opened,
    pause_asked,
    paused,
    resume,
    resumed,
    running,
    step,
    wants,
)


class Clocks(NamedTuple):
    wall: float
    active: float


def clocks(state: AgentState) -> Clocks:
    return Clocks(state.elapsed_seconds, state.cumulative_execution_seconds)


def deadline(scenario: AgentScenario, now: int) -> Deadline | None:
    fold = scenario.state.fold
    assert fold.execution is not None
    return deadline_of(fold.execution, fold.step, now)


def asking(timeout: float | None = 60, cumulative: float | None = None) -> AgentScenario:
    """A run that began at START + 1 s, and its step a little later, has asked the model."""
    limits = Limits(timeout=timeout, cumulative_timeout=cumulative)
    return given(*opened(agent(limits=limits)), *step(), asked())


DUE = START + 61 * SECOND
"""The deadline of a run with 60 seconds of wall time."""
SOON = DUE - 20_000
"""An instant at which a driver that keeps the deadline itself may well wake up."""


def cut_model(at: int = DUE) -> InferenceInterrupted:
    return model_interrupted(Deadline(at, CutBy.TIMEOUT))


def test_the_run_stands_at_the_deadline_that_has_cut_its_model_call() -> None:
    before, after = asking().at(SOON), asking().at(SOON, cut_model())
    began = before.state.fold.step
    assert began is not None
    assert clocks(before.state.at(SOON)).wall == pytest.approx(59.98)
    assert clocks(after.state.at(SOON)) == (60.0, (DUE - began.started_at) / 1e6)
    assert deadline(after, SOON) == Deadline(SOON, CutBy.TIMEOUT)


def test_it_stands_there_until_the_deadline_is_over_and_goes_on_then() -> None:
    state = asking().at(SOON, cut_model()).state
    assert clocks(state.at(DUE)) == clocks(state.at(SOON))
    assert clocks(state.at(DUE + SECOND)).wall == 61.0
    assert clocks(state.at(DUE + SECOND)) == clocks(asking().state.at(DUE + SECOND))


@pytest.mark.parametrize("late", [0, 1, SECOND])
def test_a_cut_that_is_recorded_after_its_deadline_changes_no_clock(late: int) -> None:
    state = asking().at(DUE + late, cut_model()).state
    assert clocks(state.at(DUE + late)) == clocks(asking().state.at(DUE + late))


def test_a_second_cut_by_the_same_deadline_counts_nothing_twice() -> None:
    calling = asking().and_(wants("look", "look"), running(0), running(1))
    cuts = [cut_off(i, reason="deadline", cut_by=CutBy.TIMEOUT, deadline=DUE) for i in (0, 1)]
    once, twice = calling.at(SOON, cuts[0]), calling.at(SOON, cuts[0]).at(SOON + 5_000, cuts[1])
    assert clocks(once.state.at(SOON)).wall == 60.0
    assert clocks(twice.state.at(SOON + 5_000)) == clocks(once.state.at(SOON))
    earlier = cut_off(1, reason="deadline", cut_by=CutBy.TIMEOUT, deadline=DUE - 1)
    thrice = calling.at(SOON, cuts[0], earlier).state
    assert [clocks(thrice.at(now)) for now in (SOON, DUE, DUE + 1)] == [
        clocks(once.state.at(now)) for now in (SOON, DUE, DUE + 1)
    ]


def test_both_limits_on_time_are_reached_by_the_clocks_that_a_cut_has_put_forward() -> None:
    state = asking(60, 59.5).at(SOON, cut_model()).state.at(SOON)
    assert ExecutionTimeLimit(60).explain(state).decision == "forbid"
    began = state.fold.step
    assert began is not None
    active = (DUE - began.started_at) / 1e6
    assert CumulativeExecutionTimeLimit(active).explain(state).decision == "forbid"
    assert CumulativeExecutionTimeLimit(active + 1e-6).explain(state).decision == "allow"


def test_a_step_says_in_its_duration_that_its_call_was_cut_at_the_deadline() -> None:
    scenario = asking().at(SOON, cut_model())
    began = scenario.state.fold.step
    assert began is not None
    seconds = (DUE - began.started_at) / 1e6
    scenario.next(SOON).is_(Record((ended(seconds=seconds),)))
    assert scenario.at(SOON, ended(seconds=seconds)).state.cumulative_execution_seconds == seconds


@pytest.mark.parametrize(
    "event",
    [
        cut_off(0, reason="deadline", cut_by=CutBy.TOOL_TIMEOUT),
        ToolExecutionFailed(position=0, error=BOOM, duration_seconds=1.0, cut_by=CutBy.TOOL_TIMEOUT),
    ],
    ids=["unknown", "failed"],
)
def test_a_call_that_its_own_timeout_cut_leaves_the_clocks_of_the_run_alone(event: ToolExecutionFailed) -> None:
    calling = asking().and_(wants("look"), running(0))
    assert clocks(calling.at(SOON, event).state.at(SOON)) == clocks(calling.state.at(SOON))


def test_a_cut_of_a_call_that_has_ended_changes_no_clock() -> None:
    calling = asking().and_(wants("look"), running(0)).at(SOON - 1, cut_off(0))
    cut = cut_off(0, reason="deadline", cut_by=CutBy.TIMEOUT, deadline=DUE)
    assert clocks(calling.at(SOON, cut).state.at(SOON)) == clocks(calling.state.at(SOON))


def test_what_was_counted_stays_counted_over_a_pause_and_the_wall_clock_begins_anew() -> None:
    cut = asking().at(SOON, cut_model(), pause_asked())
    active = clocks(cut.state.at(SOON)).active
    (pausing,) = cut.next(SOON).effects
    assert isinstance(pausing, Record)
    assert clocks(cut.at(SOON, *pausing.events).state.at(SOON)).active == active
    again = cut.at(SOON, *pausing.events, resumed(ended_by=SegmentEnd.PAUSE))
    began = again.clock - SECOND
    assert clocks(again.state.at(began)) == (0.0, active)
    assert deadline(again, began) == Deadline(began + 60 * SECOND, CutBy.TIMEOUT)


def test_what_was_counted_stays_counted_over_a_crash() -> None:
    cut = asking(None, 60).at(SOON, cut_model())
    active = clocks(cut.state.at(SOON)).active
    crashed = resume(cut.state.agent or agent(), last_seen=SOON, ended_by=SegmentEnd.CRASH)
    (again,) = AGENT.decide(cut.state, crashed)
    assert clocks(cut.at(SOON + 1, again).state.at(SOON + 1)).active == active


def test_the_clock_of_a_run_at_rest_is_not_put_forward() -> None:
    state = asking().and_(pause_asked(), paused(3.0)).at(SOON, cut_model()).state
    assert clocks(state.at(SOON)).active == 3.0


@pytest.mark.parametrize("ahead", [1, 10_000])
def test_a_wait_that_would_end_before_that_deadline_outlasts_the_run_all_the_same(ahead: int) -> None:
    calling = asking().and_(wants("look"), running(0))
    cut = calling.at(SOON, cut_off(0, reason="deadline", cut_by=CutBy.TIMEOUT, deadline=DUE))
    for scenario, outlasts in [(calling, False), (cut, True)]:
        execution = scenario.state.execution
        assert execution is not None
        assert outlasts_the_run(execution, SOON + ahead, SOON) is outlasts


@pytest.mark.parametrize(("timeout", "cumulative"), [(0.1234564, None), (None, 0.1234564), (0.23500000000000001, None)])
def test_at_its_deadline_a_limit_is_reached_also_when_it_is_no_whole_number_of_microseconds(
    timeout: float | None, cumulative: float | None
) -> None:
    scenario = asking(timeout, cumulative)
    due = deadline(scenario, scenario.clock)
    assert due is not None
    limit = ExecutionTimeLimit(timeout) if timeout is not None else CumulativeExecutionTimeLimit(cumulative or 0.0)
    assert limit.explain(scenario.state.at(due.at)).decision == "forbid"
    assert limit.explain(scenario.state.at(due.at - 1)).decision == "allow"


@pytest.mark.parametrize(
    ("timeout", "cumulative", "cut_by"),
    [(5, 100, CutBy.TIMEOUT), (100, 5, CutBy.CUMULATIVE_TIMEOUT), (None, None, None)],
)
def test_a_deadline_says_which_limit_is_reached_first(
    timeout: float | None, cumulative: float | None, cut_by: CutBy | None
) -> None:
    scenario = asking(timeout, cumulative)
    due = deadline(scenario, scenario.clock)
    assert (due and due.cut_by) == cut_by
