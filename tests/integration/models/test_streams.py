"""Streams over real HTTP: what they show, how they break, and what is recorded of it."""

import json
import os
from pathlib import Path

import msgspec
import openai
import pytest
from pydantic import TypeAdapter

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.inference import FinishReason, ModelDelta, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.infrastructure.models.anthropic import MAX_PAUSES, AnthropicModel
from steptrail.infrastructure.models.openai import OpenAIModel
from steptrail.runtime.agent.capture import capture
from steptrail.testing.model_contract import LOOKUP, lookup_request, streamed
from steptrail.testing.model_script import (
    ScriptedReply,
    answer,
    cut_off,
    failed_inside,
    hang,
    json_body,
    overloaded,
    rate_limited,
    sse_body,
    tool_calls,
    unfinished,
)
from steptrail.testing.model_server import ModelServer
from tests.integration.models.wires import DRIVERS, SECRET, driver_of

HELLO = ModelRequest(messages=[Message.user("hi")])
NOW = 1_800_000_000.0
every_protocol = pytest.mark.parametrize("protocol", DRIVERS)


@pytest.fixture
def server(typed_server: ModelServer) -> ModelServer:
    return typed_server


async def heard(
    protocol: str, server: ModelServer, *script: ScriptedReply, request: ModelRequest = HELLO
) -> tuple[list[ModelDelta], ModelReply]:
    """Return a streamed reply, having made sure that the same reply without streaming is the same."""

    server.play(script)
    driver = driver_of(protocol, server)
    try:
        whole = await driver.infer(request)
        server.play(script)
        deltas, reply = await streamed(driver, request)
    finally:
        await driver.close()
    assert reply == whole
    return deltas, reply


async def failure(
    protocol: str, server: ModelServer, script: ScriptedReply, *, timeout: float = 30.0, stream: bool = True
) -> tuple[list[ModelDelta], ErrorInfo]:
    """Return what was shown before a call failed, and what is recorded of the failure."""
    shown: list[ModelDelta] = []

    async def main() -> None:
        driver = driver_of(protocol, server, timeout=timeout)
        try:
            if not stream:
                await driver.infer(HELLO)
            async for piece in driver.stream(HELLO):
                assert isinstance(piece, ModelDelta)
                shown.append(piece)
        finally:
            await driver.close()

    server.play([script, answer("a retry by the SDK would get this")])
    with pytest.raises(Exception, match=r".") as caught:
        await main()
    # On a busy machine a call with little time may not come so far as to send its request.
    assert len(server.requests()) in ({1} if timeout >= 30 else {0, 1})
    return shown, capture(caught.value, default=ErrorType.UNKNOWN, now=NOW)


def text_of(deltas: list[ModelDelta], kind: str = "text") -> str:
    return "".join(delta.text for delta in deltas if delta.kind == kind)


@every_protocol
async def test_text_and_thinking_come_in_pieces_and_the_reply_is_the_one_without_streaming(
    protocol: str, server: ModelServer
) -> None:
    deltas, reply = await heard(protocol, server, answer("It is late, very late.", reasoning="What time is it?"))
    assert (text_of(deltas), text_of(deltas, "reasoning")) == ("It is late, very late.", "What time is it?")
    assert len(deltas) > 4
    assert reply.text == "It is late, very late."


@every_protocol
async def test_two_calls_side_by_side_are_the_calls_without_streaming(protocol: str, server: ModelServer) -> None:
    script = tool_calls(("lookup", {"order": "A1"}), ("lookup", {"order": "C3"}), text="Let me look.")
    deltas, reply = await heard(protocol, server, script, request=lookup_request())
    assert text_of(deltas) == "Let me look."
    assert [(call.id, call.arguments) for call in reply.tool_calls] == [
        ("call_1", {"order": "A1"}),
        ("call_2", {"order": "C3"}),
    ]


@every_protocol
@pytest.mark.parametrize(
    ("text", "kept"),
    [('{"order": "C3"}', ""), ('\n{"order":\n"C3"}', ""), ('{"order": "A1"}', '{"order": "A1"}'), (" \n", "")],
)
async def test_arguments_repeated_as_text_are_neither_shown_nor_kept(
    protocol: str, server: ModelServer, text: str, kept: str
) -> None:
    deltas, reply = await heard(
        protocol, server, tool_calls(("lookup", {"order": "C3"}), text=text), request=lookup_request()
    )
    assert text_of(deltas) == reply.text == kept


@every_protocol
async def test_json_that_answers_is_shown_as_it_is_written_when_no_call_can_follow_and_late_otherwise(
    protocol: str, server: ModelServer
) -> None:
    script = answer('{"state": "paid"}')
    pieces, _ = await heard(protocol, server, script)
    whole, reply = await heard(protocol, server, script, request=lookup_request())
    assert len(pieces) > 3
    assert [delta.text for delta in whole] == [text_of(pieces)] == [reply.text]


@every_protocol
async def test_a_connection_that_is_cut_shows_what_came_and_fails_as_the_model_does(
    protocol: str, server: ModelServer
) -> None:
    shown, info = await failure(protocol, server, cut_off())
    assert "It is late, I think.".startswith(text_of(shown))
    assert (info.type, info.retryable) == (ErrorType.MODEL, True)
    assert any("RemoteProtocolError" in cause for cause in info.causes)


@every_protocol
async def test_a_stream_that_ends_without_a_reason_is_broken(protocol: str, server: ModelServer) -> None:
    shown, info = await failure(protocol, server, unfinished("It is"))
    assert text_of(shown) == "It is"
    assert (info.type, info.retryable) == (ErrorType.MODEL, True)
    assert info.causes[0].startswith("steptrail.domain.errors:StreamBroken")


@every_protocol
@pytest.mark.parametrize("text", ["{nope", "<html>", '{"a": NaN}'])
async def test_an_event_that_is_not_json_is_told_as_a_body_that_is_not(
    protocol: str, server: ModelServer, text: str
) -> None:
    _, info = await failure(protocol, server, sse_body(f"event: message\ndata: {text}\n\n"))
    assert (info.type, info.retryable) == (ErrorType.MODEL, True)
    assert (
        info.message == f"the model's reply cannot be used: an event of the stream ({len(text)} characters) is not JSON"
    )


@every_protocol
@pytest.mark.parametrize("stream", [True, False])
async def test_a_page_in_the_place_of_a_reply_is_none(protocol: str, server: ModelServer, stream: bool) -> None:
    """The address of a web interface, or of a proxy that asks for a login, in the place of that of a model."""
    page: ScriptedReply = {"kind": "raw", "text": "<html>\n\n</html>", "content_type": "text/html; charset=utf-8"}
    _, info = await failure(protocol, server, page, stream=stream)
    assert info.error_class.endswith(":ModelReplyInvalid")
    assert info.message.startswith("the model's reply cannot be used: ")


@every_protocol
@pytest.mark.parametrize("said", ['{"error": {"message": "Not today."}}', '{"message": "Not today."}', "Not today."])
async def test_an_event_that_is_named_error_is_one(protocol: str, server: ModelServer, said: str) -> None:
    _, info = await failure(protocol, server, sse_body(f"event: error\ndata: {said}\n\n"))
    assert (info.type, info.retryable, info.message) == (ErrorType.MODEL, True, "Not today.")


@every_protocol
async def test_a_stream_that_breaks_off_names_the_model_and_the_address(protocol: str, server: ModelServer) -> None:
    _, info = await failure(protocol, server, cut_off())
    assert info.message.startswith(f"the reply of the model 'scripted' at {server.root}")
    assert info.message.endswith("broke off")


@every_protocol
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("code", "expected", "retryable"),
    [
        ("rate_limit_exceeded", ErrorType.RATE_LIMIT, True),
        ("overloaded_error", ErrorType.MODEL, True),
        ("server_error", ErrorType.MODEL, True),
        ("invalid_prompt", ErrorType.MODEL, False),
        ("vector_store_timeout", ErrorType.TIMEOUT, True),
    ],
)
async def test_a_failure_inside_a_successful_response_is_recorded_as_what_it_is(
    protocol: str, server: ModelServer, code: str, expected: ErrorType, retryable: bool, stream: bool
) -> None:
    _, info = await failure(protocol, server, failed_inside(code, "Not today."), stream=stream)
    assert (info.type, info.retryable, info.code) == (expected, retryable, code)
    assert info.message == "Not today."


@every_protocol
@pytest.mark.parametrize("stream", [True, False])
async def test_a_status_is_recorded_as_what_it_is(protocol: str, server: ModelServer, stream: bool) -> None:
    _, slow = await failure(protocol, server, rate_limited(retry_after="20"), stream=stream)
    assert (slow.type, slow.retryable, slow.retry_after, slow.status_code) == (ErrorType.RATE_LIMIT, True, 20.0, 429)
    _, down = await failure(protocol, server, overloaded(), stream=stream)
    assert (down.type, down.retryable, down.status_code) == (ErrorType.MODEL, True, 500)


@every_protocol
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_that_hangs_ends_at_the_deadline(protocol: str, server: ModelServer, stream: bool) -> None:
    _, info = await failure(protocol, server, hang(60), timeout=0.3, stream=stream)
    assert (info.type, info.error_class) == (ErrorType.TIMEOUT, "builtins:TimeoutError")
    assert info.message == "no reply from the model 'scripted' within 0.3 s"


@every_protocol
async def test_the_key_is_sent_and_never_recorded(protocol: str, server: ModelServer) -> None:
    _, info = await failure(protocol, server, overloaded())
    (request,) = server.requests()
    assert SECRET in json.dumps(request.headers)
    assert SECRET not in msgspec.json.encode(info).decode()


@every_protocol
@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("never_heard_of", FinishReason.OTHER),
    ],
)
async def test_the_finish_reason_is_normalised_and_the_providers_word_kept(
    protocol: str, server: ModelServer, word: str, reason: FinishReason
) -> None:
    _, reply = await heard(protocol, server, answer("It is", finish_reason=word))
    assert reply.finish_reason is reason
    assert reply.raw_finish_reason


@every_protocol
async def test_tokens_are_told_apart(protocol: str, server: ModelServer) -> None:
    counts: dict[str, JsonValue] = {
        "prompt_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "completion_tokens": 20,
        "completion_tokens_details": {"reasoning_tokens": 15},
        "total_tokens": 120,
    }
    _, reply = await heard(protocol, server, answer("It is late.", usage=counts))
    used = reply.usage
    assert (used.input, used.cache_read, used.cache_write, used.output, used.reasoning) == (10, 60, 30, 5, 15)


_TURNS: TypeAdapter[list[JsonValue]] = TypeAdapter(list[JsonValue])
SEARCH: JsonValue = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "time"}}


def dict_of(block: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(block, dict)
    return block


async def test_a_turn_that_is_paused_goes_on_by_itself_and_is_one_reply(server: ModelServer) -> None:
    paused = answer("Let me search.", finish_reason="pause_turn", reasoning="It is asked.", opaque=SEARCH)
    _, reply = await heard("anthropic", server, paused, paused, answer(" It is late."))
    assert reply.text == "Let me search.Let me search. It is late."
    assert (reply.finish_reason, reply.raw_finish_reason) == (FinishReason.STOP, "end_turn")
    assert (reply.usage.input, reply.usage.output) == (33, 21)
    (first, *rest) = [_TURNS.validate_python(request.body["messages"]) for request in server.requests()]
    blocks: list[JsonValue] = [
        {"type": "thinking", "thinking": "It is asked.", "signature": "signed-1=="},
        SEARCH,
        {"type": "text", "text": "Let me search."},
    ]
    again: list[JsonValue] = [{**dict_of(blocks[0]), "signature": "signed-2=="}, *blocks[1:]]
    once, twice = ({"role": "assistant", "content": so_far} for so_far in (blocks, blocks + again))
    assert rest == [[*first, once], [*first, twice]]


async def test_a_turn_that_is_paused_for_ever_is_returned_as_paused(server: ModelServer) -> None:
    server.play([answer("Let me search.", finish_reason="pause_turn")] * (MAX_PAUSES + 2))
    driver = AnthropicModel("scripted", base_url=server.root)
    try:
        reply = await driver.infer(HELLO)
    finally:
        await driver.close()
    assert (reply.finish_reason, len(server.requests())) == (FinishReason.PAUSED, MAX_PAUSES + 1)


@pytest.mark.parametrize("protocol", ["responses", "anthropic"])
async def test_reasoning_that_does_not_come_back_is_refused_by_the_server(protocol: str, server: ModelServer) -> None:
    async def main() -> None:
        driver = driver_of(protocol, server)
        try:
            asked = await driver.infer(lookup_request())
            (call,) = asked.tool_calls
            history = [*lookup_request().messages, Message.assistant(tool_calls=(call,)), result(call)]
            await driver.infer(ModelRequest(messages=history, tools=[LOOKUP]))
        finally:
            await driver.close()

    # The id of the item is what the Responses API knows it by, and `Message.assistant` leaves that out too.
    server.play([tool_calls(("lookup", {"order": "C3"}), reasoning="Hm."), answer("not given out")])
    with pytest.raises(Exception, match=r"reasoning|thinking"):
        await main()


def result(call: ToolCallPart) -> Message:
    return Message.tool(call.id, call.name, "paid")


async def test_anthropic_finds_its_key_or_says_which_is_missing(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))

    async def once(model: AnthropicModel) -> str:
        try:
            return (await model.infer(HELLO)).text
        finally:
            await model.close()

    server.play([answer("by argument"), answer("by environment")])
    assert await once(AnthropicModel("m", base_url=server.root)) == "by argument"
    with pytest.raises(ConfigurationError, match="set ANTHROPIC_API_KEY"):
        await once(AnthropicModel("m"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-environment")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.root)
    assert await once(AnthropicModel("m")) == "by environment"
    assert [request.headers["x-api-key"] for request in server.requests()] == ["unused", "k-environment"]


async def test_a_client_of_ones_own_is_used_without_its_retries_and_left_open(server: ModelServer) -> None:
    # Some thousand modules, which each process that collects the tests would import.
    import anthropic

    server.play([overloaded(), answer("a retry by the SDK would get this")])
    async with anthropic.AsyncAnthropic(api_key="k-mine", base_url=server.root, max_retries=5) as client:
        model = AnthropicModel("m", client=client)
        with pytest.raises(anthropic.InternalServerError):
            await streamed(model, HELLO)
        await model.close()
        assert client.is_closed() is False
    assert [request.headers["x-api-key"] for request in server.requests()] == ["k-mine"]


async def test_a_key_in_a_header_of_a_client_of_ones_own_is_not_recorded(server: ModelServer) -> None:
    # Some thousand modules, which each process that collects the tests would import.
    import anthropic

    server.play([json_body({"error": {"message": "nobody knows the back door"}}, status=401)] * 2)
    key, headers = "k-mine", {"X-Gateway-Key": "the back door"}
    async with (
        openai.AsyncOpenAI(api_key=key, base_url=server.url, default_headers=headers) as chat,
        anthropic.AsyncAnthropic(api_key=key, base_url=server.root, default_headers=headers) as messages,
    ):
        for model in (OpenAIModel("m", client=chat), AnthropicModel("m", client=messages)):
            with pytest.raises(Exception, match="nobody knows") as caught:
                await model.infer(HELLO)
            assert capture(caught.value, default=ErrorType.MODEL, now=NOW).message == "nobody knows …"


async def test_an_answer_that_was_streamed_and_is_not_in_the_response_is_no_empty_answer(server: ModelServer) -> None:
    told: JsonValue = {
        "type": "response.output_text.delta",
        "output_index": 0,
        "content_index": 0,
        "delta": "Three are left.",
    }
    whole: JsonValue = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}
    events = "".join(f"data: {json.dumps(each)}\n\n" for each in (told, whole))
    _, info = await failure("responses", server, sse_body(events))
    assert (info.type, info.retryable) == (ErrorType.MODEL, True)
    assert info.message == "the model's reply cannot be used: the text that was streamed is not in it"
