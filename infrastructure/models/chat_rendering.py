"""Neutral messages and tools become a Chat Completions body. Pure: the same request gives the same body.

Reasoning is not sent back, since the protocol has no place for it; opaque parts of our own go back verbatim, those of
another provider stay behind.
"""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import (
    MediaPart,
    Message,
    MessageRole,
    ProviderPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models.call_names import CallIds, call_name
from steptrail.infrastructure.models.chat_parsing import PROVIDER
from steptrail.infrastructure.models.sdk_model import refuse_reserved
from steptrail.infrastructure.models.wire import arguments_text

__all__ = ["RESERVED_PARAMETERS", "render_messages", "render_request", "render_tool"]

RESERVED_PARAMETERS = frozenset(
    {
        "extra_body",
        "extra_headers",
        "extra_query",
        "messages",
        "model",
        "n",
        "parallel_tool_calls",
        "stream",
        "stream_options",
        "timeout",
        "tool_choice",
        "tools",
    }
)
"""Parameters that the request itself decides, or that are not part of the body."""


def render_request(model: str, request: ModelRequest, parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the body to post. The request's own parameters override `parameters`.

    Raises `ConfigurationError` for a reserved parameter, and for media that the protocol cannot take by address.
    """
    merged = {**parameters, **request.parameters}
    refuse_reserved(merged, RESERVED_PARAMETERS)
    body: dict[str, JsonValue] = {**merged, "model": model, "messages": list(render_messages(request.messages))}
    if request.tools:
        body["tools"] = [render_tool(spec) for spec in request.tools]
        body["tool_choice"] = request.tool_choice
        if request.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = request.parallel_tool_calls
    return body


def render_messages(messages: Sequence[Message]) -> Iterator[JsonValue]:
    """Yield the wire messages; a message with several tool results becomes one for each."""
    ids = CallIds(once_in_all=False)
    for message in messages:
        match message.role:
            case MessageRole.TOOL:
                for part in message.parts:
                    if isinstance(part, ToolResultPart):
                        yield {"role": "tool", "tool_call_id": ids.of_result(part.call_id), "content": part.text}
            case MessageRole.ASSISTANT:
                ids.next_reply()
                yield _assistant(message, ids)
            case _:
                yield _named(message, {"role": message.role.value, "content": _content(message)})


def render_tool(spec: ToolSpec) -> JsonValue:
    """Return a tool as a function; one without parameters takes an empty object."""
    function: dict[str, JsonValue] = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description
    function["parameters"] = spec.parameters or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def _assistant(message: Message, ids: CallIds) -> JsonValue:
    calls = [(part.id, _tool_call(part, ids)) for part in message.tool_calls]
    # No text beside calls is null; without calls the protocol wants a string.
    wire: dict[str, JsonValue] = {"role": "assistant", "content": message.text or (None if calls else "")}
    if calls:
        wire["tool_calls"] = [call for _, call in calls]
    for part in message.parts:
        if isinstance(part, ProviderPart) and part.provider == PROVIDER and isinstance(part.data, dict):
            _restore(wire, calls, part.data)
    return _named(message, wire)


def _restore(
    wire: dict[str, JsonValue], calls: Sequence[tuple[str, dict[str, JsonValue]]], data: Mapping[str, JsonValue]
) -> None:
    """Put opaque fields back where they came from; what this module wrote itself is never overwritten."""
    of_message, of_calls = data.get("message"), data.get("tool_calls")
    if isinstance(of_message, dict):
        wire.update({name: value for name, value in of_message.items() if name not in wire})
    for call_id, call in calls:
        fields = of_calls.get(call_id) if isinstance(of_calls, dict) else None
        if isinstance(fields, dict):
            call.update({name: value for name, value in fields.items() if name not in call})


def _tool_call(call: ToolCallPart, ids: CallIds) -> dict[str, JsonValue]:
    _, text = arguments_text(call)
    function: JsonValue = {"name": call_name(call.name), "arguments": text}
    return {"id": ids.of_call(call.id), "type": "function", "function": function}


def _content(message: Message) -> JsonValue:
    if all(isinstance(part, TextPart) for part in message.parts):
        return message.text
    return [rendered for part in message.parts if (rendered := _content_part(part)) is not None]


def _content_part(part: object) -> JsonValue:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case MediaPart() if part.mime_type.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": part.uri}}
        case MediaPart():
            raise ConfigurationError(f"Chat Completions takes only images by address, not {part.mime_type}")
        case _:
            return None


def _named(message: Message, wire: dict[str, JsonValue]) -> JsonValue:
    if message.name:
        wire["name"] = message.name
    return wire
