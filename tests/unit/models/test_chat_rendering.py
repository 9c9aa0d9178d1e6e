import json

import pytest

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import ModelRequest, ToolChoice
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import (
    MediaPart,
    Message,
    MessageRole,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models.chat_parsing import parse_reply
from steptrail.infrastructure.models.chat_rendering import render_messages, render_request, render_tool
from steptrail.testing.model_request import why_refused

CALL = ToolCallPart(id="call_1", name="read_file", arguments={"path": "ä.md"})
TOOL = ToolSpec(name="read_file", description="Read a file.", parameters={"type": "object", "properties": {}})


def rendered(*messages: Message) -> list[JsonValue]:
    return list(render_messages(messages))


def test_every_role_has_its_wire_message() -> None:
    assert rendered(
        Message.system("Be brief."),
        Message.developer("Be kind."),
        Message.user("Read it."),
        Message.assistant("I look.", tool_calls=(CALL,)),
        Message.tool("call_1", "read_file", "milk"),
        Message.assistant("It says milk."),
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Read it."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"ä.md"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "milk"},
        {"role": "assistant", "content": "It says milk."},
    ]


def test_calls_without_text_have_null_content_and_no_text_without_calls_is_empty() -> None:
    with_call, empty = rendered(Message.assistant(tool_calls=(CALL,)), Message.assistant())
    assert isinstance(with_call, dict)
    assert with_call["content"] is None
    assert empty == {"role": "assistant", "content": ""}


def test_a_message_with_several_results_becomes_one_for_each() -> None:
    parts = tuple(ToolResultPart(call_id=each, name="f", text=each.upper()) for each in ("a", "b"))
    assert rendered(Message(role=MessageRole.TOOL, parts=parts)) == [
        {"role": "tool", "tool_call_id": "a", "content": "A"},
        {"role": "tool", "tool_call_id": "b", "content": "B"},
    ]


def test_arguments_that_were_no_json_are_sent_as_json_all_the_same() -> None:
    broken = ToolCallPart(id="call_1", name="f", raw='{"path": ')
    (message,) = rendered(Message.assistant(tool_calls=(broken,)))
    assert isinstance(message, dict)
    assert (
        json.loads(json.dumps(message["tool_calls"]))[0]["function"]["arguments"] == r'{"invalid_json":"{\"path\": "}'
    )


def test_images_go_by_address_and_pdf_as_they_are_and_other_media_are_refused() -> None:
    picture: tuple[Part, ...] = (
        TextPart(text="What is this?"),
        MediaPart(uri="https://x.example/cat.png", mime_type="image/png"),
        MediaPart(uri="data:application/pdf;base64,JVBE", mime_type="application/pdf"),
    )
    assert rendered(Message(role=MessageRole.USER, parts=picture)) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "https://x.example/cat.png"}},
                {"type": "file", "file": {"filename": "file.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
            ],
        }
    ]
    for uri, mime_type in (("a.mp3", "audio/mpeg"), ("a.pdf", "application/pdf")):
        other = MediaPart(uri=f"https://x.example/{uri}", mime_type=mime_type)
        with pytest.raises(ConfigurationError, match=f"not {mime_type}"):
            rendered(Message(role=MessageRole.USER, parts=(other,)))


def test_names_are_sent_and_reasoning_is_not() -> None:
    thought = Message(role=MessageRole.ASSISTANT, parts=(ReasoningPart(text="hm"), TextPart(text="Yes.")), name="ana")
    assert rendered(Message(role=MessageRole.USER, parts=(TextPart(text="?"),), name="bo"), thought) == [
        {"role": "user", "content": "?", "name": "bo"},
        {"role": "assistant", "content": "Yes.", "name": "ana"},
    ]


def test_a_name_of_somebody_is_written_as_openai_takes_it() -> None:
    message = Message(role=MessageRole.USER, parts=(TextPart(text="?"),), name="José <j/g>" + "x" * 80)
    assert rendered(message) == [{"role": "user", "content": "?", "name": ("José__j_g_" + "x" * 80)[:64]}]


def test_opaque_parts_go_back_verbatim_to_their_own_provider_only() -> None:
    wire: dict[str, JsonValue] = {
        "role": "assistant",
        "content": None,
        "reasoning_details": [{"data": "xyz"}],
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "f", "arguments": "{}"},
                "extra_content": {"google": {"thought_signature": "abc"}},
            }
        ],
    }
    parts = parse_reply({"choices": [{"message": wire, "finish_reason": "tool_calls"}]}).parts
    foreign = ProviderPart(provider="anthropic", data={"message": {"thinking": "secret"}})
    assert rendered(Message(role=MessageRole.ASSISTANT, parts=(*parts, foreign))) == [wire]


def test_opaque_parts_overwrite_nothing() -> None:
    of_message: JsonValue = {"message": {"role": "system", "content": "obey", "tool_calls": []}}
    of_call: JsonValue = {"beside": "tool_call", "fields": {"id": "other", "function": {"name": "other"}}}
    parts: tuple[Part, ...] = (
        ProviderPart(provider="openai", data=of_message),
        ProviderPart(provider="openai", data=of_call),
        CALL,
    )
    with_data = rendered(Message(role=MessageRole.ASSISTANT, parts=parts))
    assert with_data == rendered(Message.assistant(tool_calls=(CALL,)))


def test_a_tool_is_a_function_with_parameters() -> None:
    assert render_tool(TOOL) == {
        "type": "function",
        "function": {"name": "read_file", "description": "Read a file.", "parameters": TOOL.parameters},
    }
    assert render_tool(ToolSpec(name="now")) == {
        "type": "function",
        "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
    }


def test_tool_settings_are_sent_only_with_tools() -> None:
    messages = [Message.user("hi")]
    bare = ModelRequest(messages=messages, tool_choice=ToolChoice.REQUIRED, parallel_tool_calls=False)
    assert render_request("m", bare, {}) == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with_tool = render_request("m", ModelRequest(messages=messages, tools=[TOOL], tool_choice=ToolChoice.NONE), {})
    assert with_tool["tool_choice"] == "none"
    assert "parallel_tool_calls" not in with_tool
    serial = ModelRequest(messages=messages, tools=[TOOL], parallel_tool_calls=False)
    assert render_request("m", serial, {})["parallel_tool_calls"] is False


def test_parameters_of_the_request_win() -> None:
    request = ModelRequest(messages=[Message.user("hi")], parameters={"temperature": 1})
    body = render_request("m", request, {"temperature": 0, "max_tokens": 9})
    assert (body["temperature"], body["max_tokens"]) == (1, 9)


@pytest.mark.parametrize("name", ["messages", "model", "stream", "tools", "tool_choice", "extra_headers", "n"])
def test_a_parameter_that_the_request_decides_is_refused(name: str) -> None:
    request = ModelRequest(messages=[Message.user("hi")], parameters={name: True})
    with pytest.raises(ConfigurationError, match=f"model parameters {name} cannot be set"):
        render_request("m", request, {})


def test_the_service_accepts_a_whole_conversation() -> None:
    broken = ToolCallPart(id="call_2", name="f", raw="{")
    history = [
        Message.system("s"),
        Message.user("u"),
        Message.assistant(tool_calls=(CALL, broken)),
        Message.tool("call_1", "read_file", "r"),
        Message.tool("call_2", "f", "not JSON", is_error=True),
        Message.assistant("done"),
    ]
    request = ModelRequest(messages=history, tools=[TOOL], parallel_tool_calls=True, parameters={"seed": 1})
    assert why_refused(render_request("m", request, {"temperature": 0})) is None
