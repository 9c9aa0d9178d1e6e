"""The words of providers, in the forms that they have been seen in."""

import json
from functools import cache

import httpx2
import openai
import pytest

from steptrail.domain.failures import ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.provider_errors import read_error
from steptrail.runtime.agent.capture import capture

REQUEST = httpx2.Request("POST", "https://api.example.com/v1/chat/completions")


@cache
def client() -> openai.OpenAI:
    """Return one for all: each reads the certificates of this machine anew."""
    return openai.OpenAI(api_key="k")


def refusal(status: int, text: str) -> openai.APIStatusError:
    """What the SDK raises for a response."""
    response = httpx2.Response(status, text=text, request=REQUEST)
    return client()._make_status_error_from_response(response)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("status", "body", "message", "code"),
    [
        # Mistral, a wrong key, and a request that does not fit.
        (401, {"detail": "Invalid API Key"}, "Invalid API Key", None),
        (
            422,
            {"detail": [{"loc": ["body", "messages", 0], "msg": "Field required"}, {"msg": "Too long"}]},
            "body.messages.0: Field required; Too long",
            None,
        ),
        (
            422,
            {"object": "error", "message": {"detail": [{"loc": ["body"], "msg": "No."}]}, "type": "bad"},
            "body: No.",
            "bad",
        ),
        # xAI, a wrong key.
        (
            400,
            {"code": "invalid-argument", "error": "Incorrect API key provided."},
            "Incorrect API key provided.",
            "invalid-argument",
        ),
        # OpenRouter: what went wrong is in the words of the provider behind it.
        (
            429,
            {"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "m is busy, try later"}}},
            "Provider returned error: m is busy, try later",
            None,
        ),
        (
            502,
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 502,
                    "metadata": {"raw": json.dumps({"error": {"message": "Upstream is full", "type": "busy"}})},
                }
            },
            "Provider returned error: Upstream is full",
            None,
        ),
        # Google's compatible endpoint has a list around it.
        (
            400,
            [{"error": {"code": 400, "message": "No such model.", "status": "INVALID_ARGUMENT"}}],
            "No such model.",
            None,
        ),
        # OpenAI, Anthropic, Ollama.
        (
            400,
            {"error": {"message": "Too long.", "type": "t", "code": "context_length_exceeded"}},
            "Too long.",
            "context_length_exceeded",
        ),
        (
            529,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}},
            "Busy.",
            "overloaded_error",
        ),
        (404, {"error": "model 'x' not found"}, "model 'x' not found", None),
        # Cloudflare.
        (
            403,
            {"success": False, "errors": [{"code": 10000, "message": "Authentication error"}]},
            "Authentication error",
            None,
        ),
    ],
)
def test_what_a_provider_says_is_recorded(status: int, body: JsonValue, message: str, code: str | None) -> None:
    info = capture(refusal(status, json.dumps(body)), default=ErrorType.MODEL, now=0.0)
    assert (info.message, info.code, info.status_code) == (message, code, status)


@pytest.mark.parametrize("text", ["<html>a proxy's page</html>", "", "[]", "null", "7", "{}", '{"error": null}'])
def test_a_body_without_words_is_not_recorded(text: str) -> None:
    info = capture(refusal(502, text), default=ErrorType.MODEL, now=0.0)
    assert (info.message, info.code, info.status_code) == ("Error code: 502", None, 502)


@pytest.mark.parametrize("body", [None, 7, "<html>a proxy's page</html>", {"error": None}])
def test_nor_is_one_that_an_sdk_writes_into_its_exception(body: JsonValue) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    response = httpx2.Response(502, text=text, request=REQUEST)
    error = openai.APIStatusError(f"Error code: 502 - {body}", body=body, response=response)
    assert capture(error, default=ErrorType.MODEL, now=0.0).message == "Error code: 502"


def test_words_that_hold_a_key_lose_it() -> None:
    info = capture(refusal(400, json.dumps({"error": "bad key sk-abcdefghijk"})), default=ErrorType.MODEL, now=0.0)
    assert info.message == "bad key sk-…"


def test_a_body_of_any_shape_is_read_without_surprise() -> None:
    deep: JsonValue = "words"
    for _ in range(300):
        deep = {"error": [deep], "detail": deep}
    assert read_error(deep).message is None
    assert read_error({"error": {"message": "a", "metadata": {"raw": "[" * 100_000}}}).message == "a: " + "[" * 100_000
    assert read_error({"error": {"metadata": {"raw": {"error": "b"}}}}).message == "b"
    assert read_error({1: 2, "error": {"code": "429", "type": "error"}}) == (None, None, 429)


@pytest.mark.parametrize(
    ("status", "error", "expected", "retryable"),
    [
        # Ollama says `api_error` whatever the status.
        (401, {"message": "unauthorized", "type": "api_error"}, ErrorType.MODEL, False),
        (429, {"message": "too many requests", "type": "api_error"}, ErrorType.RATE_LIMIT, True),
        (500, {"message": "broken", "type": "api_error"}, ErrorType.MODEL, True),
        # Groq: bad luck of the model, as it is in a stream.
        (400, {"message": "Failed to call a function.", "code": "tool_use_failed"}, ErrorType.MODEL, True),
        (413, {"message": "Request too large", "code": "rate_limit_exceeded"}, ErrorType.MODEL, False),
        (429, {"message": "No money.", "code": "insufficient_quota"}, ErrorType.RATE_LIMIT, False),
    ],
)
def test_the_status_outranks_a_word_that_only_stands_for_one(
    status: int, error: JsonValue, expected: ErrorType, retryable: bool
) -> None:
    info = capture(refusal(status, json.dumps({"error": error})), default=ErrorType.UNKNOWN, now=0.0)
    assert (info.type, info.retryable) == (expected, retryable)
