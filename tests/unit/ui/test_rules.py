"""The five rules of rendering hold in the data: a front end that shows what is there cannot break one."""

import pytest
from msgspec import structs
from pydantic import ValidationError

from steptrail.domain.agent.events import MessagesAppended
from steptrail.domain.failures import ErrorType
from steptrail.domain.messages import CitationPart, Message, ReasoningPart, TextPart
from steptrail.domain.shared.run import CutBy
from steptrail.testing.scenario import AgentScenario, given
from steptrail.ui import UiConfig, UiMessage, UiMetadata, UiToolCall
from tests.unit.agent.story import (
    BOOM,
    answered,
    asked,
    broke,
    cut_off,
    done,
    ended,
    finished,
    opened,
    returned,
    running,
    step,
)
from tests.unit.ui.kit import SHOW_NOTHING, about, look, looked, message, replied, roles, seen

REPLY, CALL = "session:1:1", "session:1:1:0"


def the_call(scenario: AgentScenario, config: UiConfig) -> UiToolCall:
    calls = about(scenario, REPLY, config).tool_calls
    assert calls is not None
    (call,) = calls
    return call


# 1: the text of a user has nothing to do with tools.


def test_a_user_message_is_its_text_and_has_no_metadata() -> None:
    assert message(given(*opened()), "session:said:1").to_dict() == {
        "id": "session:said:1",
        "role": "user",
        "content": "hello",
        "timestamp": "2026-01-01T00:00:01.000Z",
    }


def test_no_user_message_can_be_made_that_is_about_a_tool() -> None:
    for metadata in (UiMetadata(tool_status="running"), UiMetadata(tool_calls=(UiToolCall(id="1", name="look"),))):
        with pytest.raises(ValidationError, match="nothing to do with a tool"):
            UiMessage(id="u", role="user", content="", timestamp="", metadata=metadata)


# 2: an assistant message without tool calls shows its content.


@pytest.mark.parametrize("text", ["done", '{"total": 7}', "[1, 2]", "0", " \n7"])
def test_an_answer_is_shown_as_it_is_also_when_it_is_json(text: str) -> None:
    reply = message(given(*opened(), *answered(text=text)), REPLY)
    assert (reply.role, reply.content, reply.metadata) == ("assistant", text, None)


def test_a_reply_that_says_nothing_is_not_shown() -> None:
    for parts in ((), (TextPart(text=" \n"),), (ReasoningPart(text="hm"),)):
        assert roles(given(*opened(), *step(), asked(), replied(*parts), ended())) == ["user"]


def test_an_answer_names_its_sources_and_what_of_it_rests_on_each() -> None:
    parts = (
        TextPart(text="Tea "),
        TextPart(text="is late."),
        CitationPart(uri="HTTPS://tea.example", title="Tea", quote="Late.", provider="p", data={"secret": 1}),
        CitationPart(uri="javascript:alert(1)", start=4, end=6, provider="p"),
        CitationPart(title="nowhere", start=9, end=99, provider="p"),
        CitationPart(start=-1, end=2, provider="p"),
    )
    shown = message(given(*opened(), *step(), asked(), replied(*parts), ended()), REPLY).to_dict()
    assert shown["content"] == "Tea is late."
    assert shown["metadata"] == {
        "citations": [
            {"url": "HTTPS://tea.example", "title": "Tea", "quote": "Late.", "start": 4, "end": 12},
            {"start": 4, "end": 6},
            {"title": "nowhere"},
            {},
        ]
    }


# 3: an assistant message with tool calls shows the calls, and its content only when that is natural language.


def test_a_reply_with_calls_shows_their_names_and_summaries_and_points_to_their_tool_messages() -> None:
    scenario = given(*opened(), *looked("Let me look.", query="dbplus"))
    assert message(scenario, REPLY).content == "Let me look."
    assert about(scenario, REPLY).to_dict() == {
        "tool_calls": [{"id": "c1", "name": "look", "message_id": CALL, "args_summary": "query: 'dbplus'"}]
    }


@pytest.mark.parametrize("text", ['{"query": "dbplus"}', '\n [{"query": "dbplus"}]', " ", ""])
def test_content_beside_calls_that_looks_like_json_or_is_blank_is_not_shown(text: str) -> None:
    reply = message(given(*opened(), *looked(text, query="dbplus")), REPLY, SHOW_NOTHING)
    assert reply.content == ""
    assert "dbplus" not in reply.to_json().decode()


def test_arguments_are_shown_as_configured_whole_as_a_line_or_not_at_all() -> None:
    scenario = given(*opened(), *looked(query="dbplus " * 30))
    whole = the_call(scenario, UiConfig(include_tool_args=True, max_arg_length=6))
    assert (whole.args, whole.args_summary) == ({"query": "dbplus..."}, None)
    line = the_call(scenario, UiConfig())
    assert (line.args, line.args_summary) == (None, "query: 'dbplus dbplus dbplus dbplu...")
    bare = the_call(scenario, SHOW_NOTHING)
    assert (bare.args, bare.args_summary) == (None, None)


# 4: a tool message belongs to its call; an error replaces the result; a result is collapsed; the duration where known.


def test_a_tool_message_names_its_call_and_shows_the_beginning_of_its_result() -> None:
    scenario = given(*opened(), *looked(result="x" * 200))
    shown = message(scenario, CALL)
    assert (shown.role, shown.content) == ("tool", "x" * 97 + "...")
    assert about(scenario, CALL).to_dict() == {
        "tool_call_id": "c1",
        "tool_name": "look",
        "tool_status": "completed",
        "tool_result": "x" * 200,
        "tool_result_summary": "x" * 97 + "...",
        "tool_duration_ms": 1000,
    }


def test_an_error_replaces_the_result() -> None:
    scenario = given(*opened(), *step(), asked(), look(), running(), broke(), ended(errors=1))
    shown = about(scenario, CALL)
    assert (shown.tool_status, shown.tool_error, shown.tool_duration_ms) == ("failed", "boom", 1000)
    assert (shown.tool_result, shown.tool_result_summary) == (None, None)
    assert message(scenario, CALL).content == "boom"


def test_no_message_can_be_made_that_has_an_error_and_a_result() -> None:
    for summary in (None, "ok"):
        with pytest.raises(ValidationError, match="an error replaces the result"):
            UiMetadata(tool_error="boom", tool_result=None if summary else "ok", tool_result_summary=summary)


def test_a_result_that_is_not_to_be_shown_is_nowhere() -> None:
    scenario = given(*opened(), *looked(result="4111 1111"))
    assert b"4111" in seen(scenario).to_json()
    assert b"4111" not in seen(scenario, UiConfig(include_tool_results=False)).to_json()
    assert about(scenario, CALL, UiConfig(include_tool_results=False)).tool_status == "completed"


def test_what_a_tool_says_of_its_failure_can_be_kept_back_but_not_what_became_of_the_call() -> None:
    quiet = UiConfig(include_tool_errors=False)
    called = given(*opened(), *step(), asked(), look(), running())
    told = called.and_(broke(), ended(errors=1))
    assert about(told, CALL, quiet).tool_error == "The tool failed."
    cut = called.and_(cut_off(0, reason="deadline", cut_by=CutBy.TOOL_TIMEOUT))
    assert about(cut, CALL, quiet) == about(cut, CALL)
    added = MessagesAppended(messages=(Message.tool("c9", "look", "it broke", is_error=True),), by="ops")
    assert about(given(*opened(), added), "session:said:2", quiet).tool_error == "The tool failed."


def test_a_result_that_somebody_else_put_there_is_shown_by_its_own_words() -> None:
    added = MessagesAppended(messages=(Message.tool("c9", "look", "Error in tool call: no", is_error=True),), by="ops")
    shown = about(given(*opened(), added), "session:said:2")
    assert (shown.tool_call_id, shown.tool_name, shown.tool_status) == ("c9", "look", "failed")
    assert (shown.tool_error, shown.tool_duration_ms) == ("no", None)


# 5: status messages are inline and ephemeral.


def test_a_conversation_has_no_status_message_unless_the_end_is_to_be_told() -> None:
    scenario = given(*opened(), *answered(), done(1), finished())
    assert roles(scenario) == ["user", "assistant"]
    told = seen(scenario, UiConfig(include_continuation_trace=True)).messages[-1]
    assert told.to_dict() == {
        "id": "session:1:continuation",
        "role": "status",
        "content": "Agent stopped: completed",
        "timestamp": "2026-01-01T00:00:08.000Z",
        "metadata": {
            "status_type": "continuation",
            "continuation": {"should_continue": False, "stop_reason": "completed", "resolved_by": "aggregate"},
        },
    }


def test_a_run_that_goes_on_has_not_stopped() -> None:
    config = UiConfig(include_continuation_trace=True)
    for scenario in (given(*opened()), given(*opened(), *answered()), given(*opened(), *answered(), done(1))):
        assert "status" not in {each.role for each in seen(scenario, config).messages}


def test_a_status_message_says_what_it_is_about_and_no_other_does() -> None:
    with pytest.raises(ValidationError, match="status message"):
        UiMessage(id="s", role="status", content="", timestamp="")
    with pytest.raises(ValidationError, match="status message"):
        UiMessage(id="s", role="assistant", content="", timestamp="", metadata=UiMetadata(status_type="info"))


def test_the_error_of_a_refused_call_does_not_quote_arguments_that_are_not_shown() -> None:
    refused = structs.replace(BOOM, type=ErrorType.VALIDATION, message="query: too short (got 'hunter2')")
    scenario = given(*opened(), *step(), asked(), look(query="hunter2"), running(), broke(error=refused))
    for each in (scenario, scenario.and_(ended(errors=1))):
        assert about(each, CALL).tool_error == "query: too short (got 'hunter2')"
        assert about(each, CALL, SHOW_NOTHING).tool_error == "The arguments do not fit the tool."
        assert b"hunter2" not in seen(each, SHOW_NOTHING).to_json()


def test_a_result_is_said_before_the_step_is_completed_as_it_is_after() -> None:
    before = given(*opened(), *step(), asked(), look(), running(), returned())
    assert message(before, CALL) == message(before.and_(ended()), CALL)
