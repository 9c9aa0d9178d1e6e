"""Messages in a slim document: where each part stands, what is left out, and what opens the window."""

import json
from dataclasses import replace

import pytest

from steptrail import ErrorPolicy, Message, ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.errors import InvalidStateData
from steptrail.messages import (
    CitationPart,
    FilePart,
    MediaPart,
    MessageRole,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from steptrail.serialization import SlimAgentStateSerializer, SlimSerializationConfig
from steptrail.testing import Reply, call, calls
from tests.runner.kit import agent_of, run
from tests.unit.serialization.states import state_of

FULL = SlimSerializationConfig.full()
LOOK = ToolCallPart(id="c1", name="look", arguments={"what": "tea"})
BROKEN = ToolCallPart(id="c2", name="look", raw="{oops")
ASKING = Message.assistant("Let me look.", tool_calls=(LOOK, BROKEN))
FOUND = Message.tool("c1", "look", "three boxes")
FAILED = Message.tool("c2", "look", "Error in tool call: no JSON", is_error=True)


@tool(effect=ToolEffect.READ)
def typed(number: int) -> int:
    """Take a number."""
    return number


def entries(*messages: Message, config: SlimSerializationConfig = FULL) -> list[JsonValue]:
    found = SlimAgentStateSerializer(config).serialize(state_of(messages))["messages"]
    assert isinstance(found, list)
    return found


def back(*messages: Message, config: SlimSerializationConfig = FULL) -> list[Message]:
    serializer = SlimAgentStateSerializer(config)
    return list(serializer.deserialize(serializer.serialize(state_of(messages))).messages)


def test_text_joins_to_the_content_and_calls_and_results_stand_in_the_metadata() -> None:
    assert entries(Message.user("Tea?"), ASKING, FOUND, FAILED) == [
        {"role": "user", "content": "Tea?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "metadata": {
                "tool_calls": [
                    {"id": "c1", "name": "look", "args": {"what": "tea"}},
                    {"id": "c2", "name": "look", "raw_args": "{oops"},
                ]
            },
        },
        {
            "role": "tool",
            "content": "three boxes",
            "metadata": {"tool_call_id": "c1", "tool_name": "look", "is_error": False},
        },
        {
            "role": "tool",
            "content": "Error in tool call: no JSON",
            "metadata": {"tool_call_id": "c2", "tool_name": "look", "is_error": True},
        },
    ]


def test_media_reasoning_and_what_is_the_providers_have_their_place_and_come_back() -> None:
    said = Message(
        role=MessageRole.ASSISTANT,
        parts=(
            ReasoningPart(text="Hm.", signature="sig"),
            TextPart(text="Look: "),
            MediaPart(uri="https://example.org/tea.png", mime_type="image/png"),
            LOOK,
            ProviderPart(provider="p", data={"k": [1]}),
        ),
    )
    (entry,) = entries(said)
    assert isinstance(entry, dict)
    assert entry["metadata"] == {
        "tool_calls": [{"id": "c1", "name": "look", "args": {"what": "tea"}}],
        "media": [{"uri": "https://example.org/tea.png", "mime_type": "image/png"}],
        "reasoning": [{"text": "Hm.", "signature": "sig"}],
        "provider": [{"provider": "p", "data": {"k": [1]}}],
    }
    assert back(said) == [said]
    assert "Hm." not in json.dumps(entries(said, config=SlimSerializationConfig()))


def test_what_belongs_to_a_part_comes_back_in_front_of_it_and_a_citation_behind_its_text() -> None:
    own = [ProviderPart(provider="p", data={"number": number}) for number in range(4)]
    source = CitationPart(
        uri="https://tea.example", title="Tea", quote="Late.", start=0, end=2, provider="p", data={"k": 1}
    )
    other = ToolCallPart(id="c2", name="look", arguments={})
    parts = (own[0], ReasoningPart(text="Hm."), own[1], TextPart(text="Tea"), source, LOOK, own[2], other, own[3])
    said = Message(role=MessageRole.ASSISTANT, parts=parts)
    assert back(said) == [said]
    (entry,) = entries(said, config=SlimSerializationConfig())
    assert isinstance(entry, dict)
    assert isinstance(metadata := entry["metadata"], dict)
    assert metadata["citations"] == [
        {"uri": "https://tea.example", "title": "Tea", "quote": "Late.", "start": 0, "end": 2}
    ]
    (entry,) = entries(said, config=SlimSerializationConfig(max_content_length=2))
    assert "La..." in json.dumps(entry)
    assert "Late." not in json.dumps(entry)


@pytest.mark.parametrize(
    "before", [None, 7, [], ["tool_call"], ["nothing", 0], ["text", "first"], [["text"], 0], ["text", 9]]
)
def test_a_place_that_is_none_loses_nothing(before: JsonValue) -> None:
    opaque: JsonValue = [{"provider": "p", "data": 1, "before": before}]
    document = SlimAgentStateSerializer(FULL).serialize(state_of([Message.user("?")]))
    document["messages"] = [{"role": "assistant", "content": "Tea", "metadata": {"provider": opaque}}]
    (said,) = SlimAgentStateSerializer(FULL).deserialize(document).messages
    assert sorted(part.kind for part in said.parts) == ["provider", "text"]


def test_reasoning_that_is_cut_loses_the_signature_of_the_whole() -> None:
    said = Message(role=MessageRole.ASSISTANT, parts=(ReasoningPart(text="0123456789", signature="sig"),))
    (entry,) = entries(said, config=SlimSerializationConfig(max_content_length=4, include_reasoning=True))
    assert isinstance(entry, dict)
    assert entry["metadata"] == {"reasoning": [{"text": "0123...", "signature": None}]}


def test_several_results_in_one_message_are_several_entries() -> None:
    both = Message(role=MessageRole.TOOL, parts=(TextPart(text="Here."), *FOUND.parts, *FAILED.parts))
    seen = [entry["content"] for entry in entries(ASKING, both) if isinstance(entry, dict)]
    assert seen == ["Let me look.", "Here.", "three boxes", "Error in tool call: no JSON"]


@pytest.mark.parametrize(
    ("most", "opens_with"), [(5, "user"), (4, "assistant"), (3, "assistant"), (2, "assistant"), (1, "assistant")]
)
def test_no_window_opens_with_a_result_whose_call_is_outside(most: int, opens_with: str) -> None:
    told = [Message.user("Tea?"), ASKING, FOUND, FAILED, Message.assistant("Three boxes.")]
    first = entries(*told, config=SlimSerializationConfig(max_messages=most))[0]
    assert isinstance(first, dict)
    assert first["role"] == opens_with


def test_a_window_of_results_alone_is_empty() -> None:
    assert entries(ASKING, FOUND, FAILED, config=SlimSerializationConfig(max_messages=2)) == []


def test_a_result_that_is_left_out_is_nowhere() -> None:
    without = SlimSerializationConfig(include_tool_results=False, max_content_length=5)
    found = entries(ASKING, FOUND, config=without)
    assert "three" not in json.dumps(found)
    assert isinstance(found[1], dict)
    assert found[1]["content"] == "[tool result omitted]"


@pytest.mark.parametrize("policy", [ErrorPolicy.ignore_tool_errors(), ErrorPolicy.stop_on_any_error()])
async def test_arguments_that_are_left_out_are_nowhere_not_even_where_they_were_refused(policy: ErrorPolicy) -> None:
    wrong: dict[str, JsonValue] = {"number": "hunter2", "hunter3": 1}
    script: list[Reply] = [calls(("typed", wrong)), call("typed", number=4), "Done."]
    state = (await run(agent_of(script).with_tools(typed).with_error_policy(policy).build())).result.state
    for preset in (SlimSerializationConfig.standard(), SlimSerializationConfig.full()):
        shown = json.dumps(SlimAgentStateSerializer(preset).serialize(state))
        assert "hunter2" in shown
        silent = SlimAgentStateSerializer(replace(preset, include_tool_args=False)).serialize(state)
        assert "hunter" not in json.dumps(silent)
        assert "The arguments do not fit the tool." in json.dumps(silent)


def test_a_provider_that_repeats_a_call_is_left_out_with_the_arguments() -> None:
    said = Message(role=MessageRole.ASSISTANT, parts=(LOOK, ProviderPart(provider="p", data={"call": "tea"})))
    without = SlimSerializationConfig(include_reasoning=True, include_tool_args=False)
    assert "tea" not in json.dumps(entries(said, config=without))


def test_a_call_whose_arguments_were_left_out_comes_back_with_none() -> None:
    (read, *_) = back(ASKING, config=SlimSerializationConfig(include_tool_args=False))
    assert read.tool_calls == (ToolCallPart(id="c1", name="look"), ToolCallPart(id="c2", name="look"))


async def test_a_document_without_messages_comes_back_without_any() -> None:
    state = (await run(agent_of(["Hi."]).build())).result.state
    serializer = SlimAgentStateSerializer(SlimSerializationConfig(max_messages=0))
    document = serializer.serialize(state)
    read = serializer.deserialize(document)
    assert (list(read.messages), read.status, read.step_count) == ([], state.status, state.step_count)
    assert serializer.serialize(read)["messages"] == []


def test_what_others_wrote_is_read_too() -> None:
    read = SlimAgentStateSerializer().deserialize(
        {
            "agent_id": "s",
            "status": "completed",
            "execution": {"created_at": "2026-01-16T10:00:00Z"},
            "messages": [
                {"role": "assistant", "content": "", "_metadata": {"tool_calls": [{"function": {"name": "look"}}, {}]}},
                {"role": "tool", "content": "tea", "_metadata": {"tool_call_id": "x"}},
            ],
        }
    )
    assert read.started_at.isoformat() == "2026-01-16T10:00:00+00:00"
    assert [call.name for call in read.messages[0].tool_calls] == ["look", "unknown"]
    assert read.messages[1].parts == (ToolResultPart(call_id="x", name="unknown", text="tea"),)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"agent_id": None}, "agent_id"),
        ({"agent_id": "no spaces"}, "agent_id"),
        ({"parent_agent_id": ""}, "parent_agent_id"),
        ({"status": "asleep"}, "status"),
        ({"status": ["completed"]}, "status"),
        ({"step_count": -1}, "step_count"),
        ({"step_count": 10**9}, "step_count"),
        ({"step_count": True}, "step_count"),
        ({"usage": {"input": "many"}}, "usage.input"),
        ({"usage": []}, "usage"),
        ({"execution": {"started_at": "yesterday"}}, "execution.started_at"),
        ({"execution": {"started_at": "2026-01-16T10:00:00"}}, "execution.started_at"),
        ({"execution": {"cumulative_seconds": float("nan")}}, "execution.cumulative_seconds"),
        ({"messages": {}}, "messages"),
        ({"messages": [7]}, "messages[0]"),
        ({"messages": [{"role": "user"}, {"role": "oracle"}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "metadata": {"tool_calls": [{"args": 7}]}}]},
            "messages[0].metadata.tool_calls[0].args",
        ),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "metadata": {"tool_calls": [{"args": {"a": "\ud800"}}]}}]},
            "messages[0].metadata.tool_calls[0].args",
        ),
        (
            {"messages": [{"role": "user", "metadata": {"provider": [{"provider": "p", "data": float("nan")}]}}]},
            "messages[0].metadata.provider[0].data",
        ),
        ({"metadata": {"k": "\ud800"}}, "metadata"),
        ({"last_continuation": {"resolved_by": "\ud800"}}, "last_continuation.resolved_by"),
        ({"metadata": 7}, "metadata"),
        ({"last_continuation": {"stop_reason": "bored"}}, "last_continuation.stop_reason"),
        ({"last_continuation": {"should_continue": "no"}, "status": "paused"}, "last_continuation.should_continue"),
    ],
)
def test_data_that_does_not_fit_is_refused_with_the_name_of_the_key(change: dict[str, JsonValue], key: str) -> None:
    with pytest.raises(InvalidStateData, match="should hold") as refused:
        SlimAgentStateSerializer().deserialize({"agent_id": "s", "status": "completed", **change})
    assert refused.value.key == key


def test_what_is_no_dictionary_is_refused() -> None:
    with pytest.raises(InvalidStateData, match="an object, not list"):
        SlimAgentStateSerializer().deserialize([])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_files_are_named_and_come_back_as_references() -> None:
    part = FilePart(digest="a" * 64, mime_type="image/png", size=3, detail="low")
    told = {"digest": "a" * 64, "mime_type": "image/png", "size": 3, "detail": "low"}
    said, result = Message.user("Look", part), Message.tool("c1", "look", "here", part)
    conversation = (said, Message.assistant(tool_calls=(LOOK,)), result)
    shown = [entry["metadata"] for entry in entries(*conversation) if isinstance(entry, dict)]
    assert [each["files"] for each in shown if isinstance(each, dict) and "files" in each] == [[told], [told]]
    assert back(*conversation) == [*conversation]
