"""A Responses body becomes a reply: each item in its place, and what came with it beside it, opaque.

A failure may arrive with a success status, as data: it is raised as `ModelFailed` with the provider's own code.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import CitationPart, Part, ReasoningPart, TextPart, tool_calls_of
from steptrail.infrastructure.models.call_names import tool_call
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.leaked_arguments import without_leaks
from steptrail.infrastructure.models.normalising import finish_reason, usage
from steptrail.infrastructure.models.opaque import beside, of_content, of_message, others, whole
from steptrail.infrastructure.models.wire import as_list, as_number, as_object, as_text, clean, failure, read_body

PROVIDER: Final = "openai-responses"
"""Marks opaque parts where nobody says which server of this protocol sent them."""

_DONE: Final = "completed"
"""The status of what is whole. It is what is sent when none was kept."""


def parse_body(body: str, provider: str = PROVIDER) -> ModelReply:
    """Read the body of a response. Raises `ModelReplyInvalid`, or `ModelFailed` for a response that says so.

    `provider` marks what goes back to nobody else.
    """
    top = read_body(body)
    status = top.get("status")
    if top.get("error") or status in ("failed", "cancelled"):
        raise failure(top.get("error"), f"the response of the model is marked {status or 'failed'}")
    output = top.get("output")
    if not isinstance(output, list):
        raise ModelReplyInvalid("the body has no output")
    parts = without_leaks(list(_parts(output, top.get("id"), provider)))
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


def _parts(output: list[JsonValue], reply: JsonValue, provider: str) -> Iterator[Part]:
    for place, entry in enumerate(output):
        item = as_object(entry)
        match item.get("type"):
            case "message":
                yield from _message(item, provider)
            case "function_call":
                yield from _call(item, reply, place, provider)
            case "reasoning":
                if thought := _thought(item):
                    yield ReasoningPart(text=thought)
                yield whole(provider, item)
            case _:
                yield whole(provider, item)


def _message(item: Mapping[str, JsonValue], provider: str) -> Iterator[Part]:
    said = [part for content in as_list(item.get("content")) for part in _content(as_object(content), provider)]
    fields = _unusual(others(item, "type", "role", "content"))
    if said and "id" in fields:
        yield from of_message(provider, fields)
    yield from said


def _content(content: dict[str, JsonValue], provider: str) -> Iterator[Part]:
    text, refusal = as_text(content.get("text")), as_text(_refusal(content))
    if text is not None:
        yield from beside(provider, TextPart(text=text), others(content, "type", "text", "annotations"))
        for annotation in as_list(content.get("annotations")):
            yield _citation(annotation, provider)
    elif refusal is not None:
        yield from beside(provider, TextPart(text=refusal), {"refusal": True})
    elif content.get("type") not in ("output_text", "refusal"):
        yield of_content(provider, content)


def _citation(annotation: JsonValue, provider: str) -> Part:
    told = as_object(annotation)
    return CitationPart(
        uri=as_text(told.get("url")) or as_text(told.get("file_id")),
        title=as_text(told.get("title")) or as_text(told.get("filename")),
        start=as_number(told.get("start_index")),
        end=as_number(told.get("end_index")),
        provider=provider,
        data=annotation,
    )


def _call(item: Mapping[str, JsonValue], reply: JsonValue, place: int, provider: str) -> Iterator[Part]:
    if (name := as_text(item.get("name"))) is None:
        raise ModelReplyInvalid("it asks for a function call without a name")
    call = tool_call(name, item.get("arguments"), item.get("call_id"), reply=reply, place=place)
    fields = _unusual(others(item, "type", "call_id", "name", "arguments"))
    yield from beside(provider, call, fields)


def _unusual(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in fields.items() if (name, value) != ("status", _DONE)}


def _refusal(part: JsonValue) -> str:
    refusal = as_object(part).get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _thought(item: Mapping[str, JsonValue]) -> str:
    pieces = as_list(item.get("summary")) or as_list(item.get("content"))
    return clean("\n\n".join(text for piece in pieces if (text := as_text(as_object(piece).get("text")))))
