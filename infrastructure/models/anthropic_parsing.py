"""A Messages body becomes a reply: each block in its place, thinking with its signature, foreign blocks opaque.

A block goes back with everything that it came with: a text with its citations, a call with its caller.
"""

from collections.abc import Iterator
from typing import Final

from steptrail.domain.inference import ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import CitationPart, Part, ReasoningPart, TextPart, tool_calls_of
from steptrail.infrastructure.models.call_names import tool_call
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.leaked_arguments import without_leaks
from steptrail.infrastructure.models.normalising import anthropic_usage, finish_reason
from steptrail.infrastructure.models.opaque import beside, others, whole
from steptrail.infrastructure.models.wire import as_list, as_object, as_text, clean, failure, read_body

PROVIDER: Final = "anthropic"
"""Marks parts of Anthropic's own models, wherever they run: they go back verbatim to any of these places."""


def parse_body(body: str, provider: str = PROVIDER) -> ModelReply:
    """Read the body of a response. Raises `ModelReplyInvalid`, or `ModelFailed` for an error with a success status.

    `provider` marks what goes back to nobody else.
    """
    top = read_body(body)
    if top.get("type") == "error" or top.get("error"):
        raise failure(top.get("error"), "the provider reports an error")
    content = top.get("content")
    if not isinstance(content, list):
        raise ModelReplyInvalid("the body has no content")
    reply = top.get("id")
    parts = without_leaks([part for i, block in enumerate(content) for part in _parts(block, reply, i, provider)])
    raw = as_text(top.get("stop_reason"))
    return ModelReply(
        parts=parts,
        finish_reason=finish_reason(raw, has_tool_calls=bool(tool_calls_of(parts))),
        raw_finish_reason=raw,
        usage=anthropic_usage(top.get("usage")),
        response_id=as_text(top.get("id")),
        response_model=as_text(top.get("model")),
    )


def _parts(block: JsonValue, reply: JsonValue, place: int, provider: str) -> Iterator[Part]:
    told = as_object(block)
    match told.get("type"):
        case "text":
            if text := as_text(told.get("text")):
                yield from beside(provider, TextPart(text=text), others(told, "type", "text", "citations"))
                yield from [_citation(each, provider) for each in as_list(told.get("citations"))]
        case "tool_use":
            if (name := as_text(told.get("name"))) is None:
                raise ModelReplyInvalid("it asks for a tool without a name")
            call = tool_call(name, told.get("input"), told.get("id"), reply=reply, place=place)
            yield from beside(provider, call, others(told, "type", "id", "name", "input"))
        case "thinking":
            thought, signature = told.get("thinking"), as_text(told.get("signature"))
            fields = others(told, "type", "thinking", "signature")
            if provider != PROVIDER:
                # Anthropic refuses what others have signed, and these want back what they have not signed too.
                fields["signature"], signature = signature or "", None
            text = clean(thought) if isinstance(thought, str) else ""
            yield from beside(provider, ReasoningPart(text=text, signature=signature), fields)
        case _:
            yield whole(provider, block)


def _citation(citation: JsonValue, provider: str) -> CitationPart:
    told = as_object(citation)
    return CitationPart(
        uri=as_text(told.get("url")) or as_text(told.get("source")),
        title=as_text(told.get("title")) or as_text(told.get("document_title")),
        quote=as_text(told.get("cited_text")),
        provider=provider,
        data=citation,
    )
