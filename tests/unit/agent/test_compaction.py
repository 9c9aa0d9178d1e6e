"""The machine says when a conversation is compacted, and the fold shows requests what is left of it."""

import pytest
from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import Compact, Record, StartInference, TakeDecision
from steptrail.domain.agent.events import (
    AgentEvent,
    ConversationCompacted,
    ExecutionPaused,
    InferenceCompleted,
    StepCompleted,
    StepStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.phases import Phase
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.kernel.commands import Pause
from steptrail.domain.messages import FilePart
from steptrail.domain.policy.compaction import CompactionSpec
from steptrail.domain.usage import BilledUsage, Usage
from steptrail.testing.scenario import given
from tests.unit.agent.story import (
    agent,
    asked,
    decided,
    ended,
    opened,
    resume,
    returned,
    running,
    step,
    stop_asked,
    unanswered,
    wants,
)

SPEC = CompactionSpec(above=0.8, window=100, keep_steps=1, clear_results_above=1_000)
AGENT = structs.replace(agent(), compaction=SPEC)
TOO_LONG = ErrorInfo(
    type=ErrorType.MODEL, error_class="x:Y", message="no", code="context_length_exceeded", retryable=False
)
SUMMARY = ConversationCompacted(
    through_step=2,
    through_message=3,
    kept=(0,),
    summary="so far",
    cleared_through=3,
    cleared_above=1_000,
    by="scripted",
    usage=BilledUsage(input=7),
    duration_seconds=1.0,
)


def a_step(number: int, tokens: int = 0, result: str = "ok") -> tuple[AgentEvent, ...]:
    reply = structs.replace(wants("look").reply, usage=Usage(input=tokens))
    made = InferenceCompleted(reply=reply, duration_seconds=1.0)
    return (*step(number), asked(number), made, running(step=number), returned(result=result), ended(number))


def two_steps(tokens: int, snapshot: AgentSnapshot = AGENT) -> tuple[AgentEvent, ...]:
    return (*opened(snapshot), *a_step(1), *a_step(2, tokens), decided(2))


REFUSED = (*opened(AGENT), *a_step(1), *a_step(2, 79), *step(3), asked(3), unanswered(TOO_LONG))


def effect_after(*events: AgentEvent) -> object:
    (effect,) = given(*events).next().effects
    return effect


def records(*events: AgentEvent) -> list[type[AgentEvent]]:
    effect = effect_after(*events)
    assert isinstance(effect, Record)
    return [type(event) for event in effect.events]


def shown(*events: AgentEvent) -> list[str]:
    return [message.text for piece in given(*events).state.request_messages for message in piece]


def test_a_conversation_is_compacted_before_the_step_after_a_request_that_reached_the_mark() -> None:
    due = effect_after(*two_steps(80))
    assert isinstance(due, Compact)
    assert (due.plan.cut, due.plan.kept, due.plan.summarises) == (3, (0,), True)


@pytest.mark.parametrize(("tokens", "snapshot"), [(79, AGENT), (10**9, agent()), (0, AGENT)])
def test_below_the_mark_and_without_the_setting_the_next_step_starts(tokens: int, snapshot: AgentSnapshot) -> None:
    assert effect_after(*two_steps(tokens, snapshot)) == Record((StepStarted(number=3),))


def test_the_only_step_is_never_left_out() -> None:
    assert effect_after(*opened(AGENT), *a_step(1, 99), decided(1)) == Record((StepStarted(number=2),))


def test_results_that_are_enough_go_without_a_summary_in_the_next_decision() -> None:
    events = (*opened(AGENT), *a_step(1, result="x" * 9_000), *a_step(2, 80), decided(2))
    due = effect_after(*events)
    assert isinstance(due, Compact)
    assert (due.plan.cleared_calls, due.plan.summarises) == (1, False)


@pytest.mark.parametrize(("window", "cleared", "summarises"), [(None, 1, False), (1, 1, False), (0, 0, True)])
def test_an_image_that_a_model_is_shown_counts_as_a_long_text_and_goes_with_its_result(
    window: int | None, cleared: int, summarises: bool
) -> None:
    image = FilePart(digest="0" * 64, mime_type="image/png", size=900_000)
    (*first, result, end) = a_step(1, result="[image/png, 900 kB]")
    drew = structs.replace(result, files=(image,))
    events = (*opened(structs.replace(AGENT, media_window=window)), *first, drew, end, *a_step(2, 80), decided(2))
    due = effect_after(*events)
    assert isinstance(due, Compact)
    assert (due.plan.cleared_calls, due.plan.summarises) == (cleared, summarises)
    without = structs.replace(SUMMARY, through_message=0, kept=(), summary=None, by=None)
    after = given(*events, without).state.request_messages
    (note,) = [message for piece in after for message in piece if message.is_tool()][:1]
    assert (note.text, note.files) == ("[result of look, 19 characters, image/png, 900 kB, left out]", ())


def test_a_request_shows_the_summary_the_input_and_what_follows() -> None:
    whole = given(*two_steps(80)).state.messages
    (head, *rest) = shown(*two_steps(80), SUMMARY)
    assert head.endswith("so far")
    assert rest == ["hello", *[message.text for message in whole[3:]]]
    assert list(given(*two_steps(80), SUMMARY).state.messages) == list(whole)


def test_the_guards_decide_before_the_step_after_a_summary_and_its_bill_is_the_runs() -> None:
    events = (*two_steps(80), SUMMARY)
    assert effect_after(*events) == TakeDecision(2, DecisionPhase.RESUME)
    assert given(*events).state.usage.total == given(*two_steps(80)).state.usage.total + 7
    assert effect_after(*events, decided(2, phase=DecisionPhase.RESUME)) == Record((StepStarted(number=3),))


def test_active_time_is_that_of_steps_so_a_summary_between_two_of_them_is_none() -> None:
    before, after = given(*two_steps(80)).state, given(*two_steps(80), SUMMARY).state
    assert after.cumulative_execution_seconds == before.cumulative_execution_seconds


def test_a_refused_request_is_compacted_and_made_again_in_its_step() -> None:
    due = effect_after(*REFUSED)
    assert isinstance(due, Compact)
    again = (*REFUSED, SUMMARY)
    assert given(*again).state.phase is Phase.STEP
    assert effect_after(*again) == TakeDecision(2, DecisionPhase.RESUME)
    assert effect_after(*again, decided(2, phase=DecisionPhase.RESUME)) == StartInference(3, 2)


def test_after_two_in_a_row_a_refusal_fails_the_step() -> None:
    again = (SUMMARY, decided(2, phase=DecisionPhase.RESUME), asked(3, attempt=2), unanswered(TOO_LONG))
    twice = (*REFUSED, *again, SUMMARY, decided(2, phase=DecisionPhase.RESUME), asked(3, 3), unanswered(TOO_LONG))
    assert records(*twice) == [StepCompleted]
    assert given(*twice, ended(3, errors=1)).state.total_failures == 1


def test_a_reply_below_the_mark_begins_to_count_anew() -> None:
    once = (*two_steps(80), SUMMARY, decided(2, phase=DecisionPhase.RESUME))
    assert given(*once).state.compactions_in_a_row == 1
    assert given(*once, *a_step(3, 80)[1:]).state.compactions_in_a_row == 1
    assert given(*once, *a_step(3, 79)[1:]).state.compactions_in_a_row == 0


def test_a_stop_and_a_pause_come_before_a_summary() -> None:
    assert effect_after(*two_steps(80), stop_asked()) == TakeDecision(2, DecisionPhase.BOUNDARY)
    assert records(*REFUSED, stop_asked()) == [StepCompleted]
    for events in (two_steps(80), REFUSED):
        assert records(*events, *decide(given(*events).state, Pause(by="ana"))) == [ExecutionPaused]


def test_a_crash_before_the_summary_of_a_refused_request_asks_all_guards_first() -> None:
    resumed = decide(given(*REFUSED).state, resume())
    assert effect_after(*REFUSED, *resumed) == TakeDecision(2, DecisionPhase.RESUME, spares_limits=False)
