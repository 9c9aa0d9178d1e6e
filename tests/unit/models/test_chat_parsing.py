import json

import pytest

from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import ProviderPart, ReasoningPart, TextPart, ToolCallPart
from steptrail.domain.usage import Usage
from steptrail.infrastructure.models.chat_parsing import parse_body, parse_reply
from steptrail.infrastructure.models.errors import ModelFailed, ModelReplyInvalid
from steptrail.infrastructure.models.leaked_arguments import without_leaked_arguments
from steptrail.infrastructure.models.normalising import finish_reason, usage
from steptrail.runtime.agent.capture import capture

ARGUMENTS = '{"path": "notes.md", "lines": 3}'


def call(arguments: JsonValue = ARGUMENTS, *, call_id: str = "call_1") -> dict[str, JsonValue]:
    return {"id": call_id, "type": "function", "function": {"name": "read_file", "arguments": arguments}}


def body(
    content: JsonValue = None,
    *calls: JsonValue,
    reason: JsonValue = "stop",
    **message: JsonValue,
) -> dict[str, JsonValue]:
    whole: dict[str, JsonValue] = {"role": "assistant", "content": content, **message}
    if calls:
        whole["tool_calls"] = list(calls)
    choice: dict[str, JsonValue] = {"index": 0, "message": whole, "finish_reason": reason}
    return {"id": "chatcmpl-1", "model": "m-2026", "choices": [choice]}


def parsed(content: JsonValue = None, *calls: JsonValue, reason: JsonValue = "stop") -> ModelReply:
    return parse_reply(body(content, *calls, reason=reason))


@pytest.mark.acceptance("1.2-1")
@pytest.mark.parametrize("content", [None, "", "  \n"])
def test_a_tool_call_with_empty_content_has_no_text(content: JsonValue) -> None:
    reply = parsed(content, call(), reason="tool_calls")
    assert reply.parts == (ToolCallPart(id="call_1", name="read_file", arguments={"path": "notes.md", "lines": 3}),)
    assert reply.text == ""


@pytest.mark.acceptance("1.2-2")
def test_a_tool_call_with_natural_language_keeps_it() -> None:
    reply = parsed("Let me look at the notes.", call(), reason="tool_calls")
    assert reply.text == "Let me look at the notes."
    assert [part.kind for part in reply.parts] == ["text", "tool_call"]


@pytest.mark.acceptance("1.2-3")
@pytest.mark.parametrize("content", ["The notes say: buy milk.", "0", "null", "{}", ARGUMENTS, " "])
def test_a_final_reply_is_its_text(content: str) -> None:
    assert parsed(content).parts == (TextPart(text=content),)


@pytest.mark.parametrize("message", [{"content": None}, {}, {"content": ""}])
def test_no_content_is_no_text(message: dict[str, JsonValue]) -> None:
    reply = parse_reply({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (reply.parts, reply.text) == ((), "")


def test_the_arguments_of_a_call_are_never_text() -> None:
    reply = parsed(None, call(), call('{"path": "b"}', call_id="call_2"), reason="tool_calls")
    assert reply.text == ""
    assert [part.arguments for part in reply.tool_calls] == [{"path": "notes.md", "lines": 3}, {"path": "b"}]


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ('{"path": "notes.md", "lines": 3}', False),
        ('\n {"lines":3,"path":"notes.md"} ', False),
        ('{"path": "notes.md", "lines": 3.0}', True),
        ('{"path": "notes.md", "lines": "3"}', True),
        ('{"path": "notes.md"}', True),
        ('Calling with {"path": "notes.md", "lines": 3} now', True),
        ('{"path": "notes.md", "lines": 3', True),
        ('{"path": "notes.md", "lines": 3} {"path": "notes.md", "lines": 3}', True),
        ("3", True),
        ("null", True),
    ],
)
def test_content_that_only_repeats_the_arguments_is_dropped(content: str, kept: bool) -> None:
    assert parsed(content, call(), reason="tool_calls").text == (content if kept else "")


@pytest.mark.parametrize(
    ("content", "arguments", "kept"),
    [
        ('{"on": true}', {"on": 1}, True),
        ('{"on": true}', {"on": True}, False),
        ('{"on": 0}', {"on": False}, True),
        ('{"on": null}', {}, True),
        ("{}", {}, False),
        ('{"a": [1, {"b": 2}]}', {"a": [1, {"b": 2}]}, False),
        ('{"a": [1, {"b": true}]}', {"a": [1, {"b": 1}]}, True),
        ('{"a": [1, 2]}', {"a": [1]}, True),
    ],
)
def test_equal_means_of_the_same_type_at_every_depth(content: str, arguments: dict[str, JsonValue], kept: bool) -> None:
    calls = [
        ToolCallPart(id="1", name="other", arguments={"something": "else"}),
        ToolCallPart(id="2", name="set", arguments=arguments),
    ]
    assert without_leaked_arguments(content, calls) == (content if kept else "")


def test_content_that_repeats_arguments_that_are_no_object_is_dropped_too() -> None:
    assert parsed("[1]", call("[1]"), reason="tool_calls").text == ""
    assert parsed("null", call("{broken"), reason="tool_calls").text == "null"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), (None, {}), ("", {}), (" ", {}), ("{}", {}), ("null", {})],
)
def test_arguments_are_text_or_an_object_or_missing(arguments: JsonValue, expected: JsonValue) -> None:
    (found,) = parsed(None, call(arguments), reason="tool_calls").tool_calls
    assert (found.arguments, found.raw) == (expected, None)


@pytest.mark.parametrize(
    "arguments",
    ['{"a": 1', "[1]", '"text"', "nul", '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud83d"}', "[" * 100_000],
)
def test_text_that_is_no_json_object_is_kept_as_it_came(arguments: str) -> None:
    (found,) = parsed(None, call(arguments), reason="tool_calls").tool_calls
    assert (found.arguments, found.raw) == (None, arguments)


@pytest.mark.parametrize("as_text", [True, False])
def test_arguments_that_are_nested_too_deep_for_the_log_are_kept_as_text(as_text: bool) -> None:
    inner: JsonValue = "the bottom"
    for _ in range(99):
        inner = [inner]
    fits: JsonValue = {"a": inner}
    (kept,) = parsed(None, call(json.dumps(fits) if as_text else fits), reason="tool_calls").tool_calls
    assert (kept.arguments, kept.raw) == (fits, None)
    deeper: JsonValue = {"a": [inner]}
    (found,) = parsed(None, call(json.dumps(deeper) if as_text else deeper), reason="tool_calls").tool_calls
    assert (found.arguments, found.raw) == (None, json.dumps(deeper))


def test_arguments_of_another_kind_are_kept_as_json() -> None:
    (found,) = parsed(None, call([1, "a"]), reason="tool_calls").tool_calls
    assert (found.arguments, found.raw) == (None, '[1, "a"]')


MALFORMED: list[JsonValue] = [
    {"id": "call_9"},
    {"id": "call_9", "function": {"arguments": "{}"}},
    {"id": "call_9", "function": {"name": ""}},
    "call",
]


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_call_without_function_or_name_is_skipped_beside_others(malformed: JsonValue) -> None:
    assert [part.id for part in parsed(None, malformed, call(), reason="tool_calls").tool_calls] == ["call_1"]
    assert parsed("A word.", malformed, reason="tool_calls").parts == (TextPart(text="A word."),)


@pytest.mark.parametrize("malformed", MALFORMED)
def test_a_reply_of_nothing_but_malformed_calls_is_invalid(malformed: JsonValue) -> None:
    with pytest.raises(ModelReplyInvalid, match="none of them has a function"):
        parsed(None, malformed, reason="tool_calls")


def test_a_call_in_the_form_before_tools_is_invalid_and_not_an_empty_answer() -> None:
    with pytest.raises(ModelReplyInvalid, match="none of them has a function"):
        parse_reply(body(None, reason="function_call", function_call={"name": "f", "arguments": "{}"}))


def test_a_refusal_is_filtered_content_and_its_words_are_kept() -> None:
    reply = parse_reply(body(None, reason="stop", refusal="I cannot help with that."))
    assert (reply.finish_reason, reply.raw_finish_reason) == (FinishReason.CONTENT_FILTER, "stop")
    assert reply.text == "I cannot help with that."
    assert parse_reply(body("Fine.", refusal=None)).finish_reason is FinishReason.STOP


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("stop", FinishReason.STOP),
        ("complete", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("end_turn", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("max_tokens", FinishReason.LENGTH),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("model_length", FinishReason.LENGTH),
        ("tool_call", FinishReason.TOOL_CALLS),
        ("tool_calls", FinishReason.TOOL_CALLS),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("function_call", FinishReason.TOOL_CALLS),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("Safety", FinishReason.CONTENT_FILTER),
        ("recitation", FinishReason.CONTENT_FILTER),
        ("blocklist", FinishReason.CONTENT_FILTER),
        ("language", FinishReason.CONTENT_FILTER),
        ("prohibited_content", FinishReason.CONTENT_FILTER),
        ("SPII", FinishReason.CONTENT_FILTER),
        ("error", FinishReason.ERROR),
        ("malformed_function_call", FinishReason.ERROR),
        ("eureka", FinishReason.OTHER),
        ("", FinishReason.OTHER),
        (None, FinishReason.OTHER),
    ],
)
def test_a_finish_reason_is_normalised_and_kept(raw: str | None, expected: FinishReason) -> None:
    assert finish_reason(raw) is expected
    reply = parsed("text", reason=raw)
    assert (reply.finish_reason, reply.raw_finish_reason) == (expected, raw or None)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("stop", FinishReason.TOOL_CALLS),
        (None, FinishReason.TOOL_CALLS),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("error", FinishReason.ERROR),
    ],
)
def test_beside_tool_calls_only_stop_gives_way(raw: str | None, expected: FinishReason) -> None:
    reply = parsed(None, call(), reason=raw)
    assert (reply.finish_reason, reply.raw_finish_reason) == (expected, raw)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}, Usage(input=10, output=4)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 8,
                "total_tokens": 18,
                "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Usage(input=3, cache_read=6, cache_write=1, output=3, reasoning=5),
        ),
        (
            {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 2}},
            Usage(cache_read=5),
        ),
        ({"completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 9}}, Usage(reasoning=2)),
        (
            {
                "prompt_tokens": 1,
                "completion_tokens": 2,
                "total_tokens": 12,
                "completion_tokens_details": {"reasoning_tokens": 9},
            },
            Usage(input=1, output=2, reasoning=9),
        ),
        ({"prompt_tokens": -3, "completion_tokens": "many", "total_tokens": True}, Usage()),
        # Gemini by Google's compatible endpoint: what it thinks is only in the total.
        ({"prompt_tokens": 8, "completion_tokens": 64, "total_tokens": 100}, Usage(input=8, output=64, reasoning=28)),
        # Voxtral by Mistral: sounds are only in the total, and the cached ones among them.
        (
            {
                "prompt_tokens": 5,
                "prompt_audio_seconds": 5,
                "completion_tokens": 24,
                "total_tokens": 404,
                "prompt_tokens_details": {"cached_tokens": 368},
            },
            Usage(input=12, cache_read=368, output=24),
        ),
        ({"prompt_tokens": 3.0, "completion_tokens": 2.5, "total_tokens": 6.0}, Usage(input=3, reasoning=3)),
        ({"total_tokens": 7}, Usage(reasoning=7)),
        ({"prompt_tokens": 3, "prompt_tokens_details": None, "completion_tokens_details": None}, Usage(input=3)),
        (None, Usage()),
    ],
)
def test_tokens_are_counted_once_and_never_negative(counts: JsonValue, expected: Usage) -> None:
    assert usage(counts) == expected


def test_ids_and_model_of_the_reply_are_kept() -> None:
    reply = parsed("text")
    assert (reply.response_id, reply.response_model) == ("chatcmpl-1", "m-2026")


def test_content_in_parts_is_joined() -> None:
    pieces: list[JsonValue] = [{"type": "text", "text": "one "}, {"type": "image"}, {"type": "text", "text": "two"}]
    assert parsed(pieces).text == "one two"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_what_a_server_shows_of_its_reasoning_is_kept_apart_from_the_text(field: str) -> None:
    reply = parse_reply(body("So it is 4.", **{field: "2 and 2"}))
    assert [part for part in reply.parts if not isinstance(part, ProviderPart)] == [
        ReasoningPart(text="2 and 2"),
        TextPart(text="So it is 4."),
    ]
    assert reply.text == "So it is 4."


def test_what_must_go_back_verbatim_is_opaque() -> None:
    signature: JsonValue = {"google": {"thought_signature": "abc"}}
    details: JsonValue = [{"type": "reasoning.encrypted", "data": "xyz"}]
    reply = parse_reply(body(None, {**call(), "extra_content": signature}, reasoning_details=details))
    assert [part for part in reply.parts if isinstance(part, ProviderPart)] == [
        ProviderPart(provider="openai", data={"message": {"reasoning_details": details}}),
        ProviderPart(provider="openai", data={"beside": "tool_call", "fields": {"extra_content": signature}}),
    ]


@pytest.mark.parametrize(
    ("wrong", "message", "status"),
    [
        ({"error": {"message": "upstream is down", "code": 502}}, "upstream is down", 502),
        ({"error": "upstream is down"}, "upstream is down", None),
        ({"choices": [{"error": {"message": "cut"}}]}, "cut", None),
        ({"error": {"code": 429}}, "the provider reports an error", 429),
    ],
)
def test_an_error_in_the_place_of_a_reply_is_a_failure_of_the_model(
    wrong: JsonValue, message: str, status: int | None
) -> None:
    with pytest.raises(ModelFailed, match=message) as caught:
        parse_reply(wrong)
    info = capture(caught.value, default=ErrorType.MODEL, now=0.0)
    assert (info.type, info.status_code) == (ErrorType.RATE_LIMIT if status == 429 else ErrorType.MODEL, status)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({}, "no choices"),
        ([], "no choices"),
        (None, "no choices"),
        ("text", "no choices"),
        ({"choices": []}, "no choices"),
        ({"choices": {"0": {}}}, "no choices"),
        ({"choices": [None]}, "no message"),
        ({"choices": [{"finish_reason": "stop"}]}, "no message"),
        ({"choices": [{"message": {"content": 5}}]}, "is a int"),
    ],
)
def test_a_body_that_is_no_reply_is_refused_with_the_reason(wrong: JsonValue, why: str) -> None:
    with pytest.raises(ModelReplyInvalid, match=why):
        parse_reply(wrong)


@pytest.mark.parametrize("text", ["", "<html>", '{"choices": [', "[" * 100_000, '{"x": NaN}'])
def test_a_body_that_is_no_json_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ModelReplyInvalid, match=f"the body \\({len(text)} characters\\) is not JSON"):
        parse_body(text)


def test_a_character_cut_in_half_can_be_stored() -> None:
    text = json.dumps(body("smile \ud83d", reason="length"))
    assert parse_body(text).text == "smile \ufffd"
    assert parse_body(json.dumps(body("smile \U0001f600"))).text == "smile \U0001f600"
