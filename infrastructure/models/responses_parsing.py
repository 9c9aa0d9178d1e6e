"""A Responses body becomes a reply: each item in its place, and what must come back with it beside it, opaque.

A failure may arrive with a success status, as data: it is raised as `ModelFailed` with the provider's own code.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.messages import Part, ProviderPart, ReasoningPart, TextPart, ToolCallPart, tool_calls_of
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.leaked_arguments import without_leaks
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

__all__ = ["PROVIDER", "parse_body"]

PROVIDER: Final = "openai-responses"
"""Marks the opaque parts: an `item` whole, or what the next part's item had beside it, a `message` or a `call`."""

_CALL_FIELDS = ("id", "status", "namespace", "caller")
_MESSAGE_FIELDS = ("id", "status", "phase")


def parse_body(body: str) -> ModelReply:
    """Read the body of a response. Raises `ModelReplyInvalid`, or `ModelFailed` for a response that says so."""
    top = read_body(body)
    status = top.get("status")
    if top.get("error") or status in ("failed", "cancelled"):
        raise failure(top.get("error"), f"the response of the model is marked {status or 'failed'}")
    output = top.get("output")
    if not isinstance(output, list):
        raise ModelReplyInvalid("the body has no output")
    parts = without_leaks(list(_parts(output)))
    raw = as_text(as_object(top.get("incomplete_details")).get("reason")) or as_text(status)
    reason = finish_reason(raw, has_tool_calls=bool(tool_calls_of(parts)))
    refused = any(_refusal(part) for item in output for part in as_list(as_object(item).get("content")))
    return ModelReply(
        parts=parts,
        finish_reason=FinishReason.CONTENT_FILTER if refused else reason,
        raw_finish_reason=raw,
        usage=usage(top.get("usage"), input_name="input", output_name="output"),
        response_id=as_text(top.get("id")),
        response_model=as_text(top.get("model")),
    )


def _parts(output: list[JsonValue]) -> Iterator[Part]:
    for entry in output:
        item = as_object(entry)
        match item.get("type"):
            case "message":
                text = clean("".join(_said(part) for part in as_list(item.get("content"))))
                if text:
                    yield from _beside("message", item, _MESSAGE_FIELDS)
                    yield TextPart(text=text)
            case "function_call":
                yield from _call(item)
            case "reasoning":
                if thought := _thought(item):
                    yield ReasoningPart(text=thought)
                yield ProviderPart(provider=PROVIDER, data={"item": item})
            case _:
                yield ProviderPart(provider=PROVIDER, data={"item": item})


def _call(item: Mapping[str, JsonValue]) -> Iterator[Part]:
    call_id, name = as_text(item.get("call_id")), as_text(item.get("name"))
    if call_id is None or name is None:
        raise ModelReplyInvalid("it asks for a function call without a call id or a name")
    arguments, raw = read_arguments(item.get("arguments"))
    yield from _beside("call", item, _CALL_FIELDS)
    yield ToolCallPart(id=call_id, name=name, arguments=arguments, raw=raw)


def _beside(kind: str, item: Mapping[str, JsonValue], names: tuple[str, ...]) -> Iterator[Part]:
    kept: dict[str, JsonValue] = {
        name: item[name] for name in names if item.get(name) is not None and item[name] != "completed"
    }
    if kept:
        yield ProviderPart(provider=PROVIDER, data={kind: kept})


def _said(part: JsonValue) -> str:
    text = as_object(part).get("text")
    return text if isinstance(text, str) else _refusal(part)


def _refusal(part: JsonValue) -> str:
    refusal = as_object(part).get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _thought(item: Mapping[str, JsonValue]) -> str:
    pieces = as_list(item.get("summary")) or as_list(item.get("content"))
    return clean("\n\n".join(text for piece in pieces if (text := as_text(as_object(piece).get("text")))))
