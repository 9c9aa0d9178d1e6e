"""Messages bodies, out and in."""

import json

import pytest

from steptrail.domain.errors import ConfigurationError, StreamBroken
from steptrail.domain.inference import FinishReason, ModelReply, ModelRequest, ToolChoice
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import (
    MediaPart,
    Message,
    MessageRole,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
)
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models.anthropic_assembly import AnthropicAssembly
from steptrail.infrastructure.models.anthropic_parsing import parse_body
from steptrail.infrastructure.models.anthropic_rendering import render_messages, render_request
from steptrail.infrastructure.models.errors import ModelFailed, ModelReplyInvalid
from steptrail.infrastructure.models.wire import as_list
from steptrail.testing.model_request_anthropic import why_refused

CALL = ToolCallPart(id="call_1", name="read_file", arguments={"path": "ä.md"})
OTHER = ToolCallPart(id="call:2", name="read_file", raw='{"path": ')
TOOL = ToolSpec(name="read_file", description="Read a file.", parameters={"type": "object", "properties": {}})
THOUGHT: JsonValue = {"type": "thinking", "thinking": "Hm.", "signature": "s=="}
HIDDEN: JsonValue = {"type": "redacted_thinking", "data": "x=="}
USE: JsonValue = {"type": "tool_use", "id": "call_1", "name": "read_file", "input": {"path": "ä.md"}}
SEARCH: JsonValue = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}


def text(words: str) -> dict[str, JsonValue]:
    return {"type": "text", "text": words}


def result(call_id: str = "call_1") -> dict[str, JsonValue]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "milk"}


def user(*blocks: JsonValue) -> dict[str, JsonValue]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: JsonValue) -> dict[str, JsonValue]:
    return {"role": "assistant", "content": list(blocks)}


def parsed(*content: JsonValue, **fields: JsonValue) -> ModelReply:
    return parse_body(json.dumps({"id": "msg_1", "model": "m", "content": [*content], **fields}))


def test_turns_alternate_and_all_results_of_a_turn_are_in_one_message() -> None:
    history = [
        Message.system("Be brief."),
        Message.user("Read both."),
        Message.user("Now."),
        Message.assistant("I look.", tool_calls=(CALL, OTHER)),
        Message.tool("call_1", "read_file", "milk"),
        Message.tool("call:2", "read_file", "no JSON", is_error=True),
        Message.developer("Be kind."),
        Message.user("Well?"),
    ]
    assert render_messages(history) == [
        user(text("Read both."), text("Now.")),
        assistant(
            text("I look."),
            USE,
            {"type": "tool_use", "id": "call_2", "name": "read_file", "input": {"invalid_json": '{"path": '}},
        ),
        user(result(), {**result("call_2"), "content": "no JSON", "is_error": True}, text("Well?")),
    ]


def test_the_system_prompt_and_every_later_instruction_are_a_field_of_their_own() -> None:
    history = [Message.system("Be brief."), Message.user("?"), Message.developer("Be kind."), Message.system(" ")]
    body = render_request("m", ModelRequest(messages=history), {"max_tokens": 5})
    assert body == {
        "model": "m",
        "max_tokens": 5,
        "system": [text("Be brief."), text("Be kind.")],
        "messages": [user(text("?"))],
    }


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        ("auto", None, {"type": "auto"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("auto", True, {"type": "auto", "disable_parallel_tool_use": False}),
        ("none", False, {"type": "none"}),
    ],
)
def test_the_choice_of_tools_is_in_the_protocols_words(
    choice: ToolChoice, parallel: bool | None, expected: JsonValue
) -> None:
    messages = [Message.user("?")]
    request = ModelRequest(messages=messages, tools=[TOOL], tool_choice=choice, parallel_tool_calls=parallel)
    body = render_request("m", request, {})
    assert body["tool_choice"] == expected
    described = {"name": "read_file", "description": "Read a file.", "input_schema": TOOL.parameters}
    assert body["tools"] == [described]


def test_a_conversation_with_calls_names_its_tools_when_none_may_be_called_any_more() -> None:
    history = [Message.user("?"), Message.assistant(tool_calls=(CALL,)), Message.tool("call_1", "read_file", "milk")]
    body = render_request("m", ModelRequest(messages=history, tool_choice=ToolChoice.NONE), {"max_tokens": 5})
    assert body["tool_choice"] == {"type": "none"}
    assert body["tools"] == [{"name": "read_file", "input_schema": {"type": "object", "properties": {}}}]
    assert why_refused(body) is None


def test_a_reply_goes_back_as_it_came() -> None:
    reply = parsed(THOUGHT, HIDDEN, text("I look."), SEARCH, USE, stop_reason="tool_use")
    assert reply.parts == (
        ReasoningPart(text="Hm.", signature="s=="),
        ProviderPart(provider="anthropic", data={"whole": HIDDEN}),
        TextPart(text="I look."),
        ProviderPart(provider="anthropic", data={"whole": SEARCH}),
        CALL,
    )
    message = Message(role=MessageRole.ASSISTANT, parts=reply.parts)
    assert render_messages([message]) == [assistant(THOUGHT, HIDDEN, text("I look."), SEARCH, USE)]


def test_what_would_be_refused_stays_behind() -> None:
    thinking = Message(role=MessageRole.ASSISTANT, parts=(ReasoningPart(text="Hm.", signature="s=="),))
    unsigned = Message(
        role=MessageRole.ASSISTANT,
        parts=(ReasoningPart(text="Hm."), ProviderPart(provider="openai", data={}), TextPart(text=" \n")),
    )
    assert render_messages([Message.user("?"), thinking, unsigned, Message.user("Well?")]) == [
        user(text("?"), text("Well?"))
    ]


def test_a_model_that_is_to_go_on_after_its_answer_is_told_so() -> None:
    history = [Message.user("Hello."), Message.assistant("Good day. ")]
    messages = render_request("m", ModelRequest(messages=history), {"max_tokens": 5})["messages"]
    assert messages == [user(text("Hello.")), assistant(text("Good day. ")), user(text("(Go on.)"))]


def test_what_was_sent_in_front_of_a_reply_is_sent_in_front_of_it_again() -> None:
    history = [Message.user("Hello."), Message.assistant("Good day.")]
    sent = render_request("m", ModelRequest(messages=history), {})["messages"]
    history += [Message(role=MessageRole.ASSISTANT, parts=parsed(THOUGHT, text("A fine day.")).parts)]
    again = render_request("m", ModelRequest(messages=[*history, Message.user("Yes.")]), {})["messages"]
    assert again == [*as_list(sent), assistant(THOUGHT, text("A fine day.")), user(text("Yes."))]


def test_thinking_of_another_server_of_the_protocol_goes_back_there_alone_signed_or_not() -> None:
    unsigned: dict[str, JsonValue] = {"type": "thinking", "thinking": "Well."}
    told = json.dumps({"content": [unsigned, THOUGHT, SEARCH, text("I look.")]})
    reply = Message(role=MessageRole.ASSISTANT, parts=parse_body(told, "anthropic@127.0.0.1").parts)
    request = ModelRequest(messages=[Message.user("?"), reply, Message.user("And?")])
    there, here = (render_request("m", request, {}, each)["messages"] for each in ("anthropic@127.0.0.1", "anthropic"))
    whole = assistant({**unsigned, "signature": ""}, THOUGHT, SEARCH, text("I look."))
    assert there == [HI, whole, user(text("And?"))]
    assert here == [HI, assistant(text("I look.")), user(text("And?"))]


@pytest.mark.parametrize("said", ["", " \n"])
def test_a_blank_message_of_the_user_keeps_its_turn(said: str) -> None:
    (first,) = render_messages([Message.user(said)])
    *_, last = render_messages([Message.user("Hello."), Message.assistant("Good day."), Message.user(said)])
    assert first == last == user(text("(The message is empty.)"))


def test_media_go_by_address_or_inline() -> None:
    parts = (
        MediaPart(uri="u.png", mime_type="image/png"),
        MediaPart(uri="data:image/png;base64,AAAA", mime_type="image/png"),
        MediaPart(uri="u.pdf", mime_type="application/pdf"),
    )
    assert render_messages([Message(role=MessageRole.USER, parts=parts)]) == [
        user(
            {"type": "image", "source": {"type": "url", "url": "u.png"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            {"type": "document", "source": {"type": "url", "url": "u.pdf"}},
        )
    ]
    with pytest.raises(ConfigurationError, match="audio/mpeg"):
        render_messages([Message(role=MessageRole.USER, parts=(MediaPart(uri="u", mime_type="audio/mpeg"),))])


@pytest.mark.parametrize("name", ["system", "messages", "tools", "stream", "timeout"])
def test_a_reserved_parameter_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        render_request("m", ModelRequest(messages=[Message.user("?")], parameters={name: 1}), {})


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("pause_turn", FinishReason.PAUSED),
        ("compaction", FinishReason.OTHER),
        (None, FinishReason.OTHER),
    ],
)
def test_the_stop_reason_is_normalised(raw: str | None, reason: FinishReason) -> None:
    reply = parsed(text("It is"), stop_reason=raw)
    assert (reply.finish_reason, reply.raw_finish_reason) == (reason, raw)


@pytest.mark.parametrize(
    ("body", "error", "why"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}, ModelFailed, "Busy"),
        ({"error": {"message": "Not for you."}}, ModelFailed, "Not for you"),
        ({"type": "error"}, ModelFailed, "reports an error"),
        ({"content": "text"}, ModelReplyInvalid, "no content"),
        ({"content": [{"type": "tool_use", "id": "a", "input": {"a": 1}}]}, ModelReplyInvalid, "without a name"),
    ],
)
def test_what_is_no_reply_is_raised(body: JsonValue, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        parse_body(json.dumps(body))


def test_blocks_are_put_together_by_their_index_whatever_comes_first() -> None:
    assembly = AnthropicAssembly()
    events: list[dict[str, JsonValue]] = [
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 1, "content_block": {**dict_of(USE), "input": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"path"'}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ':"ä.md"}'}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s=="}},
        {"type": "something_new"},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 5, "input_tokens": None},
        },
    ]
    deltas = [delta for event in events for delta in assembly.add(event)]
    assert [(delta.kind, delta.text) for delta in deltas if delta.text] == [("reasoning", "Hm.")]
    reply = parse_body(json.dumps(assembly.body()))
    assert reply.parts == (ReasoningPart(text="Hm.", signature="s=="), CALL)
    assert (reply.usage.input, reply.usage.output) == (9, 5)


def test_a_message_that_begins_anew_is_the_one_that_counts() -> None:
    assembly = AnthropicAssembly()
    for piece in ('{"path":"b', '{"path":"ä.md"}'):
        begun: list[dict[str, JsonValue]] = [
            {"type": "message_start", "message": {"id": "msg_1"}},
            {"type": "content_block_start", "index": 0, "content_block": {**dict_of(USE), "input": {}}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}},
        ]
        for event in begun:
            list(assembly.add(event))
    list(assembly.add({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}))
    assert parse_body(json.dumps(assembly.body())).parts == (CALL,)


@pytest.mark.parametrize("pieces", [[], [""], ["", " "]])
def test_an_input_that_came_with_the_beginning_of_its_block_stays_when_nothing_is_added(pieces: list[str]) -> None:
    assembly = AnthropicAssembly()
    deltas: list[JsonValue] = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    events: list[dict[str, JsonValue]] = [
        {"type": "message_start", "message": {"id": "msg_1"}},
        {"type": "content_block_start", "index": 0, "content_block": dict_of(USE)},
        *[{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas],
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ]
    for event in events:
        list(assembly.add(event))
    assert parse_body(json.dumps(assembly.body())).parts == (CALL,)


def test_a_piece_of_a_block_that_was_not_begun_makes_no_reply_without_it() -> None:
    assembly = AnthropicAssembly()
    list(assembly.add({"type": "message_start", "message": {"id": "msg_1"}}))
    with pytest.raises(ModelReplyInvalid, match="a piece of a block that was not begun"):
        list(assembly.add({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}}))


def test_a_stream_without_a_stop_reason_is_broken() -> None:
    assembly = AnthropicAssembly()
    list(assembly.add({"type": "message_start", "message": {"id": "msg_1", "stop_reason": None}}))
    with pytest.raises(StreamBroken):
        assembly.body()


def test_what_a_compaction_used_is_counted_though_it_is_not_in_the_sums() -> None:
    """Anthropic's documents, "Compaction": its tokens stand only in `usage.iterations`."""
    iterations: JsonValue = [
        {"type": "compaction", "input_tokens": 99_000, "output_tokens": 276, "cache_read_input_tokens": 4},
        {"type": "message", "input_tokens": 23, "output_tokens": 7},
        {"type": "advisor_message", "model": "m", "input_tokens": 100, "output_tokens": 10},
        "nonsense",
    ]
    used = parsed(text("Hi."), usage={"input_tokens": 23, "output_tokens": 7, "iterations": iterations}).usage
    assert (used.input, used.output, used.cache_read) == (99_123, 293, 4)


def dict_of(value: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(value, dict)
    return value


HI = user(text("?"))


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([HI, assistant(THOUGHT, USE), user(result(), text("And?"))], None),
        ([HI, assistant(THOUGHT, USE), user(result()), user(text("And?"))], None),
        ([], "at least one"),
        ([assistant(text("Hi."))], "first message"),
        ([{"role": "system", "content": "?"}], "role"),
        ([{"role": "user", "content": "?", "name": "ana"}], "Extra inputs"),
        ([user()], "must not be empty"),
        ([user(text(" "))], "non-whitespace"),
        ([user(USE)], "can not be in"),
        ([HI, assistant(THOUGHT, USE)], "without `tool_result`"),
        ([HI, assistant(THOUGHT, USE), HI], "without `tool_result`"),
        ([HI, assistant(THOUGHT, USE), user(text("And?"), result())], "come first"),
        ([HI, assistant(THOUGHT, USE), user(result(), result("call_9"))], "unexpected"),
        ([HI, assistant(THOUGHT, USE), user(result(), result())], "single result"),
        ([HI, assistant(THOUGHT, USE, USE), user(result())], "unique"),
        ([HI, assistant(text("Hm."))], "must end with a user message"),
        ([HI, assistant(USE), user(result())], "found `tool_use`"),
        ([HI, assistant({**dict_of(THOUGHT), "thinking": "Ha."}, USE), user(result())], "Invalid `signature`"),
        ([HI, assistant(HIDDEN, THOUGHT, USE), user(result())], "Invalid `data`"),
        ([HI, assistant(THOUGHT), HI], "final block"),
    ],
)
def test_the_scripted_server_refuses_what_the_real_one_refuses(messages: list[JsonValue], why: str | None) -> None:
    tools: JsonValue = [{"name": "read_file", "input_schema": {"type": "object"}}]
    body: dict[str, JsonValue] = {"model": "m", "max_tokens": 5, "messages": messages, "tools": tools}
    refusal = why_refused(body, [{"content": [THOUGHT, USE]}])
    assert refusal is None if why is None else refusal is not None and why in refusal


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"model": None}, "model"),
        ({"tool_choice": {}}, "tool_choice"),
    ],
)
def test_the_scripted_server_knows_the_fields(change: dict[str, JsonValue], why: str) -> None:
    refusal = why_refused({"model": "m", "max_tokens": 5, "messages": [HI], **change})
    assert refusal is not None
    assert why in refusal
