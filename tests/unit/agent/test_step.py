"""Inside a step: the model call, then its tool calls one by one in the order of the reply."""

import pytest

from steptrail.domain.agent.effects import CallModel, Record, RunCalls, RunHooks, StartInference
from steptrail.domain.agent.events import (
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolExecutionCompleted,
)
from steptrail.domain.agent.events.inference import InterruptionReason
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.base import full_form
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.failures import ErrorType
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason
from steptrail.testing.scenario import given
from tests.unit.agent.story import (
    agent,
    asked,
    broke,
    cut_off,
    ended,
    given_up,
    hooks_ran,
    lost_reply,
    opened,
    returned,
    running,
    said,
    step,
    unanswered,
    wants,
)

CUT = "the reply was cut in the middle"


def test_the_model_is_called_once_its_start_is_recorded() -> None:
    scenario = given(*opened(), *step()).next().is_(StartInference(1, 1))
    scenario.and_(asked()).next().is_(CallModel(1))


def test_hooks_run_around_the_model_call() -> None:
    hooks = (HookType.BEFORE_INFERENCE, HookType.AFTER_INFERENCE)
    scenario = given(*opened(agent(hooks=hooks)), *step()).next().is_(RunHooks(HookType.BEFORE_INFERENCE, 1))
    scenario = scenario.and_(hooks_ran(HookType.BEFORE_INFERENCE, 1)).next().is_(StartInference(1, 1))
    scenario = scenario.and_(asked(), said("done")).next().is_(RunHooks(HookType.AFTER_INFERENCE, 1))
    scenario = scenario.and_(hooks_ran(HookType.AFTER_INFERENCE, 1))
    scenario.next(scenario.clock).is_(Record((ended(seconds=5.0),)))


def test_no_hook_looks_at_the_reply_of_a_call_that_failed() -> None:
    scenario = given(*opened(agent(hooks=(HookType.AFTER_INFERENCE,))), *step(), asked(), unanswered())
    scenario.next().is_(Record((ended(seconds=3.0, errors=1),)))


def test_an_answer_ends_the_step_with_its_duration() -> None:
    scenario = given(*opened(), *step(), asked(), said("done")).next().is_(Record((ended(seconds=3.0),)))
    assert scenario.and_(ended(seconds=3.0)).state.output == "done"


def test_several_calls_run_one_after_another_in_the_order_of_the_reply() -> None:
    scenario = given(*opened(), *step(), asked(), wants("look", "look", "look")).next().is_(RunCalls((0,)))
    scenario = scenario.and_(running(0)).next().is_(RunCalls(running=(0,)))
    scenario = scenario.and_(returned(0, "a")).next().is_(RunCalls((1,)))
    scenario = scenario.and_(running(1), broke(1)).next().is_(RunCalls((2,)))
    scenario = scenario.and_(running(2), returned(2, "c")).next().is_(Record((ended(seconds=9.0, errors=1),)))
    state = scenario.and_(ended(seconds=9.0, errors=1)).state
    assert [message.role for message in state.messages] == ["user", "assistant", "tool", "tool", "tool"]
    assert [part.text for message in state.messages[2:] for part in message.parts if part.kind == "tool_result"] == [
        "a",
        "Error in tool call: boom",
        "c",
    ]
    assert state.output is None


def test_the_transcript_follows_the_calls_also_when_results_come_in_another_order() -> None:
    started_together = (running(0), running(1), returned(1, "second"), returned(0, "first"))
    state = given(*opened(), *step(), asked(), wants("look", "look"), *started_together, ended()).state
    assert [part.text for message in state.messages[2:] for part in message.parts if part.kind == "tool_result"] == [
        "first",
        "second",
    ]


def test_hooks_run_around_each_call() -> None:
    hooks = (HookType.PRE_TOOL_USE, HookType.POST_TOOL_USE)
    scenario = given(*opened(agent(hooks=hooks)), *step(), asked(), wants("look", "look"))
    scenario = scenario.next().is_(RunHooks(HookType.PRE_TOOL_USE, 1, 0))
    scenario = scenario.and_(hooks_ran(HookType.PRE_TOOL_USE, 1, 0)).next().is_(RunCalls((0,)))
    scenario = scenario.and_(running(0), returned(0)).next().is_(RunHooks(HookType.POST_TOOL_USE, 1, 0))
    scenario = scenario.and_(hooks_ran(HookType.POST_TOOL_USE, 1, 0)).next().is_(RunHooks(HookType.PRE_TOOL_USE, 1, 1))
    scenario.and_(hooks_ran(HookType.PRE_TOOL_USE, 1, 1)).next().is_(RunCalls((1,)))


def test_a_blocked_call_is_a_failure_that_the_model_sees_and_the_others_go_on() -> None:
    hooks = (HookType.PRE_TOOL_USE, HookType.POST_TOOL_USE)
    blocked = ToolCallBlocked(position=0, reason="Tool 'look' is blocked", hook="guard")
    scenario = given(*opened(agent(hooks=hooks)), *step(), asked(), wants("look", "look"))
    scenario = scenario.and_(blocked, hooks_ran(HookType.PRE_TOOL_USE, 1, 0))
    scenario = scenario.next().is_(RunHooks(HookType.PRE_TOOL_USE, 1, 1))
    call = scenario.state.tool_executions[0]
    assert call.status is CallStatus.BLOCKED
    assert full_form(call.message().parts[0])["text"] == "Error in tool call: Tool 'look' is blocked"
    state = scenario.and_(running(1), returned(1), ended(errors=1)).state
    assert state.consecutive_failures == 1


def test_amended_arguments_are_the_ones_the_call_runs_with() -> None:
    amended = ToolCallAmended(position=0, arguments={"n": 7}, hook="guard")
    scenario = given(*opened(), *step(), asked(), wants("look"), amended)
    assert scenario.state.tool_executions[0].arguments == {"n": 7}
    scenario.next().is_(RunCalls((0,)))


def test_a_reply_cut_by_its_length_dispatches_none_of_its_calls_and_fails_the_step() -> None:
    cut = given(*opened(), *step(), asked(), wants("look", "look", finish_reason=FinishReason.LENGTH))
    cancelled = tuple(ToolCallCancelled(position=i, reason=CUT) for i in (0, 1))
    scenario = cut.next().is_(Record(cancelled)).and_(*cancelled)
    scenario = scenario.next().is_(Record((ended(seconds=5.0, errors=1),))).and_(ended(seconds=5.0, errors=1))
    last = scenario.state.current_step
    assert last is not None
    assert [failure.error.type for failure in last.errors] == [ErrorType.VALIDATION]


def test_an_answer_cut_by_its_length_is_no_failure_of_the_step() -> None:
    scenario = given(*opened(), *step(), asked(), said("and so", FinishReason.LENGTH))
    scenario.next().is_(Record((ended(seconds=3.0),)))


@pytest.mark.parametrize(
    ("finish_reason", "errors"),
    [
        (FinishReason.CONTENT_FILTER, []),
        (FinishReason.ERROR, [ErrorType.MODEL]),
        (FinishReason.PAUSED, [ErrorType.MODEL]),
    ],
)
def test_a_reply_that_is_not_whole_dispatches_none_of_its_calls_and_fails_the_step_unless_it_was_withheld(
    finish_reason: FinishReason, errors: list[ErrorType]
) -> None:
    broken = given(*opened(), *step(), asked(), wants("look", finish_reason=finish_reason))
    cancelled, end = ToolCallCancelled(position=0, reason=CUT), ended(seconds=4.0, errors=len(errors))
    state = broken.next().is_(Record((cancelled,))).and_(cancelled).next().is_(Record((end,))).and_(end).state
    assert state.current_step is not None
    assert [failure.error.type for failure in state.current_step.errors] == errors


@pytest.mark.parametrize("finish_reason", [FinishReason.CONTENT_FILTER, FinishReason.ERROR])
def test_a_call_of_such_a_reply_that_an_older_version_began_goes_on(finish_reason: FinishReason) -> None:
    begun = given(*opened(), *step(), asked(), wants("look", "look", finish_reason=finish_reason), running(0))
    begun.next().is_(RunCalls(running=(0,)))
    state = begun.and_(returned(0), running(1), returned(1), ended()).state
    assert state.current_step is not None
    assert not state.current_step.has_errors


@pytest.mark.parametrize("reason", ["stop", "deadline"])
def test_a_model_call_that_was_given_up_is_not_made_again(reason: InterruptionReason) -> None:
    given(*opened(), *step(), asked(), given_up(reason)).next().is_(Record((ended(seconds=3.0),)))


def test_a_model_call_that_was_cancelled_with_its_caller_is_made_again() -> None:
    cancelled = lost_reply("cancelled")
    given(*opened(), *step(), asked(), cancelled).next().is_(StartInference(1, 2))


def test_a_long_result_is_cut_for_the_model_and_kept_whole_in_the_log() -> None:
    limits = Limits(max_result_characters=4)
    whole = ToolExecutionCompleted(position=0, result="0123456789", shown_characters=4, duration_seconds=0.0)
    state = given(*opened(agent(limits=limits)), *step(), asked(), wants("look"), running(), whole).state
    call = state.tool_executions[0]
    assert call.result == "0123456789"
    assert call.text == "0123…[cut: 6 characters more]"


@pytest.mark.parametrize("reason", ["deadline", "stop", "cancelled"])
def test_a_call_that_has_ended_stays_as_it_ended(reason: InterruptionReason) -> None:
    late = cut_off(0, reason=reason)
    state = given(*opened(), *step(), asked(), wants("look"), running(), returned(0, "done"), late).state
    assert state.tool_executions[0].status is CallStatus.COMPLETED
