"""What follows from an interruption is decided once, outside of the fold, and the log says it from then on."""

from typing import get_args

import pytest

from steptrail.domain.agent.events.inference import InferenceCut
from steptrail.domain.agent.events.tools import InterruptionReason, Then
from steptrail.domain.agent.interruptions import call_interrupted, model_interrupted, restated, was_productive
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.testing.scenario import AgentScenario, given
from tests.unit.agent.story import (
    a_tool,
    agent,
    asked,
    cut_off,
    opened,
    returned,
    running,
    said,
    step,
    stop_asked,
    wants,
)


def calling(effect: ToolEffect = ToolEffect.UNSAFE, on_unknown: OnUnknown = OnUnknown.TELL) -> AgentScenario:
    """A call that runs."""
    tool = agent(a_tool("look", effect, on_unknown))
    return given(*opened(tool), *step(), asked(), wants("look"), running(effect=effect))


def follows(scenario: AgentScenario, reason: InterruptionReason) -> Then:
    execution, (call,) = scenario.state.execution, scenario.state.tool_executions
    assert execution is not None
    return call_interrupted(execution, call, reason).then


@pytest.mark.parametrize("reason", get_args(InterruptionReason))
@pytest.mark.parametrize("effect", ToolEffect)
@pytest.mark.parametrize("on_unknown", OnUnknown)
def test_effect_and_setting_decide_what_follows_where_there_is_time_for_it(
    reason: InterruptionReason, effect: ToolEffect, on_unknown: OnUnknown
) -> None:
    expected = Then(on_unknown)
    if reason in {"crash", "cancelled"} and effect is not ToolEffect.UNSAFE:
        expected = Then.RERUN
    if reason in {"stop", "deadline"}:
        expected = Then.TELL
    assert follows(calling(effect, on_unknown), reason) is expected


@pytest.mark.parametrize("reason", get_args(InterruptionReason))
@pytest.mark.parametrize("effect", ToolEffect)
@pytest.mark.parametrize("on_unknown", OnUnknown)
def test_a_run_that_is_to_stop_repeats_nothing_waits_for_nobody_and_counts_no_failure(
    reason: InterruptionReason, effect: ToolEffect, on_unknown: OnUnknown
) -> None:
    assert follows(calling(effect, on_unknown).and_(stop_asked()), reason) is Then.TELL


@pytest.mark.parametrize("before", Then)
def test_a_stop_that_comes_before_a_repeated_append_decides_anew_what_follows(before: Then) -> None:
    stopped = calling(ToolEffect.UNSAFE, OnUnknown.PARK).and_(stop_asked())
    assert restated(stopped.state, cut_off(0, before)) == cut_off(0, Then.TELL)


def test_settings_that_came_before_a_repeated_append_decide_anew_what_follows() -> None:
    told, parked = calling(ToolEffect.UNSAFE, OnUnknown.TELL), calling(ToolEffect.UNSAFE, OnUnknown.PARK)
    assert restated(told.state, cut_off(0, Then.PARK)) == cut_off(0, Then.TELL)
    assert restated(parked.state, cut_off(0, Then.TELL)) == cut_off(0, Then.PARK)


@pytest.mark.parametrize("fact", [returned(), said("done"), cut_off(7, Then.PARK)])
def test_every_other_fact_is_repeated_as_it_is(fact: object) -> None:
    stopped = calling(ToolEffect.UNSAFE, OnUnknown.PARK).and_(stop_asked())
    assert restated(stopped.state, fact) is fact  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("on_unknown", OnUnknown)
@pytest.mark.parametrize(
    ("then", "status", "has_failed", "waits"),
    [
        (Then.RERUN, "pending", False, False),
        (Then.TELL, "interrupted", False, False),
        (Then.FAIL, "interrupted", True, False),
        (Then.PARK, "interrupted", False, True),
    ],
)
def test_the_fold_goes_by_what_the_log_says_and_not_by_what_the_rule_would_say_today(
    on_unknown: OnUnknown, then: Then, status: str, has_failed: bool, waits: bool
) -> None:
    (call,) = calling(ToolEffect.UNSAFE, on_unknown).and_(cut_off(0, then)).state.tool_executions
    assert (call.status, call.has_failed, call.waits_for_a_person) == (status, has_failed, waits)


@pytest.mark.parametrize("reason", get_args(InferenceCut))
def test_a_stop_and_the_deadline_leave_no_time_for_another_model_call(reason: InferenceCut) -> None:
    assert model_interrupted(reason).is_given_up is (reason in {"stop", "deadline"})


@pytest.mark.parametrize("ended_by", SegmentEnd)
def test_a_segment_that_ended_in_good_order_or_achieved_something_is_no_sign_of_a_crash_loop(
    ended_by: SegmentEnd,
) -> None:
    idle = given(*opened(), *step(), asked()).state
    assert was_productive(idle, ended_by) is (ended_by in {"pause", "wait"})
    assert was_productive(calling().state, ended_by)
