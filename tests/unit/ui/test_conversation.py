"""The conversation as a whole: its order, its ids, how it stands, and what went wrong."""

import pytest
from msgspec import structs

from steptrail.domain.agent.commands import Fork
from steptrail.domain.agent.events import MessagesAppended
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import ModelInfo
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.domain.policy.fallback import FallbackModel, FallbackSpec
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.testing.scenario import AgentScenario, given
from steptrail.ui import UiConfig, UiConversation, UiRetry, reply_id, said_id, status_id, ui_conversation
from tests.unit.agent.story import (
    BOOM,
    agent,
    answered,
    asked,
    broke,
    decided,
    done,
    ended,
    failed,
    finished,
    forbid,
    forbidden,
    opened,
    pause_asked,
    paused,
    returned,
    running,
    said,
    started,
    step,
    told,
    wants,
)
from tests.unit.ui.kit import SHOW_NOTHING, about, looked, seen

ENDED = given(*opened(), *looked("Let me look."), *answered(2, "It is there."), done(2), finished())


def ids(scenario: AgentScenario) -> list[str]:
    return [message.id for message in seen(scenario).messages]


def test_ids_are_made_of_session_execution_step_and_call() -> None:
    assert ids(ENDED) == ["session:said:1", "session:1:1", "session:1:1:0", "session:1:2"]
    again = ENDED.and_(started(ordinal=2, segment=2), *answered(1, "And there."))
    assert ids(again) == [*ids(ENDED), "session:said:2", "session:2:1"]


def test_whoever_streams_can_say_an_id_before_the_message_is_stored() -> None:
    state = ENDED.state
    assert state.execution_id is not None
    assert [reply_id(state.execution_id, 2), said_id("session", 1)] == [ids(ENDED)[3], ids(ENDED)[0]]
    assert status_id(reply_id(state.execution_id, 2), "thinking") == "session:1:2:thinking"


def test_what_is_shown_of_an_execution_stays_as_it_is_when_the_next_one_has_begun() -> None:
    later = ENDED.and_(started(ordinal=2, segment=2), *step(1), asked())
    assert seen(later).messages[:-1] == seen(ENDED).messages


def test_calls_of_an_open_step_stand_in_the_order_of_the_reply_whatever_ends_first() -> None:
    scenario = given(*opened(), *step(), asked(), wants("look", "look"), running(), running(1), returned(1, "second"))
    assert ids(scenario)[-2:] == ["session:1:1:0", "session:1:1:1"]
    assert [about(scenario, each).tool_status for each in ids(scenario)[-2:]] == ["running", "completed"]
    assert ids(scenario.and_(returned(0), ended())) == ids(scenario)


def test_what_is_said_during_a_step_is_shown_at_once_and_keeps_its_id() -> None:
    scenario = given(*opened(), *step(), asked(), wants("look"), running(), told("hurry"))
    assert ids(scenario) == ["session:said:1", "session:1:1", "session:1:1:0", "session:said:2"]
    assert ids(scenario.and_(returned(), ended())) == ids(scenario)
    before_the_reply = given(*opened(), *step(), asked(), told("hurry"))
    assert ids(before_the_reply) == ["session:said:1", "session:said:2"]
    assert ids(before_the_reply.and_(said("done"), ended())) == ["session:said:1", "session:1:1", "session:said:2"]


def test_instructions_of_the_operator_are_not_shown_and_take_no_id_from_others() -> None:
    notes = MessagesAppended(messages=(Message.system("be brief"), Message.developer("and kind")), by="ops")
    scenario = given(*opened(), notes, told("and?"))
    assert [(message.id, message.content) for message in seen(scenario).messages] == [
        ("session:said:1", "hello"),
        ("session:said:4", "and?"),
    ]
    assert b"be brief" not in seen(scenario).to_json()


def test_what_a_hook_said_names_the_hook() -> None:
    note = MessagesAppended(
        messages=(Message.user("check it"), Message.assistant("I do")), source=MessageSource.HOOK, by="acme:Critic"
    )
    scenario = given(*opened(), *answered(), note)
    assert [about(scenario, each).said_by for each in ids(scenario)[-2:]] == ["acme:Critic", "acme:Critic"]


def test_the_last_response_is_the_newest_answer_that_is_no_json() -> None:
    assert seen(given(*opened())).last_response is None
    assert seen(given(*opened(), *looked("Let me look."))).last_response is None
    assert seen(ENDED).last_response == "It is there."
    assert seen(ENDED.and_(started(ordinal=2), *answered(1, '{"total": 7}'))).last_response == "It is there."


@pytest.mark.parametrize(
    ("scenario", "status", "stop_reason"),
    [
        (given(), "pending", None),
        (given(*opened()), "in_progress", None),
        (given(*opened(), *answered(), pause_asked(), paused()), "paused", None),
        (ENDED, "completed", "completed"),
        (
            given(*opened(), *looked(), forbidden(1), finished(reason=StopReason.STEPS_LIMIT, by="StepsLimit")),
            "completed",
            "steps_limit",
        ),
    ],
)
def test_the_status_is_that_of_the_session(scenario: AgentScenario, status: str, stop_reason: str | None) -> None:
    conversation = seen(scenario)
    assert (conversation.status, conversation.stop_reason) == (status, stop_reason)
    assert (conversation.session_id, conversation.version) == ("session", len(scenario.records))


def test_a_failed_run_says_what_went_wrong_and_the_history_stays() -> None:
    over = forbidden(1, "ErrorPolicyCriterion", StopReason.ERROR)
    scenario = given(*opened(), *failed(), over, finished(ExecutionStatus.FAILED, StopReason.ERROR))
    assert seen(scenario).error_message == "no line"
    assert ids(scenario) == ["session:said:1"]
    assert seen(given(*opened(), *failed())).error_message is None


def test_a_run_that_failed_without_an_error_gives_the_reason_of_whoever_decided_it() -> None:
    over = forbidden(1, "aggregate", StopReason.ERROR)
    scenario = given(*opened(), *answered(), over, finished(ExecutionStatus.FAILED, StopReason.ERROR, "nobody"))
    assert seen(scenario).error_message is None
    cast = forbid("ErrorPolicyCriterion", StopReason.ERROR)
    decided_by = forbidden(1, "ErrorPolicyCriterion", StopReason.ERROR)
    scenario = given(*opened(), *answered(), cast, decided_by, finished(ExecutionStatus.FAILED, StopReason.ERROR))
    assert seen(scenario).error_message == cast.votes[0].reason


def test_the_error_of_a_run_does_not_quote_arguments_that_are_not_shown() -> None:
    refused = structs.replace(BOOM, type=ErrorType.VALIDATION, message="got 'hunter2'")
    over = (forbidden(1, "ErrorPolicyCriterion", StopReason.ERROR), finished(ExecutionStatus.FAILED, StopReason.ERROR))
    called = (*step(), asked(), wants("look"), running(), broke(error=refused), ended(errors=1))
    scenario = given(*opened(), *called, *over)
    assert seen(scenario).error_message == "got 'hunter2'"
    assert b"hunter2" not in seen(scenario, SHOW_NOTHING).to_json()


def test_while_a_failed_step_is_tried_again_the_try_is_told() -> None:
    patient = agent(policy=ErrorPolicy.retry_all(3))
    once = given(*opened(patient), *failed(), decided(1, retries=True))
    for scenario in (once, once.and_(*step(2)[1:], asked(2))):
        retry = seen(scenario).retry
        assert retry is not None
        assert retry.to_dict() == {"attempt": 2, "of": 3}
    following = FallbackModel(model=ModelInfo(driver="scripted", model="b"))
    leads_on = FallbackSpec(models=(following,), on=(ErrorType.MODEL,), after=4)
    with_fallback = given(*opened(structs.replace(patient, fallback=leads_on)), *failed(), decided(1, retries=True))
    assert seen(with_fallback).retry == UiRetry(attempt=2, of=4)
    assert seen(given(*opened(patient), *failed(), decided(1))).retry is None
    limited = given(*opened(patient), *failed(), forbidden(1), finished(ExecutionStatus.FAILED))
    assert seen(limited).retry is None
    answered_now = once.and_(*step(2)[1:], asked(2), said("done"), ended(2))
    assert seen(answered_now).retry is None


def test_a_fork_shows_the_past_it_shares_as_its_own() -> None:
    events = ENDED.machine.decide(ENDED.state, Fork(by="ana", digest="d1"))
    own = [Recorded(version, ENDED.clock, event) for version, event in enumerate(events, 1)]
    fork = ui_conversation(evolve_all(initial("other"), [*ENDED.records, *own]))
    assert [message.id for message in fork.messages] == [each.replace("session", "other") for each in ids(ENDED)]
    assert [message.content for message in fork.messages] == [message.content for message in seen(ENDED).messages]


def test_a_conversation_goes_to_json_and_back() -> None:
    conversation = seen(ENDED, UiConfig(include_continuation_trace=True))
    assert UiConversation.model_validate(conversation.to_dict()) == conversation
    assert UiConversation.model_validate_json(conversation.to_json()) == conversation


def test_a_key_that_a_front_end_does_not_know_yet_is_ignored() -> None:
    assert UiConversation.model_validate({**seen(ENDED).to_dict(), "mood": "fine"}) == seen(ENDED)


def test_a_length_that_shows_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_arg_length is a number from 1"):
        UiConfig(max_arg_length=0)
