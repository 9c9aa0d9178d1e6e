"""Neutral messages and tools become a Responses body. Pure: the same request gives the same body.

The provider stores no conversation, so every request carries the whole of it as items. Items of reasoning, and other
items of the provider's own replies that are not ours to understand, go back verbatim and where they stood.
"""

from collections.abc import Iterator, Mapping, Sequence

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import (
    CitationPart,
    FilePart,
    MediaPart,
    Message,
    MessageRole,
    Part,
    ProviderPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models.call_names import CallIds, call_name
from steptrail.infrastructure.models.files import PDF, data_uri, in_words, is_image
from steptrail.infrastructure.models.opaque import understood
from steptrail.infrastructure.models.output_form import asked_of_the_provider, form_of, named, offered
from steptrail.infrastructure.models.responses_parsing import PROVIDER
from steptrail.infrastructure.models.sdk_model import RESERVED_BY_ALL, refuse_reserved
from steptrail.infrastructure.models.tool_schema import tool_schema
from steptrail.infrastructure.models.wire import arguments_text, as_list, as_object, content_of

RESERVED_PARAMETERS = RESERVED_BY_ALL | {
    "background",
    "conversation",
    "input",
    "instructions",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "store",
    "stream_options",
}
"""Parameters that the request itself decides, that would keep the conversation elsewhere, or that are no part of the
body.
"""


def render_request(
    model: str, request: ModelRequest, parameters: Mapping[str, JsonValue], provider: str = PROVIDER
) -> dict[str, JsonValue]:
    """Return the body to post. The request's own parameters override `parameters`.

    `provider` marks what goes back. Raises `ConfigurationError` for a reserved parameter, and for media that the
    protocol cannot take by address.
    """
    merged = {**parameters, **request.parameters}
    refuse_reserved(merged, RESERVED_PARAMETERS)
    takes_sealed = "reasoning.encrypted_content" in as_list(merged.get("include"))
    items = list(render_items(request.messages, provider, takes_sealed=takes_sealed))
    body: dict[str, JsonValue] = {**merged, "model": model, "store": False, "input": items}
    if (output := asked_of_the_provider(request)) is not None:
        body["text"] = {**as_object(merged.get("text")), "format": {"type": "json_schema", **form_of(output)}}
    return body | offered(request, _tool)


def render_items(
    messages: Sequence[Message], provider: str = PROVIDER, *, takes_sealed: bool = True
) -> Iterator[JsonValue]:
    """Yield the items of a conversation, several for a message of the model.

    A model that is not asked for encrypted reasoning does not reason, and refuses that of another one: unless it
    `takes_sealed` reasoning, what its provider added to a reply that holds some stays behind.
    """
    ids = CallIds(once_in_all=True, host=provider.partition("@")[2])
    for message in messages:
        match message.role:
            case MessageRole.TOOL:
                for part in message.parts:
                    if isinstance(part, ToolResultPart):
                        call_id = ids.of_result(part.call_id)
                        yield {"type": "function_call_output", "call_id": call_id, "output": _output(part)}
            case MessageRole.ASSISTANT:
                ids.next_reply()
                goes_back = takes_sealed or not any(map(_is_sealed, message.parts))
                yield from _assistant(message.parts, ids, provider if goes_back else "")
            case _:
                yield {"role": message.role.value, "content": content_of(message, _content_part)}


def _is_sealed(part: Part) -> bool:
    item = as_object(as_object(part.data).get("whole")) if isinstance(part, ProviderPart) else {}
    return item.get("type") == "reasoning" and bool(item.get("encrypted_content"))


def _assistant(parts: Sequence[Part], ids: CallIds, provider: str) -> Sequence[JsonValue]:
    items: list[JsonValue] = []
    content: list[JsonValue] | None = None
    for part, beside in understood(provider, parts):
        match part:
            case ProviderPart() if "message" in beside:
                content = []
                items.append(_message(as_object(beside["message"]), content))
            case ProviderPart() if "content" in beside:
                if content is not None:
                    content.append(beside["content"])
            case ProviderPart():
                content = None
                items.append(beside["whole"])
            case TextPart(text=text) if content is not None:
                content.append(_text(text, beside))
            case TextPart(text=text):
                items.append({"role": "assistant", "content": text})
            case CitationPart(provider=cited_by, data=data) if content and cited_by == provider:
                cited = as_object(content[-1])
                content[-1] = {**cited, "annotations": [*as_list(cited.get("annotations")), data]}
            case ToolCallPart():
                content = None
                name, arguments = call_name(part.name), arguments_text(part)[1]
                call = {"call_id": ids.of_call(part.id), "name": name, "arguments": arguments}
                items.append({**beside, "type": "function_call", **call})
            case _:
                pass
    items = [item for item in items if as_object(item).get("content") != []]
    # A reply that was cut while the model thought. Reasoning that nothing follows is refused.
    while items and as_object(items[-1]).get("type") == "reasoning":
        items.pop()
    return items


def _message(fields: Mapping[str, JsonValue], content: list[JsonValue]) -> JsonValue:
    """Return an item that came with an id, with the content that is still to be filled in."""
    return {"status": "completed", **fields, "type": "message", "role": "assistant", "content": content}


def _text(text: str, beside: Mapping[str, JsonValue]) -> JsonValue:
    if "refusal" in beside:
        return {"type": "refusal", "refusal": text}
    return {**beside, "type": "output_text", "text": text, "annotations": []}


def _tool(spec: ToolSpec, *, is_strict: bool) -> JsonValue:
    # Tools are not strict: that needs a schema of a narrower kind than they have. The tool of an answer may have one.
    return {"type": "function", **named(spec), "parameters": tool_schema(spec), "strict": is_strict}


def _output(part: ToolResultPart) -> JsonValue:
    text: list[JsonValue] = [{"type": "input_text", "text": part.text}] if part.text else []
    return [*text, *map(_content_part, part.files)] if part.files else part.text


def _content_part(part: Part) -> JsonValue:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case FilePart() if is_image(part):
            return {"type": "input_image", "image_url": data_uri(part), "detail": part.detail or "auto"}
        case FilePart(mime_type=mime_type) if mime_type == PDF and part.data is not None:
            return {"type": "input_file", "filename": part.filename or "file.pdf", "file_data": data_uri(part)}
        case FilePart():
            return {"type": "input_text", "text": in_words(part)}
        case MediaPart() if part.mime_type.startswith("image/"):
            return {"type": "input_image", "image_url": part.uri, "detail": "auto"}
        case MediaPart(mime_type="application/pdf", uri=uri) if uri.startswith("data:"):
            return {"type": "input_file", "filename": "file.pdf", "file_data": uri}
        case MediaPart(mime_type="application/pdf"):
            return {"type": "input_file", "file_url": part.uri}
        case MediaPart():
            raise ConfigurationError(f"the Responses API takes only images and PDF, not {part.mime_type}")
        case _:
            return None
