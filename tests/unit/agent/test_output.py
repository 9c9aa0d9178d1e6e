"""An answer in a type: what is due after a reply that holds one, and what the verdict makes of the session."""

import pytest
from msgspec import structs

from steptrail.domain.agent.answer_to_judge import BROKEN_VALIDATOR
from steptrail.domain.agent.deciding import decided as decision_of
from steptrail.domain.agent.effects import AskPeople, Effect, JudgeAnswer, Record, RunCalls, TakeDecision
from steptrail.domain.agent.events import (
    AgentEvent,
    AnswerAccepted,
    ApprovalRequested,
    ContinuationEvaluated,
    EvaluationsRecorded,
    HooksRan,
    StepCompleted,
    ToolCallCancelled,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.continuation.criteria.output import OutputAccepted
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason
from steptrail.domain.messages import MessageRole, ToolResultPart
from steptrail.domain.output import OutputMode, OutputVerdict
from steptrail.domain.tools import ApprovalRule, ToolEffect, ToolSpec
from steptrail.testing.scenario import AgentScenario, given
from tests.unit.agent.story import (
    agent,
    asked,
    broke,
    decided,
    ended,
    hooks_ran,
    opened,
    pause_asked,
    rejected,
    resumed,
    returned,
    running,
    said,
    step,
    stop_asked,
    told,
    typed,
    wants,
)

ANSWER = '{"n": 1}'
ACCEPTED = AnswerAccepted(step=1)
NOT_TAKEN = "not all the other calls of the same reply have succeeded"


def answering(
    mode: OutputMode, reply: AgentEvent, *events: AgentEvent, hooks: tuple[HookType, ...] = ()
) -> AgentScenario:
    """A first step that was asked for the answer, and its reply."""
    who = agent(output=typed(mode), hooks=hooks)
    return given(*opened(who), *step(), asked(output_mode=mode), reply, *events)


def first_due(scenario: AgentScenario) -> Effect | type[AgentEvent]:
    (effect,) = scenario.next().effects
    return type(effect.events[0]) if isinstance(effect, Record | AskPeople) else effect


@pytest.mark.parametrize("mode", [OutputMode.NATIVE, OutputMode.PROMPTED, OutputMode.LAST])
def test_a_text_is_judged_before_its_step_ends(mode: OutputMode) -> None:
    scenario = answering(mode, said(ANSWER))
    scenario.next().is_(JudgeAnswer(1))
    assert first_due(scenario.and_(ACCEPTED)) is StepCompleted
    assert first_due(scenario.and_(rejected())) is StepCompleted


def test_an_agent_that_answers_in_text_is_judged_by_nobody() -> None:
    assert first_due(given(*opened(), *step(), asked(), said(ANSWER))) is StepCompleted


@pytest.mark.parametrize(
    "finish_reason", [FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.PAUSED, FinishReason.ERROR]
)
def test_a_reply_that_is_not_whole_is_not_judged(finish_reason: FinishReason) -> None:
    assert first_due(answering(OutputMode.NATIVE, said('{"n":', finish_reason))) is StepCompleted
    in_a_call = answering(OutputMode.TOOL, wants("final_result", finish_reason=finish_reason))
    assert first_due(in_a_call) is ToolCallCancelled
    after = in_a_call.and_(ToolCallCancelled(position=0, reason="cut"), ended(1)).state
    assert after.current_step is not None
    assert (after.current_step.errors, after.current_step.output_verdict) == ((), OutputVerdict.UNJUDGED)


def test_a_reply_that_asks_for_tools_is_no_answer_yet() -> None:
    scenario = answering(OutputMode.NATIVE, wants("look", text=ANSWER), running(), returned())
    assert first_due(scenario) is StepCompleted


def test_an_answer_in_a_call_is_judged_after_the_calls_beside_it() -> None:
    scenario = answering(OutputMode.TOOL, wants("final_result", "look"))
    scenario.next().is_(RunCalls((1,)))
    scenario.and_(running(1), returned(1)).next().is_(JudgeAnswer(1))


def test_calls_on_both_sides_of_an_answer_run_at_the_same_time() -> None:
    look = ToolSpec(name="look", effect=ToolEffect.READ)
    who = agent(look, output=typed(), hooks=(HookType.PRE_TOOL_USE,))
    reply = wants("look", "final_result", "look")
    scenario = given(*opened(who), *step(), asked(output_mode=OutputMode.TOOL), reply)
    ran = scenario.and_(hooks_ran(HookType.PRE_TOOL_USE, 1, 0), hooks_ran(HookType.PRE_TOOL_USE, 1, 2))
    ran.next().is_(RunCalls((0, 2)))


def test_a_question_about_another_call_brings_no_hook_to_the_answer() -> None:
    pay = ToolSpec(name="pay", approval=ApprovalRule())
    who = agent(pay, output=typed(), hooks=(HookType.PRE_TOOL_USE,))
    reply = wants("pay", "final_result")
    scenario = given(*opened(who), *step(), asked(output_mode=OutputMode.TOOL), reply)
    assert first_due(scenario.and_(hooks_ran(HookType.PRE_TOOL_USE, 1, 0))) is ApprovalRequested


def test_an_answer_beside_a_call_that_did_not_succeed_is_not_taken() -> None:
    scenario = answering(OutputMode.TOOL, wants("look", "final_result"), running(), broke())
    not_taken = ToolCallCancelled(position=1, reason=NOT_TAKEN)
    scenario.next().is_(Record((not_taken,)))
    after = scenario.and_(not_taken, ended(1, errors=1)).state
    results = [part for message in after.messages for part in message.parts if isinstance(part, ToolResultPart)]
    assert [part.is_error for part in results] == [True, True]
    assert after.output_json is None


def test_of_several_answers_the_one_that_was_judged_is_taken_and_the_others_end() -> None:
    scenario = answering(OutputMode.TOOL, wants("final_result", "final_result"), AnswerAccepted(step=1, position=1))
    other = ToolCallCancelled(position=0, reason="another answer of the same reply was judged")
    scenario.next().is_(Record((other,)))
    after = scenario.and_(other, ended(1)).state
    assert after.output_json == {"n": 1}
    assert [message.role for message in after.messages] == ["user", "assistant", "tool", "tool"]


def test_a_call_that_holds_the_answer_is_no_call_of_a_tool() -> None:
    after = answering(OutputMode.TOOL, wants("final_result"), AnswerAccepted(step=1, position=0), ended(1)).state
    step_of_it = after.current_step
    assert step_of_it is not None
    assert (step_of_it.has_tool_calls, after.tool_call_count, step_of_it.has_errors) == (False, 0, False)
    assert step_of_it.tool_executions[0].effect_id is None


def test_the_same_name_in_another_mode_is_a_call_of_a_tool() -> None:
    assert first_due(answering(OutputMode.NATIVE, wants("final_result"))) == RunCalls((0,))


def test_a_rejected_text_is_told_in_a_message_that_is_not_the_users() -> None:
    after = answering(OutputMode.NATIVE, said(ANSWER), rejected(), ended(1)).state
    problem = "<output_problem>n: no number</output_problem> Give the whole answer again."
    assert (after.messages[-1].role, after.messages[-1].text) == (MessageRole.USER, problem)
    assert after.message_origins[-1].output
    assert not after.has_unanswered_input
    assert (after.output_rejections, after.output_json, after.output) == (1, None, None)


def test_a_rejected_call_is_told_in_its_result() -> None:
    after = answering(OutputMode.TOOL, wants("final_result"), rejected(position=0), ended(1)).state
    (part,) = after.messages[-1].parts
    assert isinstance(part, ToolResultPart)
    assert part.is_error
    assert part.text.startswith("<output_problem>n: no number")


def test_rejections_are_counted_until_an_answer_is_accepted_and_anew_in_each_execution() -> None:
    scenario = answering(OutputMode.NATIVE, said("no"), rejected(), ended(1), decided_to_go_on(1))
    again = scenario.and_(*step(2), asked(2, output_mode=OutputMode.NATIVE), said("no"), rejected(2), ended(2))
    assert again.state.output_rejections == 2
    third = (*step(3), asked(3, output_mode=OutputMode.NATIVE), said(ANSWER), AnswerAccepted(step=3), ended(3))
    assert again.and_(decided_to_go_on(2), *third).state.output_rejections == 0


def decided_to_go_on(number: int) -> ContinuationEvaluated:
    return ContinuationEvaluated(step=number, decision=ContinuationDecision.REQUEST, resolved_by="OutputAccepted")


def test_what_the_verdict_says_is_the_answer() -> None:
    kept = answering(OutputMode.NATIVE, said(f"```json\n{ANSWER}\n```"), ACCEPTED, ended(1)).state
    assert (kept.output_json, kept.output) == ({"n": 1}, '{"n":1}')
    changed = AnswerAccepted(step=1, is_changed=True, value=None)
    assert answering(OutputMode.NATIVE, said(ANSWER), changed, ended(1)).state.output_json is None
    nonsense = answering(OutputMode.NATIVE, said("no JSON"), ACCEPTED, ended(1)).state
    assert nonsense.output_json is None


def test_the_last_call_asks_for_the_answer_when_no_more_tools_are_asked_for() -> None:
    free = given(*opened(agent(output=typed(OutputMode.LAST))), *step(), asked(), said("I am done"), ended(1))
    assert free.state.current_step is not None
    assert free.state.current_step.output_verdict is OutputVerdict.DUE
    asking = free.and_(decided_to_go_on(1), *step(2))
    assert asking.state.messages[-1].text.startswith("<output_request>")
    assert asking.state.message_origins[-1].output
    problem = asking.and_(asked(2, output_mode=OutputMode.LAST), said("no"), rejected(2), ended(2), decided_to_go_on(2))
    assert problem.and_(*step(3)).state.messages[-1].text.startswith("<output_problem>")


def test_a_message_of_the_user_opens_the_tools_again() -> None:
    free = given(*opened(agent(output=typed(OutputMode.LAST))), *step(), asked(), said("I am done"), ended(1))
    asking = free.and_(told("and this?"), decided_to_go_on(1), *step(2))
    assert asking.state.messages[-1].text == "and this?"
    queued = given(*opened(agent(output=typed(OutputMode.LAST))), *step(), asked(), told("and?"), said("ok"), ended(1))
    assert queued.and_(decided_to_go_on(1), *step(2)).state.messages[-1].text == "and?"


def test_a_pause_comes_before_the_verdict_and_a_stop_in_its_place() -> None:
    scenario = answering(OutputMode.TOOL, wants("final_result"))
    assert first_due(scenario.and_(pause_asked())) is not JudgeAnswer(1)
    stopped = scenario.and_(stop_asked())
    assert first_due(stopped) is ToolCallCancelled
    assert first_due(answering(OutputMode.NATIVE, said(ANSWER), stop_asked())) is StepCompleted


def test_what_a_hook_forbids_after_the_model_call_is_not_judged() -> None:
    forbidden = HooksRan(hook_type=HookType.AFTER_INFERENCE, step=1, hooks=("h",), forbidden_by="h")
    hooks = (HookType.AFTER_INFERENCE,)
    assert first_due(answering(OutputMode.NATIVE, said(ANSWER), forbidden, hooks=hooks)) is StepCompleted
    assert first_due(answering(OutputMode.TOOL, wants("final_result"), forbidden, hooks=hooks)) is ToolCallCancelled


def test_an_answer_whose_validator_broke_is_not_judged_again() -> None:
    broken = HooksRan(hook_type=BROKEN_VALIDATOR, step=1, hooks=("v",), forbidden_by="v")
    assert first_due(answering(OutputMode.NATIVE, said(ANSWER), broken)) is StepCompleted
    assert first_due(answering(OutputMode.TOOL, wants("final_result"), broken)) is ToolCallCancelled


def test_after_a_new_agent_without_an_output_the_answer_in_a_call_ends() -> None:
    scenario = answering(OutputMode.TOOL, wants("final_result"))
    changed = structs.replace(resumed(), agent=agent())
    go_on = decided(0, phase=DecisionPhase.RESUME)
    assert first_due(scenario.and_(changed, go_on)) is ToolCallCancelled


def test_a_run_that_stops_without_an_accepted_answer_has_not_answered() -> None:
    asked_before = given(*opened(agent(output=typed(OutputMode.NATIVE))), *step(), asked(), said(ANSWER), ended())
    stop = ContinuationEvaluation(criterion_class="ToolCallPresenceCheck", decision=ContinuationDecision.STOP)
    due = TakeDecision(1, DecisionPhase.BOUNDARY)
    cast = EvaluationsRecorded(phase=due.phase, votes=(stop,))
    accepted = answering(OutputMode.NATIVE, said(ANSWER), ACCEPTED, ended())
    for state, has_answered in ((asked_before.state, False), (accepted.state, True)):
        assert state.execution is not None
        (decision,) = decision_of(state, state.execution, due, cast)
        assert isinstance(decision, ContinuationEvaluated)
        assert decision.answered is has_answered


@pytest.mark.parametrize(
    ("events", "retries", "vote", "reason"),
    [
        ((ACCEPTED,), 2, "stop", "The answer fits Count"),
        ((rejected(),), 1, "request", "The answer does not fit Count (n: no number), requesting another one (1/1)"),
        ((rejected(),), 0, "forbid", "1 answer did not fit Count (n: no number)"),
        ((), 2, None, ""),
    ],
)
def test_the_criterion_votes_by_the_verdict(
    events: tuple[AgentEvent, ...], retries: int, vote: str | None, reason: str
) -> None:
    state = answering(OutputMode.NATIVE, said(ANSWER), *events, ended(1)).state
    cast = OutputAccepted(typed(OutputMode.NATIVE, retries)).explain(state)
    assert (cast and cast.decision) == vote
    if cast is not None:
        assert cast.reason == reason
        assert cast.fails is (vote == "forbid")
        assert cast.context["type"] == "Count"


def test_the_criterion_abstains_before_a_step_and_after_a_failed_one() -> None:
    criterion = OutputAccepted(typed())
    assert criterion.explain(given(*opened()).state) is None
    failed = answering(OutputMode.TOOL, wants("look", "final_result"), running(), broke(), ended(1, errors=1))
    assert criterion.explain(failed.state) is None
    due = given(*opened(agent(output=typed(OutputMode.LAST))), *step(), asked(), said("done"), ended(1))
    vote = criterion.explain(due.state)
    assert vote is not None
    assert (vote.decision, vote.reason) == ("request", "No more tools are asked for, requesting the answer as Count")
    due.next().is_(TakeDecision(1, DecisionPhase.BOUNDARY))
