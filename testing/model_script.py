"""What a scripted model server answers, reply by reply: good ones, refusals, and everything a network does wrong."""

import json
from collections.abc import Mapping
from typing import TypeAlias

from pydantic import JsonValue

__all__ = [
    "ScriptedReply",
    "answer",
    "context_overflow",
    "cut_off",
    "hang",
    "json_body",
    "not_json",
    "overloaded",
    "quota_exhausted",
    "rate_limited",
    "refused",
    "tool_calls",
    "unauthorized",
    "without_choices",
]

ScriptedReply: TypeAlias = dict[str, JsonValue]
"""One entry of a script, as JSON, so that a script can also be written to a file by hand."""

_USAGE: Mapping[str, JsonValue] = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def answer(text: str, *, finish_reason: str = "stop", usage: Mapping[str, JsonValue] = _USAGE) -> ScriptedReply:
    """Return a final text."""
    return _completion({"role": "assistant", "content": text, "refusal": None}, finish_reason, usage)


def tool_calls(
    *calls: tuple[str, Mapping[str, JsonValue] | str],
    text: str | None = None,
    finish_reason: str = "tool_calls",
    usage: Mapping[str, JsonValue] = _USAGE,
) -> ScriptedReply:
    """Return a request for tools. A call is (name, arguments); arguments that are text are sent as they are."""
    wire: list[JsonValue] = []
    for number, (name, arguments) in enumerate(calls, 1):
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        wire.append({"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": written}})
    message: dict[str, JsonValue] = {"role": "assistant", "content": text, "refusal": None, "tool_calls": wire}
    return _completion(message, finish_reason, usage)


def json_body(body: JsonValue) -> ScriptedReply:
    """Return any JSON with status 200."""
    return {"kind": "reply", "status": 200, "body": body}


def without_choices() -> ScriptedReply:
    """Return a completion that has no choices."""
    return json_body({"id": "chatcmpl-empty", "object": "chat.completion", "model": "scripted"})


def not_json() -> ScriptedReply:
    """Return status 200 and half of a JSON text, as if that were all."""
    return {"kind": "raw", "text": '{"id": "chatcmpl-broken", "choices": [{"mess'}


def refused(
    status: int,
    message: str,
    *,
    code: str | None = None,
    error_type: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> ScriptedReply:
    """Return an error status with the protocol's error object."""
    error: JsonValue = {"message": message, "type": error_type, "param": None, "code": code}
    return {"kind": "reply", "status": status, "headers": dict(headers or {}), "body": {"error": error}}


def rate_limited(*, retry_after: str | None = None, retry_after_ms: str | None = None) -> ScriptedReply:
    """Return 429 with the headers that are given: seconds or an HTTP date, and milliseconds."""
    pairs = {"retry-after": retry_after, "retry-after-ms": retry_after_ms}
    headers = {name: value for name, value in pairs.items() if value is not None}
    return refused(429, "Rate limit reached", code="rate_limit_exceeded", error_type="requests", headers=headers)


def quota_exhausted() -> ScriptedReply:
    """Return the 429 that no waiting cures."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return refused(429, message, code="insufficient_quota", error_type="insufficient_quota")


def overloaded() -> ScriptedReply:
    """Return 500."""
    return refused(500, "The server had an error while processing your request", error_type="server_error")


def unauthorized() -> ScriptedReply:
    """Return 401, with the key in the message as the real service has it."""
    message = "Incorrect API key provided: sk-wrong-********key."
    return refused(401, message, code="invalid_api_key", error_type="invalid_request_error")


def context_overflow() -> ScriptedReply:
    """Return the 400 for a conversation that is too long."""
    message = "This model's maximum context length is 4096 tokens. Please reduce the length of the messages."
    return refused(400, message, code="context_length_exceeded", error_type="invalid_request_error")


def cut_off() -> ScriptedReply:
    """Close the connection in the middle of the body."""
    return {"kind": "cut"}


def hang(seconds: float) -> ScriptedReply:
    """Say nothing for `seconds`, then answer."""
    return {**answer("at last"), "wait": seconds}


def _completion(message: JsonValue, finish_reason: str, usage: Mapping[str, JsonValue]) -> ScriptedReply:
    choice: JsonValue = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
    return json_body(
        {
            "id": "chatcmpl-scripted",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted-2026",
            "choices": [choice],
            "usage": dict(usage),
        }
    )
