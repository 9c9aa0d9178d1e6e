"""A Chat Completions body becomes a reply: text is text, arguments are arguments, tokens are counted once.

Servers that speak the protocol differ in the corners, so the body is read as plain JSON and not through the SDK's
types. What a server adds of its own is kept, so that it gets it back. What can be no reply raises `ModelReplyInvalid`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from steptrail.domain.errors import SteptrailError
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import CitationPart, Part, ReasoningPart, TextPart, ToolCallPart, text_of
from steptrail.infrastructure.models.call_names import tool_call
from steptrail.infrastructure.models.chat_assembly import REASONING
from steptrail.infrastructure.models.chat_content import content_parts
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.leaked_arguments import without_leaks
from steptrail.infrastructure.models.normalising import finish_reason, usage
from steptrail.infrastructure.models.opaque import beside, of_message, others
from steptrail.infrastructure.models.wire import as_list, as_number, as_object, as_text, clean, failure, read_body

PROVIDER: Final = "openai"
"""Marks opaque parts where nobody says which server of this protocol sent them."""

_READ: Final = ("role", "content", "refusal", "tool_calls", "function_call", *REASONING)
_NOT_TAKEN_BACK: Final = ("annotations", "audio", "executed_tools")
"""Fields that only replies have: a request that held them would be refused, or would hold sounds."""


def parse_body(body: str, provider: str = PROVIDER) -> ModelReply:
    """Read the body of a successful response. Raises `ModelReplyInvalid`, or `ModelFailed` for an error in it.

    `provider` marks what goes back to nobody else.
    """
    return parse_reply(read_body(body), provider)


def parse_reply(body: JsonValue, provider: str = PROVIDER) -> ModelReply:
    """Read a parsed body. Raises what `parse_body` raises."""
    top = as_object(body)
    choices = top.get("choices")
    if not isinstance(choices, list) or not choices:
        raise _nothing(top, "the body has no choices")
    choice = as_object(choices[0])
    raw_reason = as_text(choice.get("finish_reason"))
    message = choice.get("message")
    if message is None and finish_reason(raw_reason) is FinishReason.CONTENT_FILTER:
        # A filter may take the message away as a whole.
        message = {}
    if not isinstance(message, dict):
        raise _nothing(choice, "the first choice has no message")
    asked_for, refusal = message.get("tool_calls"), as_text(message.get("refusal"))
    calls = list(_tool_calls(asked_for, top.get("id"), provider))
    has_calls = any(isinstance(part, ToolCallPart) for part in calls)
    said = without_leaks([*_said(message, provider), *_citations(message, top, provider), *calls])
    if not text_of(said) and refusal is not None:
        said = (TextPart(text=refusal), *said)
    if not has_calls and not text_of(said) and (asked_for or message.get("function_call")):
        raise ModelReplyInvalid("it asks for tool calls, and none of them has a function with a name")
    return ModelReply(
        parts=(*of_message(provider, _of_message(message)), *said),
        finish_reason=FinishReason.CONTENT_FILTER if refusal else finish_reason(raw_reason, has_tool_calls=has_calls),
        raw_finish_reason=raw_reason,
        usage=usage(top.get("usage")),
        response_id=as_text(top.get("id")),
        response_model=as_text(top.get("model")),
    )


def _nothing(owner: Mapping[str, JsonValue], why: str) -> SteptrailError:
    """Return what is wrong where a reply should be. Some gateways send an error with a success status."""
    error = owner.get("error")
    return failure(error, "the provider reports an error") if error else ModelReplyInvalid(why)


def _shown_thought(message: Mapping[str, JsonValue]) -> str | None:
    """Return the name of the field whose text is shown as reasoning."""
    return next((name for name in REASONING if as_text(message.get(name)) is not None), None)


def _said(message: Mapping[str, JsonValue], provider: str) -> Iterator[Part]:
    if (name := _shown_thought(message)) is not None:
        yield from beside(provider, ReasoningPart(text=clean(str(message[name]))), {"field": name})
    yield from content_parts(message.get("content"), provider)


def _of_message(message: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return what goes back beside the content. Reasoning without a word does too: servers miss it where it stood."""
    shown = _shown_thought(message)
    thoughts = {name: message[name] for name in REASONING if name != shown and message.get(name) is not None}
    annotations = others({"annotations": [each for each in _annotations(message) if not _is_link(each)]})
    return {**thoughts, **annotations, **others(message, *_READ, *_NOT_TAKEN_BACK)}


def _annotations(message: Mapping[str, JsonValue]) -> list[JsonValue]:
    return as_list(message.get("annotations"))


def _is_link(annotation: JsonValue) -> bool:
    return as_object(annotation).get("type") == "url_citation"


def _citations(message: Mapping[str, JsonValue], top: Mapping[str, JsonValue], provider: str) -> Iterator[Part]:
    for annotation in filter(_is_link, _annotations(message)):
        told = as_object(annotation)
        link = as_object(told.get("url_citation")) or told
        yield CitationPart(
            uri=as_text(link.get("url")),
            title=as_text(link.get("title")),
            quote=as_text(link.get("content")),
            start=as_number(link.get("start_index")),
            end=as_number(link.get("end_index")),
            provider=provider,
        )
    for address in as_list(top.get("citations")):
        if isinstance(address, str):
            yield CitationPart(uri=clean(address), provider=provider)


def _tool_calls(calls: JsonValue, reply: JsonValue, provider: str) -> Iterator[Part]:
    for place, call in enumerate(map(as_object, as_list(calls))):
        function = as_object(call.get("function"))
        if (name := as_text(function.get("name"))) is None:
            continue
        part = tool_call(name, function.get("arguments"), call.get("id"), reply=reply, place=place)
        of_function = others({"function": others(function, "name", "arguments")})
        fields = {**others(call, "index", "id", "type", "function"), **of_function}
        yield from beside(provider, part, fields)
