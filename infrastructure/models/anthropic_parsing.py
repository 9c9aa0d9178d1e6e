"""A Messages body becomes a reply: each block in its place, thinking with its signature, what is not ours opaque."""

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from steptrail.domain.inference import ModelReply
from steptrail.domain.messages import Part, ProviderPart, ReasoningPart, TextPart, ToolCallPart, tool_calls_of
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.leaked_arguments import without_leaks
from steptrail.infrastructure.models.normalising import anthropic_usage, finish_reason
from steptrail.infrastructure.models.wire import as_object, as_text, clean, failure, read_arguments, read_body

__all__ = ["PROVIDER", "parse_body"]

PROVIDER: Final = "anthropic"
"""Marks the opaque parts: blocks that go back verbatim."""


def parse_body(body: str) -> ModelReply:
    """Read the body of a response. Raises `ModelReplyInvalid`, or `ModelFailed` for an error with a success status."""
    top = read_body(body)
    if top.get("type") == "error":
        raise failure(top.get("error"), "the provider reports an error", code="type")
    content = top.get("content")
    if not isinstance(content, list):
        raise ModelReplyInvalid("the body has no content")
    parts = without_leaks([part for block in content for part in _parts(block)])
    raw = as_text(top.get("stop_reason"))
    return ModelReply(
        parts=parts,
        finish_reason=finish_reason(raw, has_tool_calls=bool(tool_calls_of(parts))),
        raw_finish_reason=raw,
        usage=anthropic_usage(top.get("usage")),
        response_id=as_text(top.get("id")),
        response_model=as_text(top.get("model")),
    )


def _parts(block: JsonValue) -> Iterator[Part]:
    told = as_object(block)
    match told.get("type"):
        case "text":
            if text := as_text(told.get("text")):
                yield TextPart(text=text)
        case "tool_use":
            call_id, name = as_text(told.get("id")), as_text(told.get("name"))
            if call_id is None or name is None:
                raise ModelReplyInvalid("it asks for a tool without an id or a name")
            arguments, raw = read_arguments(told.get("input"))
            yield ToolCallPart(id=call_id, name=name, arguments=arguments, raw=raw)
        case "thinking":
            thought = told.get("thinking")
            text = clean(thought) if isinstance(thought, str) else ""
            yield ReasoningPart(text=text, signature=as_text(told.get("signature")))
        case _:
            yield ProviderPart(provider=PROVIDER, data=block)
