"""A Chat Completions body becomes a reply: text is text, arguments are arguments, tokens are counted once.

Servers that speak the protocol differ in the corners, so the body is read as plain JSON and not through the SDK's
types. What cannot be a reply raises `ModelReplyInvalid`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, cast

from pydantic import JsonValue

from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.messages import Part, ProviderPart, ReasoningPart, TextPart, ToolCallPart
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.normalising import finish_reason, usage

__all__ = ["PROVIDER", "parse_body", "parse_reply", "without_leaked_arguments"]

PROVIDER: Final = "openai"
"""Marks the opaque parts that go back verbatim to whoever speaks this protocol."""


def parse_body(body: str) -> ModelReply:
    """Read the body of a successful response. Raises `ModelReplyInvalid`."""
    try:
        parsed = _parse(body)
        if "\\u" in body:
            # An answer cut in the middle of a character may end in half of a surrogate pair, which nothing can store.
            parsed = _parse(_clean(json.dumps(parsed, ensure_ascii=False)))
    except (ValueError, RecursionError):
        raise ModelReplyInvalid(f"the body ({len(body)} characters) is not JSON") from None
    return parse_reply(parsed)


def parse_reply(body: JsonValue) -> ModelReply:
    """Read a parsed body. Raises `ModelReplyInvalid`."""
    top = _object(body)
    choices = top.get("choices")
    if not isinstance(choices, list) or not choices:
        raise ModelReplyInvalid(_said(top) or "the body has no choices")
    choice = _object(choices[0])
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ModelReplyInvalid(_said(choice) or "the first choice has no message")
    raw = choice.get("finish_reason")
    raw_reason = _clean(raw) if isinstance(raw, str) else None
    asked_for = message.get("tool_calls")
    calls = _tool_calls(asked_for)
    refusal = message.get("refusal")
    refused = isinstance(refusal, str) and refusal != ""
    content = without_leaked_arguments(_content(message.get("content")), calls)
    if not content and isinstance(refusal, str):
        content = _clean(refusal)
    if not calls and not content and (asked_for or message.get("function_call")):
        raise ModelReplyInvalid("it asks for tool calls, and none of them has an id and a function with a name")
    reason = FinishReason.CONTENT_FILTER if refused else finish_reason(raw_reason, has_tool_calls=bool(calls))
    return ModelReply(
        parts=_parts(message, content, calls),
        finish_reason=reason,
        raw_finish_reason=raw_reason,
        usage=usage(top.get("usage")),
        response_id=_text(top.get("id")),
        response_model=_text(top.get("model")),
    )


def without_leaked_arguments(content: str, calls: Sequence[ToolCallPart]) -> str:
    """Return the content, or nothing when it only repeats the arguments of a requested call.

    That is so when the whole of it is JSON strictly equal to the arguments of any call: `1`, `1.0`, `"1"` and `true`
    differ, the order of keys does not matter. Blank text beside calls is nothing too. Without calls every content
    stays, JSON or not.
    """
    stripped = content.strip()
    if not calls:
        return content
    if not stripped:
        return ""
    try:
        value = _loads(stripped)
    except (ValueError, RecursionError):
        return content
    return "" if any(_repeats(value, call) for call in calls) else content


def _repeats(value: JsonValue, call: ToolCallPart) -> bool:
    if call.arguments is not None:
        return _same(value, call.arguments)
    try:
        return call.raw is not None and _same(value, _loads(call.raw))
    except (ValueError, RecursionError):
        return False


def _same(left: JsonValue, right: JsonValue) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(one, other) for one, other in zip(left, right, strict=True))
    return type(left) is type(right) and left == right


def _parts(message: Mapping[str, JsonValue], content: str, calls: tuple[ToolCallPart, ...]) -> tuple[Part, ...]:
    parts: list[Part] = []
    # Two spellings of one extension of the protocol.
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str):
        parts.append(ReasoningPart(text=_clean(thought)))
    if content:
        parts.append(TextPart(text=content))
    parts.extend(calls)
    if (opaque := _opaque(message, calls)) is not None:
        parts.append(ProviderPart(provider=PROVIDER, data=opaque))
    return tuple(parts)


def _opaque(message: Mapping[str, JsonValue], calls: tuple[ToolCallPart, ...]) -> JsonValue:
    """Keep what a server refuses the next request without: signed reasoning, of the message or of one call."""
    ids = {call.id for call in calls}
    asked_for = message.get("tool_calls")
    entries = [_object(entry) for entry in asked_for] if isinstance(asked_for, list) else []
    signed: dict[str, JsonValue] = {
        _clean(call_id): {"extra_content": entry["extra_content"]}
        for entry in entries
        if "extra_content" in entry and isinstance(call_id := entry.get("id"), str) and _clean(call_id) in ids
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
            return _clean(content)
        case list():
            texts = [_object(part).get("text") for part in content]
            return _clean("".join(text for text in texts if isinstance(text, str)))
        case _:
            raise ModelReplyInvalid(f"the content of its message is a {type(content).__name__}")


def _tool_calls(calls: JsonValue) -> tuple[ToolCallPart, ...]:
    found: list[ToolCallPart] = []
    for entry in calls if isinstance(calls, list) else []:
        call = _object(entry)
        function = _object(call.get("function"))
        call_id, name = call.get("id"), function.get("name")
        if not isinstance(call_id, str) or not call_id or not isinstance(name, str) or not name:
            continue
        arguments, raw = _arguments(function.get("arguments"))
        found.append(ToolCallPart(id=_clean(call_id), name=_clean(name), arguments=arguments, raw=raw))
    return tuple(found)


def _arguments(arguments: JsonValue) -> tuple[dict[str, JsonValue] | None, str | None]:
    match arguments:
        case None:
            return {}, None
        case dict():
            return arguments, None
        case str():
            if not arguments.strip():
                return {}, None
            try:
                parsed = _loads(arguments)
            except (ValueError, RecursionError):
                return None, _clean(arguments)
            return (parsed, None) if isinstance(parsed, dict) else (None, _clean(arguments))
        case _:
            return None, json.dumps(arguments)


def _parse(text: str) -> JsonValue:
    """Parse JSON as the standard has it: no NaN, no number that becomes infinite."""
    return cast(JsonValue, json.loads(text, parse_constant=_refuse, parse_float=_finite))


def _loads(text: str) -> JsonValue:
    """Parse JSON that will be stored: half of a surrogate pair is an error too."""
    parsed = _parse(text)
    if "\\u" in text:
        json.dumps(parsed, ensure_ascii=False).encode()
    return parsed


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _clean(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _text(value: JsonValue) -> str | None:
    return _clean(value) if isinstance(value, str) and value else None


def _said(owner: Mapping[str, JsonValue]) -> str | None:
    """Return the message of an error that came with a success status, as some gateways send it."""
    error = owner.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return f"the provider reports: {_clean(message)}" if isinstance(message, str) and message else None
