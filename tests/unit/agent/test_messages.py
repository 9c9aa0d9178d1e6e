"""What is said while the agent works: it never breaks the order of a provider's transcript, and is never forgotten."""

from steptrail.domain.agent.effects import TakeDecision
from steptrail.domain.agent.events import AgentEvent, MessagesAppended
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.standing import summary
from steptrail.domain.instants import to_datetime
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import Message
from steptrail.domain.shared.events import MetadataChanged, SessionStarted
from steptrail.testing.scenario import AgentScenario, given
from tests.unit.agent.story import (
    answered,
    asked,
    done,
    ended,
    finished,
    opened,
    returned,
    running,
    said,
    started,
    step,
    told,
    wants,
)


def roles(scenario: AgentScenario) -> list[str]:
    return [message.role.value for message in scenario.state.messages]


def test_a_message_during_a_step_waits_for_its_end() -> None:
    scenario = given(*opened(), *step(), asked(), wants("look"), running(), told("hurry"))
    assert roles(scenario) == ["user", "assistant"]
    scenario = scenario.and_(returned(), ended())
    assert roles(scenario) == ["user", "assistant", "tool", "user"]


def test_a_message_between_two_steps_joins_at_once() -> None:
    assert roles(given(*opened(), *answered(), told("and?"))) == ["user", "assistant", "user"]


def test_what_nobody_has_answered_is_pending_until_the_next_step_begins() -> None:
    scenario = given(*opened(), *step(), asked(), told("hurry"))
    assert not scenario.state.has_unanswered_input
    scenario = scenario.and_(said("done"), ended())
    assert scenario.state.has_unanswered_input
    assert not scenario.and_(*step(2)).state.has_unanswered_input


def test_a_message_of_the_operator_is_no_question() -> None:
    note = MessagesAppended(messages=(Message.system("be brief"),), by="ops")
    assert not given(*opened(), *answered(), note).state.has_unanswered_input


def test_a_message_that_came_before_the_end_is_decided_about_before_it() -> None:
    given(*opened(), *answered(), done(1), told("wait")).next().is_(TakeDecision(1, DecisionPhase.BOUNDARY))


def test_the_reply_with_its_calls_is_one_message() -> None:
    scenario = given(*opened(), *step(), asked(), wants("look", "look", text="let me see"))
    reply = scenario.state.messages[1]
    assert reply.text == "let me see"
    assert [call.name for call in reply.tool_calls] == ["look", "look"]


def test_the_answer_is_the_text_of_a_last_step_without_calls() -> None:
    scenario = given(*opened(), *step(), asked(), wants("look", text="let me see"), running(), returned(), ended())
    assert scenario.state.output is None
    scenario = scenario.and_(*answered(2, "here it is"), done(2), finished())
    assert scenario.state.output == "here it is"
    assert scenario.and_(started(ordinal=2, segment=2)).state.output is None


def test_a_session_was_updated_when_its_newest_event_was_stored_though_the_clock_of_the_one_before_was_ahead() -> None:
    ahead, behind = 1_800_000_000_000_000, 1_799_999_000_000_000
    records: list[Recorded[AgentEvent]] = [
        Recorded(1, ahead, SessionStarted(name="a")),
        Recorded(2, behind, MetadataChanged(changes={"a": 1}, by="user")),
    ]
    state = AGENT.evolve_all(AGENT.initial("s"), records)
    assert state.updated_at == to_datetime(behind)
    assert summary(state).updated_at == behind


def test_the_text_of_what_a_tool_said_is_what_the_model_is_shown_of_it() -> None:
    assert Message.tool("c1", "stock", "3 packets").text == "3 packets"
