"""A Chat Completions body becomes a reply: text is text, arguments are arguments, tokens are counted once.

Servers that speak the protocol differ in the corners, so the body is read as plain JSON and not through the SDK's
types. What cannot be a reply raises `ModelReplyInvalid`.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from steptrail.domain.errors import SteptrailError
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.messages import Part, ProviderPart, ReasoningPart, TextPart, ToolCallPart
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.leaked_arguments import without_leaked_arguments
from steptrail.infrastructure.models.normalising import finish_reason, usage
from steptrail.infrastructure.models.wire import (
    as_list,
    as_object,
    as_text,
    clean,
    failure,
    read_arguments,
    read_body,
)

__all__ = ["PROVIDER", "parse_body", "parse_reply"]

PROVIDER: Final = "openai"
"""Marks the opaque parts that go back verbatim to whoever speaks this protocol."""


def parse_body(body: str) -> ModelReply:
    """Read the body of a successful response. Raises `ModelReplyInvalid`, or `ModelFailed` for an error in it."""
    return parse_reply(read_body(body))


def parse_reply(body: JsonValue) -> ModelReply:
    """Read a parsed body. Raises what `parse_body` raises."""
    top = as_object(body)
    choices = top.get("choices")
    if not isinstance(choices, list) or not choices:
        raise _nothing(top, "the body has no choices")
    choice = as_object(choices[0])
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _nothing(choice, "the first choice has no message")
    raw = choice.get("finish_reason")
    raw_reason = clean(raw) if isinstance(raw, str) else None
    asked_for = message.get("tool_calls")
    calls = _tool_calls(asked_for)
    refusal = message.get("refusal")
    refused = isinstance(refusal, str) and refusal != ""
    content = without_leaked_arguments(_content(message.get("content")), calls)
    if not content and isinstance(refusal, str):
        content = clean(refusal)
    if not calls and not content and (asked_for or message.get("function_call")):
        raise ModelReplyInvalid("it asks for tool calls, and none of them has an id and a function with a name")
    reason = FinishReason.CONTENT_FILTER if refused else finish_reason(raw_reason, has_tool_calls=bool(calls))
    return ModelReply(
        parts=_parts(message, content, calls),
        finish_reason=reason,
        raw_finish_reason=raw_reason,
        usage=usage(top.get("usage")),
        response_id=as_text(top.get("id")),
        response_model=as_text(top.get("model")),
    )


def _nothing(owner: Mapping[str, JsonValue], why: str) -> SteptrailError:
    """Return what is wrong where a reply should be. Some gateways send an error with a success status."""
    error = owner.get("error")
    return failure(error, "the provider reports an error") if error else ModelReplyInvalid(why)


def _parts(message: Mapping[str, JsonValue], content: str, calls: tuple[ToolCallPart, ...]) -> tuple[Part, ...]:
    parts: list[Part] = []
    # Two spellings of one extension of the protocol.
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str):
        parts.append(ReasoningPart(text=clean(thought)))
    if content:
        parts.append(TextPart(text=content))
    parts.extend(calls)
    if (opaque := _opaque(message, calls)) is not None:
        parts.append(ProviderPart(provider=PROVIDER, data=opaque))
    return tuple(parts)


def _opaque(message: Mapping[str, JsonValue], calls: tuple[ToolCallPart, ...]) -> JsonValue:
    """Keep what a server refuses the next request without: signed reasoning, of the message or of one call."""
    ids = {call.id for call in calls}
    entries = [as_object(entry) for entry in as_list(message.get("tool_calls"))]
    signed: dict[str, JsonValue] = {
        clean(call_id): {"extra_content": entry["extra_content"]}
        for entry in entries
        if "extra_content" in entry and isinstance(call_id := entry.get("id"), str) and clean(call_id) in ids
    }
    data: dict[str, JsonValue] = {}
    if message.get("reasoning_details"):
        data["message"] = {"reasoning_details": message["reasoning_details"]}
    if signed:
        data["tool_calls"] = signed
    return data or None


def _content(content: JsonValue) -> str:
    match content:
        case None:
            return ""
        case str():
            return clean(content)
        case list():
            texts = [as_object(part).get("text") for part in content]
            return clean("".join(text for text in texts if isinstance(text, str)))
        case _:
            raise ModelReplyInvalid(f"the content of its message is a {type(content).__name__}")


def _tool_calls(calls: JsonValue) -> tuple[ToolCallPart, ...]:
    found: list[ToolCallPart] = []
    for entry in as_list(calls):
        call = as_object(entry)
        function = as_object(call.get("function"))
        call_id, name = call.get("id"), function.get("name")
        if not isinstance(call_id, str) or not call_id or not isinstance(name, str) or not name:
            continue
        arguments, raw = read_arguments(function.get("arguments"))
        found.append(ToolCallPart(id=clean(call_id), name=clean(name), arguments=arguments, raw=raw))
    return tuple(found)
