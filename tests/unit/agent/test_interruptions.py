"""What follows from an interruption is decided once, outside of the fold, and the log says it from then on."""

import pytest
from msgspec import structs

from steptrail.domain.agent.deadline import Deadline
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.interruptions import Cut, call_interrupted, model_interrupted, restated, was_productive
from steptrail.domain.shared.run import CutBy, SegmentEnd
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.testing.scenario import START, AgentScenario, given
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


RUN_IS_OVER: list[Cut | Deadline] = [
    "stop",
    Deadline(START, CutBy.TIMEOUT),
    Deadline(START, CutBy.CUMULATIVE_TIMEOUT),
]
CALL_IS_OVER: list[Cut | Deadline] = ["crash", "cancelled", Deadline(START, CutBy.TOOL_TIMEOUT)]


def follows(scenario: AgentScenario, by: Cut | Deadline) -> Then:
    execution, (call,) = scenario.state.execution, scenario.state.tool_executions
    assert execution is not None
    return call_interrupted(execution, call, by).then


@pytest.mark.parametrize("by", RUN_IS_OVER + CALL_IS_OVER)
@pytest.mark.parametrize("effect", ToolEffect)
@pytest.mark.parametrize("on_unknown", OnUnknown)
def test_effect_and_setting_decide_what_follows_where_there_is_time_for_it(
    by: Cut | Deadline, effect: ToolEffect, on_unknown: OnUnknown
) -> None:
    expected = Then(on_unknown)
    if by in {"crash", "cancelled"} and effect is not ToolEffect.UNSAFE:
        expected = Then.RERUN
    if by in RUN_IS_OVER:
        expected = Then.TELL
    assert follows(calling(effect, on_unknown), by) is expected


@pytest.mark.parametrize("by", RUN_IS_OVER + CALL_IS_OVER)
@pytest.mark.parametrize("effect", ToolEffect)
@pytest.mark.parametrize("on_unknown", OnUnknown)
def test_a_run_that_is_to_stop_repeats_nothing_waits_for_nobody_and_counts_no_failure(
    by: Cut | Deadline, effect: ToolEffect, on_unknown: OnUnknown
) -> None:
    assert follows(calling(effect, on_unknown).and_(stop_asked()), by) is Then.TELL


@pytest.mark.parametrize("by", RUN_IS_OVER + CALL_IS_OVER)
def test_what_a_deadline_cut_says_whose_it_was_and_only_that_of_the_run_says_when_it_came(by: Cut | Deadline) -> None:
    execution, (call,) = calling().state.execution, calling().state.tool_executions
    assert execution is not None
    cut = call_interrupted(execution, call, by)
    if not isinstance(by, Deadline):
        assert (cut.reason, cut.cut_by, cut.deadline) == (by, None, None)
    else:
        at = START if by in RUN_IS_OVER else None
        assert (cut.reason, cut.cut_by, cut.deadline) == ("deadline", by.cut_by, at)


@pytest.mark.parametrize("cut_by", CutBy)
def test_what_follows_is_decided_anew_by_the_same_deadline(cut_by: CutBy) -> None:
    cut = cut_off(0, Then.PARK, "deadline", cut_by)
    expected = Then.FAIL if cut_by is CutBy.TOOL_TIMEOUT else Then.TELL
    again = restated(calling(ToolEffect.UNSAFE, OnUnknown.FAIL).state, cut)
    assert again == structs.replace(cut, then=expected)


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


@pytest.mark.parametrize("by", [*RUN_IS_OVER, "crash", "cancelled"])
def test_a_stop_and_the_deadline_leave_no_time_for_another_model_call(by: Cut | Deadline) -> None:
    assert model_interrupted(by).is_given_up is (by in RUN_IS_OVER)


@pytest.mark.parametrize("ended_by", SegmentEnd)
def test_a_segment_that_ended_in_good_order_or_achieved_something_is_no_sign_of_a_crash_loop(
    ended_by: SegmentEnd,
) -> None:
    idle = given(*opened(), *step(), asked()).state
    assert was_productive(idle, ended_by) is (ended_by in {"pause", "wait", "start"})
    assert was_productive(calling().state, ended_by)
