"""The scripted server holds requests against the SDKs' own types, however deep in them something is wrong."""

import pytest

from steptrail.domain.json_value import JsonValue
from steptrail.testing import model_request_anthropic, model_request_responses
from steptrail.testing.model_request_types import why_mistyped

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
TOOLS: JsonValue = [{"name": "f", "input_schema": {"type": "object"}, "surprise": 1}]
BLOCK: dict[str, JsonValue] = {"type": "text", "text": "hi"}


def chat(**message: JsonValue) -> dict[str, JsonValue]:
    return {"model": "m", "messages": [{"role": "user", "content": "hi", **message}]}


def responses(**item: JsonValue) -> dict[str, JsonValue]:
    return {"model": "m", "input": [{"role": "user", "content": "hi", **item}]}


def messages(**block: JsonValue) -> dict[str, JsonValue]:
    return {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": [{**BLOCK, **block}]}]}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("path", "body"), [(CHAT, chat()), (RESPONSES, responses()), (MESSAGES, messages())])
def test_what_fits_the_types_is_taken(path: str, body: dict[str, JsonValue], stream: bool) -> None:
    assert why_mistyped(path, {**body, "stream": stream}) is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {**chat(), "stream": "yes"}),
        (CHAT, {**chat(), "max_tokens": "many"}),
        (CHAT, chat(surprise=1)),
        (CHAT, chat(role="assistant", tool_calls=[{"id": "c", "type": "function", "function": {"name": "f"}}])),
        (RESPONSES, responses(name="ana")),
        (RESPONSES, {**responses(), "tools": [{"type": "function", "name": "f"}]}),
        (RESPONSES, {"model": "m", "input": [{"type": "reasoning", "id": "rs_1"}]}),
        (MESSAGES, messages(text=None)),
        (MESSAGES, {**messages(), "tools": TOOLS}),
        (MESSAGES, {**messages(), "system": [{**BLOCK, "surprise": 1}]}),
        (MESSAGES, {"model": "m", "messages": []}),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(path: str, body: dict[str, JsonValue]) -> None:
    refusal = why_mistyped(path, body)
    assert refusal is not None
    assert refusal.startswith("the request does not fit the SDK's types: ")


def test_the_scripted_server_takes_parameters_that_the_sdk_knows_without_a_list_of_its_own() -> None:
    cached, placed = {**responses(), "prompt_cache_retention": "24h"}, {**messages(), "inference_geo": "eu"}
    assert why_mistyped(RESPONSES, cached) is model_request_responses.why_refused(cached) is None
    assert why_mistyped(MESSAGES, placed) is model_request_anthropic.why_refused(placed) is None
