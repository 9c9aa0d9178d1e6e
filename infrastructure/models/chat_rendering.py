"""Neutral messages and tools become a Chat Completions body. Pure: the same request gives the same body.

The protocol has no place for reasoning: it goes back under the name or in the list that it came in, to the server that
sent it. What else that server added goes back verbatim too; what another one added stays behind.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import (
    FilePart,
    MediaPart,
    Message,
    MessageRole,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models.call_names import CallIds, call_name
from steptrail.infrastructure.models.chat_content import thinking_chunk
from steptrail.infrastructure.models.chat_parsing import PROVIDER
from steptrail.infrastructure.models.files import PDF, data_uri, in_words, is_image
from steptrail.infrastructure.models.opaque import understood
from steptrail.infrastructure.models.output_form import asked_of_the_provider, form_of, named, offered
from steptrail.infrastructure.models.sdk_model import RESERVED_BY_ALL, refuse_reserved
from steptrail.infrastructure.models.tool_schema import tool_schema
from steptrail.infrastructure.models.wire import arguments_text, as_object, content_of

RESERVED_PARAMETERS = RESERVED_BY_ALL | {"messages", "n", "parallel_tool_calls", "stream_options"}
"""Parameters that the request itself decides, or that are not part of the body."""

_NOT_OF_A_NAME, _MOST_OF_A_NAME = re.compile(r"[\s<|\\/>]"), 64
"""The characters that OpenAI does not take in the name of who speaks, and how many it takes: it would refuse the whole
conversation, which holds that name for ever."""


def render_request(
    model: str, request: ModelRequest, parameters: Mapping[str, JsonValue], provider: str = PROVIDER
) -> dict[str, JsonValue]:
    """Return the body to post. The request's own parameters override `parameters`.

    `provider` marks what goes back. Raises `ConfigurationError` for a reserved parameter, and for media that the
    protocol cannot take by address.
    """
    merged = {**parameters, **request.parameters}
    refuse_reserved(merged, RESERVED_PARAMETERS)
    messages = list(render_messages(_with_one_head(request.messages), provider))
    body: dict[str, JsonValue] = {**merged, "model": model, "messages": messages}
    if (output := asked_of_the_provider(request)) is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": form_of(output)}
    return body | offered(request, render_tool)


def _with_one_head(messages: Sequence[Message]) -> Sequence[Message]:
    """Return a conversation with one message of the system at its head: templates of many models take no second one."""
    count = next((at for at, message in enumerate(messages) if not message.is_system()), len(messages))
    if count < 2:
        return messages
    head = "\n\n".join(message.text for message in messages[:count])
    return [Message.system(head), *messages[count:]]


def render_messages(messages: Sequence[Message], provider: str = PROVIDER) -> Iterator[JsonValue]:
    """Yield the wire messages; a message with several tool results becomes one for each.

    A result is text alone. The files of the results of a reply follow them, in one message of the user.
    """
    ids = CallIds(once_in_all=False, host=provider.partition("@")[2])
    shown: list[JsonValue] = []
    for message in messages:
        if shown and not message.is_tool():
            yield {"role": "user", "content": shown}
            shown = []
        match message.role:
            case MessageRole.TOOL:
                for part in message.parts:
                    if isinstance(part, ToolResultPart):
                        yield {"role": "tool", "tool_call_id": ids.of_result(part.call_id), "content": part.text}
                        if part.files:
                            named: JsonValue = {"type": "text", "text": f"[files of {part.name}]"}
                            shown += [named, *map(_content_part, part.files)]
            case MessageRole.ASSISTANT:
                ids.next_reply()
                yield _assistant(message, ids, provider)
            case _:
                yield _named(message, {"role": message.role.value, "content": content_of(message, _content_part)})
    if shown:
        yield {"role": "user", "content": shown}


def render_tool(spec: ToolSpec, *, is_strict: bool = False) -> JsonValue:
    """Return a tool as a function; one without parameters takes an empty object."""
    strict: dict[str, JsonValue] = {"strict": True} if is_strict else {}
    function: JsonValue = {**named(spec), "parameters": tool_schema(spec), **strict}
    return {"type": "function", "function": function}


def _assistant(message: Message, ids: CallIds, provider: str) -> JsonValue:
    content: list[JsonValue] = []
    calls: list[JsonValue] = []
    fields: dict[str, JsonValue] = {}
    is_list = False
    for part, beside in understood(provider, message.parts):
        match part:
            case TextPart():
                content.append({**beside, "type": "text", "text": part.text})
            case ReasoningPart() if isinstance(name := beside.get("field"), str):
                fields[name] = part.text
            case ReasoningPart() if "chunk" in beside:
                content.append(thinking_chunk(part.text, as_object(beside["chunk"])))
                is_list = True
            case ToolCallPart():
                calls.append(_tool_call(part, ids, beside))
            case ProviderPart() if "whole" in beside:
                content.append(beside["whole"])
                is_list = True
            case ProviderPart():
                fields |= as_object(beside.get("message"))
            case _:
                pass
    # No text beside calls is null; without calls the protocol wants a string.
    text = message.text or (None if calls else "")
    wire: dict[str, JsonValue] = {"role": "assistant", "content": content if is_list else text}
    if calls:
        wire["tool_calls"] = calls
    return _named(message, {**fields, **wire})


def _tool_call(call: ToolCallPart, ids: CallIds, beside: Mapping[str, JsonValue]) -> JsonValue:
    _, text = arguments_text(call)
    function = {**as_object(beside.get("function")), "name": call_name(call.name), "arguments": text}
    return {**beside, "id": ids.of_call(call.id), "type": "function", "function": function}


def _content_part(part: Part) -> JsonValue:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case FilePart() if is_image(part):
            detail: dict[str, JsonValue] = {} if part.detail is None else {"detail": part.detail}
            return {"type": "image_url", "image_url": {"url": data_uri(part), **detail}}
        case FilePart(mime_type=mime_type) if mime_type == PDF and part.data is not None:
            return {"type": "file", "file": {"filename": part.filename or "file.pdf", "file_data": data_uri(part)}}
        case FilePart():
            return {"type": "text", "text": in_words(part)}
        case MediaPart() if part.mime_type.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": part.uri}}
        case MediaPart(mime_type="application/pdf", uri=uri) if uri.startswith("data:"):
            return {"type": "file", "file": {"filename": "file.pdf", "file_data": uri}}
        case MediaPart():
            taken, given = "images, and PDF as `data:application/pdf;base64,…`", f"`{part.uri.partition(':')[0]}:…`"
            raise ConfigurationError(f"Chat Completions takes only {taken}, not {part.mime_type} as {given}")
        case _:
            return None


def _named(message: Message, wire: dict[str, JsonValue]) -> JsonValue:
    if message.name:
        wire["name"] = _NOT_OF_A_NAME.sub("_", message.name)[:_MOST_OF_A_NAME]
    return wire
