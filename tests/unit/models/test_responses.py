"""Responses bodies, out and in."""

import json

import pytest

from steptrail.domain.errors import ConfigurationError, StreamBroken
from steptrail.domain.inference import FinishReason, ModelReply, ModelRequest, ToolChoice
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import MediaPart, Message, MessageRole, ProviderPart, ReasoningPart, ToolCallPart
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models.errors import ModelFailed, ModelReplyInvalid
from steptrail.infrastructure.models.responses_assembly import ResponsesAssembly
from steptrail.infrastructure.models.responses_parsing import parse_body
from steptrail.infrastructure.models.responses_rendering import render_items, render_request
from steptrail.infrastructure.models.wire import as_list
from steptrail.testing.model_request_responses import why_refused

CALL = ToolCallPart(id="call_1", name="read_file", arguments={"path": "ä.md"})
TOOL = ToolSpec(name="read_file", description="Read a file.", parameters={"type": "object", "properties": {}})
THOUGHT: JsonValue = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "x=="}
SAID: JsonValue = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
}
ASKED: JsonValue = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "read_file",
    "arguments": '{"path":"ä.md"}',
}
FOUND: JsonValue = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search"}}


def parsed(*output: JsonValue, **fields: JsonValue) -> ModelReply:
    return parse_body(json.dumps({"id": "resp_1", "model": "m", "status": "completed", "output": [*output], **fields}))


def again(reply: ModelReply) -> list[JsonValue]:
    """The items that a reply is in the next request."""
    return list(render_items([Message(role=MessageRole.ASSISTANT, parts=reply.parts)]))


def test_every_role_has_its_items() -> None:
    assert list(
        render_items(
            [
                Message.system("Be brief."),
                Message.developer("Be kind."),
                Message.user("Read it."),
                Message.assistant("I look.", tool_calls=(CALL,)),
                Message.tool("call_1", "read_file", "milk"),
            ]
        )
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": '{"path":"ä.md"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "milk"},
    ]


def test_a_reply_goes_back_as_it_came() -> None:
    reply = parsed(THOUGHT, FOUND, SAID, ASKED)
    assert reply.text == "I look."
    assert reply.tool_calls == (CALL,)
    thought, found, said, asked = again(reply)
    assert [thought, found, said] == [THOUGHT, FOUND, SAID]
    assert asked == {key: value for key, value in dict_of(ASKED).items() if key != "status"}


def dict_of(value: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(value, dict)
    return value


def test_what_stood_beside_text_that_was_dropped_is_not_given_to_the_call_after_it() -> None:
    leaked: JsonValue = [{"type": "output_text", "text": '{"path":"ä.md"}'}]
    plain = {key: value for key, value in dict_of(ASKED).items() if key not in ("id", "status")}
    assert again(parsed({**dict_of(SAID), "content": leaked}, plain)) == [plain]


def test_reasoning_that_nothing_follows_is_left_out_and_a_summary_is_shown() -> None:
    summary: JsonValue = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]
    reply = parsed({**dict_of(THOUGHT), "summary": summary})
    assert reply.parts[0] == ReasoningPart(text="One.\n\nTwo.")
    assert again(reply) == []


def test_what_another_provider_marked_as_its_own_stays_behind() -> None:
    parts = (ProviderPart(provider="anthropic", data={"item": {}}), ReasoningPart(text="Hm.", signature="s"), CALL)
    (item,) = render_items([Message(role=MessageRole.ASSISTANT, parts=parts)])
    assert dict_of(item)["type"] == "function_call"


HERE, THERE = "openai-responses@api.openai.com", "openai-responses@ours.openai.azure.com"
CITED: dict[str, JsonValue] = {"type": "output_text", "text": "Tea.", "annotations": [{"url": "https://tea.example"}]}


def test_what_one_host_marked_as_its_own_stays_behind_at_another() -> None:
    body = json.dumps({"status": "completed", "output": [THOUGHT, FOUND, {**dict_of(SAID), "content": [CITED]}, ASKED]})
    messages = [Message(role=MessageRole.ASSISTANT, parts=parse_body(body, HERE).parts)]
    call: JsonValue = {key: dict_of(ASKED)[key] for key in ("type", "call_id", "name", "arguments")}
    assert list(render_items(messages, HERE))[:2] == [THOUGHT, FOUND]
    assert list(render_items(messages, THERE)) == [{"role": "assistant", "content": "Tea."}, call]


def test_a_model_that_is_asked_for_no_encrypted_reasoning_is_sent_none_of_another_one() -> None:
    shown: JsonValue = {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "t", "text": "Hm."}]}

    def sent(parameters: dict[str, JsonValue], *output: JsonValue) -> list[str]:
        reply = Message(role=MessageRole.ASSISTANT, parts=parsed(*output).parts)
        body = render_request("m", ModelRequest(messages=[reply]), parameters)
        return [str(dict_of(item).get("id")) for item in as_list(body["input"])]

    asks: dict[str, JsonValue] = {"include": ["reasoning.encrypted_content"]}
    assert sent(asks, THOUGHT, SAID, ASKED) == ["rs_1", "msg_1", "fc_1"]
    assert sent({"include": []}, THOUGHT, SAID, ASKED) == ["None", "None"]
    assert sent({"include": []}, shown, SAID, ASKED) == ["rs_2", "msg_1", "fc_1"]


def test_nothing_is_stored_and_parameters_go_into_the_body() -> None:
    request = ModelRequest(
        messages=[Message.user("?")],
        tools=[TOOL],
        tool_choice=ToolChoice.REQUIRED,
        parallel_tool_calls=False,
        parameters={"max_output_tokens": 9},
    )
    assert render_request("m", request, {"max_output_tokens": 5, "include": []}) == {
        "model": "m",
        "store": False,
        "include": [],
        "max_output_tokens": 9,
        "input": [{"role": "user", "content": "?"}],
        "tools": [
            {
                "type": "function",
                "name": "read_file",
                "description": "Read a file.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }
    with pytest.raises(ConfigurationError, match="store"):
        render_request("m", request, {"store": True})


def test_media_go_by_address_as_far_as_the_protocol_takes_them() -> None:
    parts = (
        MediaPart(uri="u.png", mime_type="image/png"),
        MediaPart(uri="u.pdf", mime_type="application/pdf"),
        MediaPart(uri="data:application/pdf;base64,JVBE", mime_type="application/pdf"),
    )
    (item,) = render_items([Message(role=MessageRole.USER, parts=parts)])
    assert dict_of(item)["content"] == [
        {"type": "input_image", "image_url": "u.png", "detail": "auto"},
        {"type": "input_file", "file_url": "u.pdf"},
        {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,JVBE"},
    ]
    sound = Message(role=MessageRole.USER, parts=(MediaPart(uri="u.mp3", mime_type="audio/mpeg"),))
    with pytest.raises(ConfigurationError, match="audio/mpeg"):
        list(render_items([sound]))


@pytest.mark.parametrize(
    ("output", "fields", "reason", "raw"),
    [
        ([SAID], {}, FinishReason.STOP, "completed"),
        ([ASKED], {}, FinishReason.TOOL_CALLS, "completed"),
        ([SAID], {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length", None),
        ([ASKED], {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length", None),
        ([SAID], {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter", None),
        ([SAID], {"status": "incomplete", "incomplete_details": None}, FinishReason.LENGTH, "incomplete"),
        ([], {"status": "queued"}, FinishReason.PAUSED, "queued"),
        ([], {"status": "in_progress"}, FinishReason.PAUSED, "in_progress"),
        ([SAID], {"status": "something new"}, FinishReason.OTHER, "something new"),
        ([SAID], {"status": None}, FinishReason.OTHER, None),
    ],
)
def test_the_status_and_its_details_say_why_it_ended(
    output: list[JsonValue], fields: dict[str, JsonValue], reason: str, raw: str | None
) -> None:
    reply = parsed(*output, **fields)
    details = fields.get("incomplete_details")
    assert reply.finish_reason == reason
    assert reply.raw_finish_reason == (details["reason"] if isinstance(details, dict) else raw)


def test_a_refusal_is_text_that_was_filtered() -> None:
    refusal: JsonValue = [{"type": "refusal", "refusal": "I cannot."}]
    reply = parsed({**dict_of(SAID), "content": refusal})
    assert (reply.text, reply.finish_reason) == ("I cannot.", FinishReason.CONTENT_FILTER)


@pytest.mark.parametrize(
    ("fields", "message", "code"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "Sorry."}}, "Sorry.", "server_error"),
        ({"status": "failed", "error": None}, "the response of the model is marked failed", None),
        ({"status": "cancelled"}, "the response of the model is marked cancelled", None),
    ],
)
def test_a_failure_that_comes_as_data_is_raised(fields: dict[str, JsonValue], message: str, code: str | None) -> None:
    with pytest.raises(ModelFailed, match=message) as caught:
        parsed(SAID, **fields)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("none", "no output"),
        ([{"type": "function_call", "call_id": "c"}], "without a name"),
        ([{"type": "function_call"}], "call"),
    ],
)
def test_what_cannot_be_a_reply_is_invalid(output: JsonValue, why: str) -> None:
    with pytest.raises(ModelReplyInvalid, match=why):
        parsed(output=output)


def test_arguments_that_are_no_json_are_kept_as_text_and_go_back_as_json() -> None:
    reply = parsed({**dict_of(ASKED), "arguments": '{"path": '})
    assert reply.tool_calls[0].raw == '{"path": '
    (item,) = again(reply)
    assert json.loads(str(dict_of(item)["arguments"])) == {"invalid_json": '{"path": '}


def test_a_last_event_without_output_is_filled_from_the_items_that_were_done() -> None:
    assembly = ResponsesAssembly()
    for place, item in ((1, ASKED), (0, SAID)):
        list(assembly.add({"type": "response.output_item.done", "output_index": place, "item": item}))
    with pytest.raises(StreamBroken):
        assembly.body()
    list(assembly.add({"type": "response.completed", "response": {"status": "completed", "output": []}}))
    assert assembly.body() == {"status": "completed", "output": [SAID, ASKED]}


def test_an_error_among_the_events_is_raised() -> None:
    event: JsonValue = {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down."}
    with pytest.raises(ModelFailed, match=r"Slow down\.") as caught:
        list(ResponsesAssembly().add(event))
    assert caught.value.code == "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("said", "message"),
    [({}, "marked failed"), ({"error": {"code": "server_error", "message": "Sorry."}}, r"Sorry\.")],
)
def test_a_last_event_without_a_response_still_says_how_it_ended(said: dict[str, JsonValue], message: str) -> None:
    assembly = ResponsesAssembly()
    list(assembly.add({"type": "response.output_item.done", "output_index": 0, "item": SAID}))
    list(assembly.add({"type": "response.failed", "response": None, **said}))
    with pytest.raises(ModelFailed, match=message):
        parse_body(json.dumps(assembly.body()))


ANSWER: JsonValue = {"type": "function_call_output", "call_id": "call_1", "output": "milk"}
USER: JsonValue = {"role": "user", "content": "?"}


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ([USER, ASKED, ANSWER], None),
        ([USER, THOUGHT, SAID, ASKED, ANSWER, USER], None),
        ([], "must be provided"),
        ([USER, ASKED], "No tool output found"),
        ([USER, ASKED, USER], "No tool output found"),
        ([USER, ANSWER], "No tool call found"),
        ([USER, ASKED, ANSWER, ANSWER], "No tool call found"),
        ([USER, ASKED, ASKED, ANSWER], "Duplicate"),
        ([{"role": "tool", "content": "?"}], "Supported values"),
        ([{"role": "user", "content": "?", "name": "ana"}], "Unknown parameter: 'name'"),
        ([{"role": "user", "content": None}], "content"),
        ([USER, {"type": "function_call", "call_id": "c", "name": "f", "arguments": {"a": 1}}, ANSWER], "'arguments'"),
        ([USER, THOUGHT], "required following item"),
        ([USER, THOUGHT, USER], "required following item"),
        ([USER, {**dict_of(THOUGHT), "encrypted_content": "y=="}, SAID], "could not be verified"),
        ([USER, {**dict_of(THOUGHT), "id": "rs_2"}, SAID], "could not be verified"),
        ([USER, SAID], "required 'reasoning' item"),
    ],
)
def test_the_scripted_server_refuses_what_the_real_one_refuses(items: list[JsonValue], why: str | None) -> None:
    issued = [{"output": [THOUGHT, SAID]}]
    refusal = why_refused({"model": "m", "input": items}, issued)
    assert refusal is None if why is None else refusal is not None and why in refusal
