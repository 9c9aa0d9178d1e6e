"""The answers of a scripted model server, reply by reply: good ones, refusals, and every failure of a network.

A script holds the content. The protocol in which it is sent, streamed or not, is that of each request.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from steptrail.domain.json_value import JsonValue

ScriptedReply: TypeAlias = dict[str, JsonValue]
"""One entry of a script, as JSON, so that a script can also be written to a file by hand."""

_USAGE: Mapping[str, JsonValue] = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def answer(
    text: str,
    *,
    finish_reason: str | None = "stop",
    usage: Mapping[str, JsonValue] = _USAGE,
    reasoning: str | None = None,
    opaque: JsonValue = None,
    citations: Sequence[tuple[str, str, str]] = (),
    fields: Mapping[str, JsonValue] | None = None,
    chunked: bool = False,
) -> ScriptedReply:
    """Return a final text, after some `reasoning` if given, with `citations` as (address, title, quote).

    Finish reason and usage are in the words of Chat Completions; a reason that it does not know is sent as it is. With
    the reason `""` a stream of that protocol ends with `[DONE]` and gives no reason. `content_filter` without a text is
    what Azure sends, a choice without a message.

    An `opaque` block or item of the provider's own, or a list of such, stands before the text, where a protocol has
    such. In Chat Completions a server may add `fields` of its own to the message, and write its content `chunked`, as a
    list of thoughts and texts, as Mistral's models that think do. All of it has to come back.
    """
    cited: list[JsonValue] = [{"url": url, "title": title, "quote": quote} for url, title, quote in citations]
    said: ScriptedReply = {"text": text, "calls": [], "reasoning": reasoning, "opaque": opaque, "citations": cited}
    said |= {"fields": dict(fields or {}), "chunked": chunked}
    return {"kind": "message", **said, "finish_reason": finish_reason, "usage": dict(usage)}


def tool_calls(
    *calls: tuple[str, Mapping[str, JsonValue] | str],
    text: str | None = None,
    finish_reason: str | None = "tool_calls",
    usage: Mapping[str, JsonValue] = _USAGE,
    reasoning: str | None = None,
    opaque: JsonValue = None,
    fields: Mapping[str, JsonValue] | None = None,
    chunked: bool = False,
    ids: Sequence[str | None] = (),
) -> ScriptedReply:
    """Return a request for tools. A call is (name, arguments); arguments that are text are sent as they are.

    `ids` replace those that the calls get by themselves; None sends none. The rest is as for `answer`.
    """
    wanted: list[JsonValue] = [
        {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
        for name, arguments in calls
    ]
    said = answer(
        text or "",
        finish_reason=finish_reason,
        usage=usage,
        reasoning=reasoning,
        opaque=opaque,
        fields=fields,
        chunked=chunked,
    )
    return {**said, "calls": wanted, "ids": list(ids)}


def unfinished(text: str) -> ScriptedReply:
    """Return a text, and then the end of the stream without a word about why."""
    return answer(text, finish_reason=None)


def failed_inside(code: str, message: str = "The model failed.") -> ScriptedReply:
    """Return a failure inside a successful response: as its status, or as an event in the middle of the stream."""
    return {"kind": "failed", "code": code, "message": message}


def json_body(body: JsonValue, *, status: int = 200) -> ScriptedReply:
    """Return any JSON with any status: an error in whichever form a service has."""
    return {"kind": "reply", "status": status, "body": body}


def sse_body(text: str) -> ScriptedReply:
    """Return any stream of events, written out."""
    return {"kind": "raw", "text": text, "content_type": "text/event-stream"}


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
    error: ScriptedReply = {"message": message, "type": error_type, "code": code}
    return {"kind": "refused", "status": status, "headers": dict(headers or {}), "error": error}


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
    """Close the connection in the middle of the body, or of the stream."""
    return {"kind": "cut"}


def hang(seconds: float) -> ScriptedReply:
    """Stay silent for `seconds`, then answer."""
    return {**answer("at last"), "wait": seconds}
