"""A call that a person must approve: asked once, answered once, by the arguments they saw."""

import pytest
from msgspec import structs

from steptrail.domain.agent.commands import Approve, Deny
from steptrail.domain.agent.effects import AskPeople, KeepWaiting, Record, RunCalls, RunHooks
from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    StopRequested,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallHeld,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.digests import digest_of
from steptrail.domain.hooks.types import HookType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import Stop
from steptrail.domain.messages import Message, ToolResultPart
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolSpec
from steptrail.testing.scenario import SECOND, AgentScenario, given
from tests.unit.agent.story import (
    agent,
    asked,
    cut_off,
    decided,
    ended,
    hooks_ran,
    opened,
    pause_asked,
    paused,
    resumed,
    returned,
    running,
    step,
    wants,
)

RULE = ApprovalRule(expires=3600, reason="moves money")
PAY = ToolSpec(name="pay", effect=ToolEffect.KEYED, approval=RULE)
LOOK = ToolSpec(name="look")
ID = "session:1:1:0"


def wanting(*tools: str, hooks: tuple[HookType, ...] = ()) -> AgentScenario:
    """The model asks for tools; `pay` needs approval, `look` does not."""
    return given(*opened(agent(PAY, LOOK, hooks=hooks)), *step(), asked(), wants(*tools))


def question(scenario: AgentScenario, position: int = 0, asked_by: str = "pay") -> tuple[AgentEvent, AgentEvent]:
    """What is recorded when a person is to be asked at the scenario's clock."""
    call = scenario.state.tool_executions[position]
    rule = call.hold.rule if call.hold is not None else RULE
    until = scenario.clock + round(rule.expires * 1e6)
    return (
        ApprovalRequested(
            approval_id=f"session:1:1:{position}",
            position=position,
            tool=call.name,
            arguments_digest=call.arguments_digest,
            expires_at=until,
            asked_by=asked_by,
            reason=rule.reason,
        ),
        WaitStarted(kind="approval", position=position, until=until),
    )


def waiting(*tools: str) -> AgentScenario:
    """A person has been asked for the first call."""
    scenario = wanting(*tools or ("pay",))
    return scenario.and_(*question(scenario))


def until_of(scenario: AgentScenario) -> int:
    """When the question of the first call expires, in microseconds."""
    asked = scenario.state.tool_executions[0].approval
    assert asked is not None
    return asked.expires_at


def approve(
    scenario: AgentScenario,
    approval_id: str = ID,
    *,
    at: int | None = None,
    arguments: dict[str, JsonValue] | None = None,
    digest: str | None = None,
    key: str | None = None,
) -> Approve:
    when = scenario.clock if at is None else at
    return Approve(approval_id=approval_id, by="ana", at=when, arguments=arguments, digest=digest, key=key)


def deny(scenario: AgentScenario, *, at: int | None = None, reason: str | None = None, key: str | None = None) -> Deny:
    return Deny(approval_id=ID, by="ben", at=scenario.clock if at is None else at, reason=reason, key=key)


def shown(message: Message) -> str:
    """What the model reads of a call."""
    (part,) = message.parts
    assert isinstance(part, ToolResultPart)
    assert part.is_error
    return part.text


GRANTED = ApprovalGranted(approval_id=ID, by="ana")
APPROVED = WaitEnded(reason="approved", by="ana")


def test_a_call_that_needs_approval_waits_for_it_before_it_starts() -> None:
    scenario = wanting("pay", "look")
    asking = question(scenario)
    scenario.next().is_(AskPeople(asking))
    waits = scenario.and_(*asking)
    assert waits.state.status is ExecutionStatus.WAITING
    assert [approval.id for approval in waits.state.open_approvals] == [ID]
    waits.next().is_(KeepWaiting("approval", until_of(waits)))


def test_an_open_approval_says_what_is_to_run_and_until_when() -> None:
    scenario = waiting()
    (asked,) = scenario.state.open_approvals
    call = scenario.state.tool_executions[0]
    assert (asked.tool, asked.arguments, asked.digest) == (call.name, call.arguments, call.arguments_digest)
    assert asked.arguments is not call.arguments
    assert f"{asked.expires_at:%Y-%m-%d %H:%M:%S %Z}" == "2026-01-01 01:00:06 UTC"


def test_a_call_that_needs_none_starts_at_once() -> None:
    wanting("look", "pay").next().is_(RunCalls((0,)))


def test_an_approved_call_runs_with_the_models_arguments() -> None:
    scenario = waiting()
    after = scenario.when(approve(scenario)).then(GRANTED, APPROVED)
    assert after.state.open_approvals == ()
    after.next().is_(RunCalls((0,)))
    assert after.state.tool_executions[0].arguments == {"n": 0}


def test_edited_arguments_replace_the_models_as_a_whole() -> None:
    scenario = waiting()
    edited = {"arguments": {"cents": 5}, "arguments_digest": digest_of({"cents": 5})}
    granted = structs.replace(GRANTED, **edited)
    after = scenario.when(approve(scenario, arguments={"cents": 5})).then(granted, APPROVED)
    call = after.state.tool_executions[0]
    assert call.arguments == {"cents": 5}
    assert call.approval is not None
    assert call.arguments_digest != call.approval.digest
    after.next().is_(RunCalls((0,)))


def test_a_denied_call_does_not_run_and_the_model_is_told_by_whom_and_why() -> None:
    scenario = waiting("pay", "look")
    denied = ApprovalDenied(approval_id=ID, by="ben", reason="too much")
    after = scenario.when(deny(scenario, reason="too much")).then(denied, WaitEnded(reason="denied", by="ben"))
    call = after.state.tool_executions[0]
    assert call.status is CallStatus.DENIED
    assert shown(call.message()) == "This call was not run: ben denied it: too much."
    after.next().is_(RunCalls((1,)))


def test_a_denial_is_no_failure_for_the_error_policy() -> None:
    scenario = waiting()
    after = scenario.when(deny(scenario)).then(
        ApprovalDenied(approval_id=ID, by="ben"), WaitEnded(reason="denied", by="ben")
    )
    recorded = after.and_(resumed(ended_by=SegmentEnd.WAIT), decided(0, phase=DecisionPhase.RESUME), ended())
    assert recorded.state.steps[-1].errors == ()
    assert shown(recorded.state.messages[-1]) == "This call was not run: ben denied it."


def test_nobodys_answer_in_time_is_a_no() -> None:
    scenario = waiting()
    until = until_of(scenario)
    expired = (ApprovalExpired(approval_id=ID), WaitEnded(reason="due"))
    scenario.next(until - 1).is_(KeepWaiting("approval", until))
    scenario.next(until).is_(Record(expired))
    call = scenario.and_(*expired).state.tool_executions[0]
    assert call.status is CallStatus.DENIED
    assert shown(call.message()) == "This call was not run: nobody approved it in time."


@pytest.mark.parametrize("late", [0, 1, 7 * 86_400 * SECOND])
def test_an_answer_after_expiry_is_refused_by_its_own_time(late: int) -> None:
    scenario = waiting()
    at = until_of(scenario) + late
    scenario.when(approve(scenario, at=at)).then_rejected("it expired at 2026-01-01 01:00:06 UTC, which is a no")
    scenario.when(deny(scenario, at=at)).then_rejected("it expired at")


def test_an_approval_is_answered_once() -> None:
    scenario = waiting()
    after = scenario.when(approve(scenario)).then(GRANTED, APPROVED)
    after.when(approve(after)).then_rejected("ana has granted it already, and an approval is answered once")
    after.when(deny(after)).then_rejected("ana has granted it already")


def test_an_answer_is_still_known_when_its_step_is_over() -> None:
    scenario = waiting()
    after = scenario.and_(GRANTED, APPROVED, resumed(), running(tool="pay"), returned(), ended())
    after.when(deny(after)).then_rejected("ana has granted it already")


def test_the_same_answer_with_the_same_key_is_accepted_once() -> None:
    scenario = waiting()
    granted = structs.replace(GRANTED, key="k")
    after = scenario.when(approve(scenario, key="k")).then(granted, APPROVED)
    after.when(approve(after, key="k")).then_nothing()


def test_the_same_denial_with_the_same_key_is_accepted_once() -> None:
    scenario = waiting()
    denied = ApprovalDenied(approval_id=ID, by="ben", key="k")
    after = scenario.when(deny(scenario, key="k")).then(denied, WaitEnded(reason="denied", by="ben"))
    after.when(deny(after, key="k")).then_nothing()


def test_an_answer_with_the_digest_of_other_arguments_is_refused() -> None:
    scenario = waiting()
    digest = scenario.state.open_approvals[0].digest
    scenario.when(approve(scenario, digest="0" * 64)).then_rejected(f"it is about the arguments {digest}, not 0000")
    scenario.when(approve(scenario, digest=digest)).then(GRANTED, APPROVED)


def test_an_unknown_approval_is_refused_with_the_open_ones() -> None:
    scenario = waiting()
    scenario.when(approve(scenario, "other")).then_rejected(f"no approval 'other'; open are: {ID}")
    bare = wanting("look")
    bare.when(approve(bare)).then_rejected("open are: none")


def test_the_digest_tells_arguments_apart_and_not_their_order() -> None:
    one, other = (wanting("pay").state.tool_executions[0] for _ in range(2))
    edited = structs.replace(one.call, arguments={"b": 1, "a": {"d": 2, "c": 3}})
    turned = structs.replace(other.call, arguments={"a": {"c": 3, "d": 2}, "b": 1})
    assert type(one)(position=0, call=edited).arguments_digest == type(one)(position=0, call=turned).arguments_digest
    assert type(one)(position=0, call=edited).arguments_digest != one.arguments_digest


def test_the_time_of_the_wait_is_nobodys_active_time() -> None:
    scenario = waiting()
    before = scenario.state.cumulative_execution_seconds
    week = scenario.clock + 7 * 86_400 * SECOND
    assert scenario.state.at(week).cumulative_execution_seconds == before


def test_a_hook_holds_a_call_that_its_tool_would_let_through() -> None:
    rule = ApprovalRule(expires=60, reason="at night")
    held = wanting("look").and_(ToolCallHeld(position=0, rule=rule, hook="Night"))
    held.next().is_(AskPeople(question(held, asked_by="Night")))


def test_hooks_run_before_a_person_is_asked_so_that_they_see_the_final_arguments() -> None:
    scenario = wanting("pay", hooks=(HookType.PRE_TOOL_USE,))
    scenario.next().is_(RunHooks(HookType.PRE_TOOL_USE, 1, 0))
    amended = scenario.and_(
        ToolCallAmended(position=0, arguments={"n": 9}, hook="h"), hooks_ran(HookType.PRE_TOOL_USE, 1, 0)
    )
    asking, _ = question(amended)
    assert isinstance(asking, ApprovalRequested)
    assert asking.arguments_digest != scenario.state.tool_executions[0].arguments_digest
    amended.next().is_(AskPeople(question(amended)))


def test_a_blocked_call_asks_nobody() -> None:
    wanting("pay", "look").and_(ToolCallBlocked(position=0, reason="no", hook="h")).next().is_(RunCalls((1,)))


def test_a_stop_during_the_wait_ends_it_and_the_call_is_cancelled() -> None:
    scenario = waiting()
    stopping = scenario.when(Stop(by="ana")).then(StopRequested(by="ana"))
    stopping.next().is_(Record((WaitEnded(reason="stop", by="ana"),)))
    over = stopping.and_(WaitEnded(reason="stop", by="ana"))
    over.next().is_(Record((ToolCallCancelled(position=0, reason="ana stopped the run"),)))
    closed = over.and_(ToolCallCancelled(position=0, reason="ana stopped the run"))
    closed.when(approve(closed)).then_rejected("its call is cancelled and needs no answer any more")


def test_an_answer_that_comes_while_the_run_is_paused_holds_when_it_goes_on() -> None:
    scenario = waiting().and_(pause_asked(), paused())
    after = scenario.when(approve(scenario)).then(GRANTED, APPROVED)
    going_on = after.and_(resumed(ended_by=SegmentEnd.PAUSE), decided(0, phase=DecisionPhase.RESUME))
    going_on.next().is_(Record((WaitEnded(reason="settled"),)))
    going_on.and_(WaitEnded(reason="settled")).next().is_(RunCalls((0,)))


def test_a_resume_without_an_answer_waits_on() -> None:
    scenario = waiting()
    again = scenario.and_(resumed(ended_by=SegmentEnd.WAIT), decided(0, phase=DecisionPhase.RESUME))
    assert again.state.phase is Phase.WAITING
    again.next().is_(KeepWaiting("approval", until_of(scenario)))


def test_an_approved_call_that_is_cut_off_runs_again_without_a_second_question() -> None:
    scenario = waiting().and_(
        GRANTED, APPROVED, resumed(ended_by=SegmentEnd.WAIT), decided(0, phase=DecisionPhase.RESUME)
    )
    cut = scenario.and_(
        running(tool="pay", effect=ToolEffect.KEYED),
        resumed(3),
        decided(0, phase=DecisionPhase.RESUME),
        cut_off(0, Then.RERUN),
    )
    cut.next().is_(RunCalls((0,)))


def test_an_approved_call_whose_outcome_is_unknown_waits_for_another_word_and_is_no_open_question() -> None:
    risky = structs.replace(PAY, effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.PARK)
    asking = given(*opened(agent(risky, LOOK)), *step(), asked(), wants("pay"))
    scenario = asking.and_(*question(asking), ApprovalGranted(approval_id=ID, by="ana"), WaitEnded(reason="approved"))
    cut = cut_off(0, Then.PARK)
    state = scenario.and_(running(0, "pay"), cut).state
    assert state.tool_executions[0].waits_for_a_person
    assert state.open_approvals == ()
