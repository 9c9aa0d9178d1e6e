"""Neutral messages and tools become a Responses body. Pure: the same request gives the same body.

Nothing is stored at the provider, so every request carries the whole conversation as items. Items of reasoning, and
what else of the provider's own replies is not ours to understand, go back verbatim and where they stood.
"""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import (
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
from steptrail.infrastructure.models.responses_parsing import PROVIDER
from steptrail.infrastructure.models.sdk_model import refuse_reserved
from steptrail.infrastructure.models.wire import arguments_text, as_object

__all__ = ["RESERVED_PARAMETERS", "render_items", "render_request"]

RESERVED_PARAMETERS = frozenset(
    {
        "background",
        "conversation",
        "extra_body",
        "extra_headers",
        "extra_query",
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "store",
        "stream",
        "stream_options",
        "timeout",
        "tool_choice",
        "tools",
    }
)
"""Parameters that the request itself decides, that would keep the conversation elsewhere, or that are no part of the
body.
"""


def render_request(model: str, request: ModelRequest, parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the body to post. The request's own parameters override `parameters`.

    Raises `ConfigurationError` for a reserved parameter, and for media that the protocol cannot take by address.
    """
    merged = {**parameters, **request.parameters}
    refuse_reserved(merged, RESERVED_PARAMETERS)
    items = list(render_items(request.messages))
    body: dict[str, JsonValue] = {**merged, "model": model, "store": False, "input": items}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        body["tool_choice"] = request.tool_choice
        if request.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = request.parallel_tool_calls
    return body


def render_items(messages: Sequence[Message]) -> Iterator[JsonValue]:
    """Yield the items of a conversation, several for a message of the model."""
    ids = CallIds(once_in_all=True)
    for message in messages:
        match message.role:
            case MessageRole.TOOL:
                for part in message.parts:
                    if isinstance(part, ToolResultPart):
                        call_id = ids.of_result(part.call_id)
                        yield {"type": "function_call_output", "call_id": call_id, "output": part.text}
            case MessageRole.ASSISTANT:
                ids.next_reply()
                yield from _assistant(message.parts, ids)
            case _:
                yield {"role": message.role.value, "content": _content(message)}


def _assistant(parts: Sequence[Part], ids: CallIds) -> Sequence[JsonValue]:
    items: list[JsonValue] = []
    beside: dict[str, JsonValue] = {}
    for part in parts:
        match part:
            case ProviderPart(provider=provider, data=data) if provider == PROVIDER and isinstance(data, dict):
                beside = data
                if "item" in data:
                    items.append(data["item"])
            case TextPart(text=text):
                items.append(_text(text, as_object(beside.get("message"))))
                beside = {}
            case ToolCallPart():
                name, arguments = call_name(part.name), arguments_text(part)[1]
                call = {"call_id": ids.of_call(part.id), "name": name, "arguments": arguments}
                items.append({**as_object(beside.get("call")), "type": "function_call", **call})
                beside = {}
            case _:
                pass
    # A reply that was cut while the model thought. Reasoning that nothing follows is refused.
    while items and as_object(items[-1]).get("type") == "reasoning":
        items.pop()
    return items


def _text(text: str, fields: Mapping[str, JsonValue]) -> JsonValue:
    if "id" not in fields:
        return {"role": "assistant", "content": text}
    content: JsonValue = [{"type": "output_text", "text": text, "annotations": []}]
    return {"status": "completed", **fields, "type": "message", "role": "assistant", "content": content}


def _tool(spec: ToolSpec) -> JsonValue:
    parameters: JsonValue = spec.parameters or {"type": "object", "properties": {}}
    described: dict[str, JsonValue] = {"description": spec.description} if spec.description else {}
    # Not strict: that needs a schema of a narrower kind than tools have, and Chat Completions is not strict either.
    return {"type": "function", "name": spec.name, **described, "parameters": parameters, "strict": False}


def _content(message: Message) -> JsonValue:
    if all(isinstance(part, TextPart) for part in message.parts):
        return message.text
    return [rendered for part in message.parts if (rendered := _content_part(part)) is not None]


def _content_part(part: Part) -> JsonValue:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case MediaPart() if part.mime_type.startswith("image/"):
            return {"type": "input_image", "image_url": part.uri, "detail": "auto"}
        case MediaPart(mime_type="application/pdf"):
            return {"type": "input_file", "file_url": part.uri}
        case MediaPart():
            raise ConfigurationError(f"the Responses API takes only images and PDF by address, not {part.mime_type}")
        case _:
            return None
