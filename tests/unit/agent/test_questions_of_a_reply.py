"""All calls of a reply that need a yes are asked about together, answered in any order, and then run in their order."""

import gc
import sys
from collections.abc import Callable
from itertools import permutations
from types import FrameType

import pytest

from steptrail.domain.agent.commands import Approve, Deny
from steptrail.domain.agent.effects import AskPeople, KeepWaiting, Record, RunCalls, RunHooks
from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallHeld,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.evolve import evolve_all
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.standing import standing, summary
from steptrail.domain.hooks.types import HookType
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolSpec
from steptrail.testing.scenario import SECOND, AgentScenario, given
from tests.unit.agent.story import (
    agent,
    asked,
    cut_off,
    decided,
    hooks_ran,
    opened,
    pause_asked,
    paused,
    resumed,
    returned,
    running,
    step,
    stop_asked,
    wants,
)

HOUR = 3600 * SECOND
PAY = ToolSpec(name="pay", effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600))
SHIP = ToolSpec(name="ship", effect=ToolEffect.KEYED, approval=ApprovalRule(expires=60))
LOOK = ToolSpec(name="look", effect=ToolEffect.READ)
NOTE = ToolSpec(name="note")
EXPIRES = {"pay": HOUR, "ship": 60 * SECOND, "note": 600 * SECOND}
BEFORE = HookType.PRE_TOOL_USE


def wanting(*tools: str, hooks: tuple[HookType, ...] = ()) -> AgentScenario:
    return given(*opened(agent(PAY, SHIP, LOOK, NOTE, hooks=hooks)), *step(), asked(), wants(*tools))


def id_of(position: int) -> str:
    return f"session:1:1:{position}"


def questions(scenario: AgentScenario, *positions: int) -> tuple[AgentEvent, ...]:
    """What is recorded when people are asked about these calls at the scenario's clock."""
    calls = [scenario.state.tool_executions[position] for position in positions]
    asks = tuple(
        ApprovalRequested(
            approval_id=id_of(call.position),
            position=call.position,
            tool=call.name,
            arguments_digest=call.arguments_digest,
            expires_at=scenario.clock + EXPIRES[call.name],
            asked_by=call.hold.asked_by if call.hold is not None else call.name,
            reason=call.hold.rule.reason if call.hold is not None else None,
        )
        for call in calls
    )
    until = max(each.expires_at for each in asks)
    return (*asks, WaitStarted(kind="approval", position=positions[0], until=until))


def waiting(*tools: str) -> AgentScenario:
    """People have been asked about all calls, at one instant."""
    scenario = wanting(*tools)
    at = scenario.clock
    for event in questions(scenario, *range(len(tools))):
        scenario = scenario.at(at, event)
    return scenario


def approve(scenario: AgentScenario, position: int, *, key: str | None = None) -> Approve:
    return Approve(approval_id=id_of(position), by="ana", at=scenario.clock, key=key)


def deny(scenario: AgentScenario, position: int) -> Deny:
    return Deny(approval_id=id_of(position), by="ben", at=scenario.clock)


def granted(position: int) -> ApprovalGranted:
    return ApprovalGranted(approval_id=id_of(position), by="ana")


def denied(position: int) -> ApprovalDenied:
    return ApprovalDenied(approval_id=id_of(position), by="ben")


def expired(position: int) -> ApprovalExpired:
    return ApprovalExpired(approval_id=id_of(position))


APPROVED, DENIED = WaitEnded(reason="approved", by="ana"), WaitEnded(reason="denied", by="ben")
GOES_ON = (resumed(ended_by=SegmentEnd.WAIT), decided(0, phase=DecisionPhase.RESUME))


def open_ones(scenario: AgentScenario) -> list[str]:
    return [each.id for each in scenario.state.open_approvals]


def test_all_calls_that_need_a_yes_are_asked_about_before_the_run_waits_once_for_the_last_to_expire() -> None:
    scenario = wanting("pay", "note", "ship", "pay")
    asks = questions(scenario, 0, 2, 3)
    scenario.next().is_(AskPeople(asks))
    waits = scenario.and_(*asks)
    assert open_ones(waits) == [id_of(0), id_of(2), id_of(3)]
    waits.next().is_(KeepWaiting("approval", scenario.clock + HOUR))


def test_the_calls_before_the_first_question_run_before_it_is_asked_and_those_after_it_keep_their_turn() -> None:
    scenario = wanting("look", "pay", "look", "pay").next().is_(RunCalls((0,)))
    scenario = scenario.and_(running(0, "look", ToolEffect.READ), returned(0))
    scenario.next().is_(AskPeople(questions(scenario, 1, 3)))


def test_the_hooks_about_all_calls_that_are_left_run_before_the_questions_so_that_what_they_hold_is_asked_too() -> None:
    scenario = wanting("pay", "note", "look", hooks=(BEFORE,)).next().is_(RunHooks(BEFORE, 1, 0))
    scenario = scenario.and_(hooks_ran(BEFORE, 1, 0)).next().is_(RunHooks(BEFORE, 1, 1))
    held = ToolCallHeld(position=1, rule=ApprovalRule(expires=600, reason="at night"), hook="Night")
    scenario = scenario.and_(held, hooks_ran(BEFORE, 1, 1)).next().is_(RunHooks(BEFORE, 1, 2))
    scenario = scenario.and_(hooks_ran(BEFORE, 1, 2))
    scenario.next().is_(AskPeople(questions(scenario, 0, 1)))


def test_without_a_question_the_hooks_about_a_call_run_when_it_is_its_turn() -> None:
    scenario = wanting("note", "note", hooks=(BEFORE,)).and_(hooks_ran(BEFORE, 1, 0)).next().is_(RunCalls((0,)))
    scenario.and_(running(0, "note"), returned(0)).next().is_(RunHooks(BEFORE, 1, 1))


def test_the_rule_of_a_hook_goes_before_that_of_the_tool() -> None:
    held = ToolCallHeld(position=0, rule=ApprovalRule(expires=3600, reason="at night"), hook="Night")
    scenario = wanting("pay").and_(held)
    scenario.next().is_(AskPeople(questions(scenario, 0)))


def test_what_has_expired_by_then_is_recorded_before_a_pause() -> None:
    scenario = waiting("pay", "ship").and_(pause_asked())
    assert isinstance(scenario.next().effects[0], Record)
    scenario.next().is_(Record((paused(),)))
    scenario.next(scenario.clock + 60 * SECOND).is_(Record((expired(1),)))


def test_what_a_hook_blocks_is_not_asked_and_what_it_amends_is_asked_as_it_will_run() -> None:
    scenario = wanting("pay", "pay", "pay", hooks=(BEFORE,)).and_(
        hooks_ran(BEFORE, 1, 0),
        ToolCallBlocked(position=1, reason="no", hook="h"),
        hooks_ran(BEFORE, 1, 1),
        ToolCallAmended(position=2, arguments={"n": 9}, hook="h"),
        hooks_ran(BEFORE, 1, 2),
    )
    scenario.next().is_(AskPeople(questions(scenario, 0, 2)))


def test_when_a_hook_has_blocked_the_only_call_with_a_question_nobody_is_asked() -> None:
    blocked = ToolCallBlocked(position=0, reason="no", hook="h")
    scenario = wanting("pay", "note", hooks=(BEFORE,)).and_(blocked, hooks_ran(BEFORE, 1, 0))
    scenario.next().is_(RunHooks(BEFORE, 1, 1))
    scenario.and_(hooks_ran(BEFORE, 1, 1)).next().is_(RunCalls((1,)))


def test_an_answer_leaves_the_run_waiting_for_the_others_and_the_last_one_ends_the_wait() -> None:
    scenario = waiting("pay", "pay", "pay")
    one = scenario.when(approve(scenario, 2)).then(granted(2))
    assert (one.state.phase, open_ones(one)) == (Phase.WAITING, [id_of(0), id_of(1)])
    one.next().is_(KeepWaiting("approval", scenario.clock - SECOND + HOUR))
    two = one.when(deny(one, 0)).then(denied(0))
    three = two.when(approve(two, 1)).then(granted(1), APPROVED)
    over = three.and_(*GOES_ON).next().is_(RunCalls((1,)))
    over = over.and_(running(1, "pay", ToolEffect.KEYED), returned(1)).next().is_(RunCalls((2,)))
    assert open_ones(over) == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_whatever_order_they_are_answered_the_calls_run_in_the_order_of_the_reply(order: tuple[int, ...]) -> None:
    scenario = waiting("pay", "pay", "pay")
    *first, last = order
    for position in first:
        scenario = scenario.when(approve(scenario, position)).then(granted(position))
    scenario = scenario.when(approve(scenario, last)).then(granted(last), APPROVED).and_(*GOES_ON)
    for position in range(3):
        scenario = scenario.next().is_(RunCalls((position,)))
        scenario = scenario.and_(running(position, "pay", ToolEffect.KEYED), returned(position))


def test_an_open_question_that_has_expired_is_a_no_and_the_wait_goes_on_for_the_others() -> None:
    scenario = waiting("ship", "pay")
    shipped_until = scenario.clock - SECOND + 60 * SECOND
    scenario.next(shipped_until - 1).is_(KeepWaiting("approval", scenario.clock - SECOND + HOUR))
    scenario.next(shipped_until).is_(Record((expired(0),)))
    late = scenario.at(shipped_until, expired(0))
    assert open_ones(late) == [id_of(1)]
    late.when(approve(late, 0)).then_rejected("it has expired already")
    late.when(approve(late, 1)).then(granted(1), APPROVED).and_(*GOES_ON).next().is_(RunCalls((1,)))


def test_when_the_last_open_question_expires_the_wait_is_over_whatever_the_others_came_to() -> None:
    scenario = waiting("pay", "ship")
    answered = scenario.when(deny(scenario, 0)).then(denied(0))
    until = scenario.clock - SECOND + 60 * SECOND
    answered.next(until - 1).is_(KeepWaiting("approval", until))
    answered.next(until).is_(Record((expired(1), WaitEnded(reason="due"))))


def test_all_that_have_expired_by_then_expire_in_one_commit() -> None:
    scenario = waiting("ship", "pay", "ship")
    scenario.next(scenario.clock + HOUR).is_(Record((expired(0), expired(1), expired(2), WaitEnded(reason="due"))))


def test_an_answer_does_not_end_the_wait_for_a_question_that_nobody_has_looked_at_since_it_expired() -> None:
    scenario = waiting("ship", "pay")
    scenario = scenario.at(scenario.clock + 60 * SECOND)
    after = scenario.when(approve(scenario, 1)).then(granted(1))
    after.and_(*GOES_ON).next().is_(Record((expired(0), WaitEnded(reason="due"))))


def test_the_same_answer_with_the_same_key_is_taken_once_while_others_are_open() -> None:
    scenario = waiting("pay", "pay")
    after = scenario.when(approve(scenario, 1, key="k")).then(ApprovalGranted(approval_id=id_of(1), by="ana", key="k"))
    after.when(approve(after, 1, key="k")).then_nothing()
    after.when(approve(after, 1)).then_rejected("ana has granted it already")
    after.when(approve(after, 7)).then_rejected(f"open are: {id_of(0)}")


def test_the_session_is_due_when_no_question_is_open_any_more_and_not_before() -> None:
    scenario = waiting("ship", "pay")
    asked_at = scenario.clock - SECOND
    assert standing(scenario.state).due_at == asked_at + HOUR
    assert [wait.id for wait in standing(scenario.state).waits] == [id_of(0), id_of(1)]
    one = scenario.and_(granted(0))
    assert (standing(one.state).state, standing(one.state).due_at) == (StandingState.RESTING, asked_at + HOUR)
    assert [wait.answered_at for wait in standing(one.state).waits] == [one.state.as_of, None]
    both = one.and_(granted(1), APPROVED)
    assert (standing(both.state).state, standing(both.state).due_at) == (StandingState.RESTING, one.clock)
    late = scenario.and_(denied(1))
    assert standing(late.state).due_at == asked_at + 60 * SECOND


def test_each_question_is_a_wait_of_its_own_in_the_row_of_the_session() -> None:
    scenario = waiting("ship", "pay")
    first, second = summary(scenario.state).waits
    assert (first.due_at, second.due_at) == tuple(each.expires_at for each in approvals(scenario))
    assert second.asked_at_version == first.asked_at_version + 1
    row = summary(scenario.and_(granted(0)).state)
    assert (row.waits_for, row.waits_until) == ("approval", second.due_at)
    assert [wait.id for wait in summary(scenario.and_(expired(0)).state).waits] == [id_of(1)]


def approvals(scenario: AgentScenario) -> list[ApprovalRequested]:
    return [each.event for each in scenario.records if isinstance(each.event, ApprovalRequested)]


def test_while_an_owner_is_at_work_an_answer_to_one_of_several_does_not_put_the_session_to_rest() -> None:
    scenario = waiting("pay", "pay").and_(resumed(ended_by=SegmentEnd.WAIT), granted(0))
    assert standing(scenario.state).state is StandingState.WORKING
    assert standing(scenario.and_(decided(0, phase=DecisionPhase.RESUME)).state).state is StandingState.RESTING


def test_a_resume_between_two_answers_waits_on_for_what_is_open() -> None:
    scenario = waiting("pay", "pay").and_(granted(1), *GOES_ON)
    scenario.next().is_(KeepWaiting("approval", approvals(scenario)[0].expires_at))
    after = scenario.when(approve(scenario, 0)).then(granted(0), APPROVED)
    assert standing(after.state).due_at == scenario.clock


def test_answers_in_a_pause_hold_and_the_run_waits_on_after_it_for_what_is_open() -> None:
    scenario = waiting("pay", "pay").and_(pause_asked(), paused())
    one = scenario.when(approve(scenario, 1)).then(granted(1))
    going_on = (resumed(ended_by=SegmentEnd.PAUSE), decided(0, phase=DecisionPhase.RESUME))
    one.and_(*going_on).next().is_(KeepWaiting("approval", approvals(one)[0].expires_at))
    both = one.when(deny(one, 0)).then(denied(0), DENIED).and_(*going_on)
    both.next().is_(Record((WaitEnded(reason="settled"),)))
    both.and_(WaitEnded(reason="settled")).next().is_(RunCalls((1,)))


def test_a_stop_cancels_what_is_open_and_what_was_approved() -> None:
    scenario = waiting("pay", "pay", "pay").and_(granted(1), denied(2), stop_asked())
    scenario.next().is_(Record((WaitEnded(reason="stop", by="ana"),)))
    reason = "ana stopped the run"
    cancelled = (ToolCallCancelled(position=0, reason=reason), ToolCallCancelled(position=1, reason=reason))
    scenario.and_(WaitEnded(reason="stop", by="ana")).next().is_(Record(cancelled))


def test_an_approved_call_of_unknown_outcome_keeps_the_next_from_running_until_somebody_has_said_what_it_did() -> None:
    risky = ToolSpec(name="pay", on_unknown=OnUnknown.PARK, approval=ApprovalRule(expires=3600))
    scenario = given(*opened(agent(risky)), *step(), asked(), wants("pay", "pay"))
    scenario = scenario.and_(*questions(scenario, 0, 1), granted(1), granted(0), APPROVED, *GOES_ON)
    cut = scenario.and_(running(0, "pay"), cut_off(0, Then.PARK))
    cut = cut.next().is_(Record((WaitStarted(kind="unknown_outcome", position=0),)))
    waits = cut.and_(WaitStarted(kind="unknown_outcome", position=0)).next().is_(KeepWaiting("unknown_outcome", None))
    assert open_ones(waits) == []
    waits.and_(returned(0), WaitEnded(reason="settled", by="ana"), *GOES_ON).next().is_(RunCalls((1,)))


def test_in_a_log_that_asked_for_one_call_after_the_other_the_second_is_asked_when_the_first_has_run() -> None:
    scenario = wanting("pay", "pay")
    only = (questions(scenario, 0)[0], WaitStarted(kind="approval", position=0, until=scenario.clock + HOUR))
    scenario = scenario.and_(*only, granted(0), APPROVED, *GOES_ON).next().is_(RunCalls((0,)))
    scenario = scenario.and_(running(0, "pay", ToolEffect.KEYED), returned(0))
    scenario.next().is_(AskPeople(questions(scenario, 1)))


def test_fifty_questions_are_one_commit_and_one_wait() -> None:
    scenario = wanting(*["pay"] * 50)
    (effect,) = scenario.next().effects
    assert isinstance(effect, AskPeople)
    assert [type(event) for event in effect.events] == [ApprovalRequested] * 50 + [WaitStarted]
    waits = scenario.and_(*effect.events)
    for position in reversed(range(1, 50)):
        waits = waits.when(approve(waits, position)).then(granted(position))
    waits.when(approve(waits, 0)).then(granted(0), APPROVED)


@pytest.mark.parametrize("answer", [granted, denied, expired])
def test_an_answer_costs_the_same_however_many_other_calls_are_asked_about(
    answer: Callable[[int], AgentEvent],
) -> None:
    asked = list[int]()

    def note(frame: FrameType, event: str, _: object) -> None:
        asked[-1] += event == "call"

    for count in (50, 100, 200):
        begun = waiting(*["pay"] * count).state
        records = [Recorded(begun.version + 1 + n, begun.as_of, answer(n)) for n in reversed(range(count))]
        asked.append(0)
        gc.disable()  # what other tests left behind calls functions of its own when it is collected
        sys.setprofile(note)
        try:
            ended = evolve_all(begun, records)
        finally:
            sys.setprofile(None)
            gc.enable()
        assert ended.open_approvals == ()
        waits = ended.execution.waits if ended.execution is not None else ()
        assert all(wait.answered_at == begun.as_of for wait in waits)
        assert len(waits) == (0 if answer is expired else count)
    assert asked[2] - asked[1] < 2.5 * (asked[1] - asked[0])
