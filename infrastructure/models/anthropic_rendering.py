"""Neutral messages and tools become a Messages body. Pure: the same request gives the same body.

The system prompt is a field of its own, and turns alternate: all results of a turn, and what the user says after them,
are one message of the user. Thinking goes back with its signature, and opaque blocks verbatim, where they stood.
"""

import re
from collections.abc import Mapping, Sequence

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
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from steptrail.domain.output import OutputMode
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models.anthropic_parsing import PROVIDER
from steptrail.infrastructure.models.anthropic_schema import messages_schema
from steptrail.infrastructure.models.call_names import CallIds, call_name
from steptrail.infrastructure.models.files import PDF, base64_of, in_words, is_image, text_in
from steptrail.infrastructure.models.opaque import understood
from steptrail.infrastructure.models.output_form import asked_of_the_provider, is_strict, named
from steptrail.infrastructure.models.prompt_cache import CacheTime, Ends, mark
from steptrail.infrastructure.models.sdk_model import RESERVED_BY_ALL, refuse_reserved
from steptrail.infrastructure.models.tool_schema import tool_schema
from steptrail.infrastructure.models.wire import arguments_text, as_list, as_object

RESERVED_PARAMETERS = RESERVED_BY_ALL | {"messages", "system"}
"""Parameters that the request itself decides, or that are not part of the body."""

_THINKING = ("thinking", "redacted_thinking")
_CHOICES: Mapping[str, str] = {"auto": "auto", "none": "none", "required": "any"}
_DATA = re.compile(r"data:(?P<mime>[^;,]+);base64,(?P<data>.*)", re.DOTALL)
_BEFORE = "(The conversation began before this.)"
"""The user's message that is put before a conversation in which the assistant speaks first, such as a greeting or a
history that was cut: the API wants the user to begin."""
_AFTER = "(Go on.)"
"""The user's message that is put behind an answer after which another step is asked for, by a hook for instance: models
refuse a conversation in which the assistant speaks last, or go on writing its words. It stays where it was when the
next words of the assistant follow: newer models refuse thinking in front of which anything has changed."""
_EMPTY = "(The message is empty.)"
"""The message that is sent in the place of a blank one of the user: the API takes no blank text."""
_LARGEST_IMAGE = 7_864_320
"""The most bytes of an image: the API refuses one of more than 10 MiB, which it counts in base64."""
_NOT_OF_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")


def render_request(
    model: str,
    request: ModelRequest,
    parameters: Mapping[str, JsonValue],
    provider: str = PROVIDER,
    cache: CacheTime | None = None,
) -> dict[str, JsonValue]:
    """Return the body to post. The request's own parameters override `parameters`.

    `provider` marks what goes back. The body is marked for the provider's `cache`, unless the parameters do that.
    Raises `ConfigurationError` for a reserved parameter, and for media that the protocol cannot take.
    """
    merged = {**parameters, **request.parameters}
    refuse_reserved(merged, RESERVED_PARAMETERS)
    system: list[JsonValue] = [
        {"type": "text", "text": message.text}
        for message in request.messages
        if message.is_system() and message.text.strip()
    ]
    ends: Ends = []
    turns = render_messages(request.messages, provider, ends)
    if turns and as_object(turns[0]).get("role") == "assistant":
        turns.insert(0, _told(_BEFORE))
    if turns and as_object(turns[-1]).get("role") == "assistant":
        turns.append(_told(_AFTER))
    body: dict[str, JsonValue] = {**merged, "model": model, "messages": turns}
    if system:
        body["system"] = system
    if (output := asked_of_the_provider(request)) is not None:
        form: JsonValue = {"type": "json_schema", "schema": messages_schema(output.json_schema)}
        body["output_config"] = {**as_object(merged.get("output_config")), "format": form}
    tools = [_tool(spec, is_strict=is_strict(spec, request)) for spec in request.tools] or _gone(request.messages)
    if tools:
        choice: dict[str, JsonValue] = {"type": _CHOICES[request.tool_choice] if request.tools else "none"}
        if request.output_mode is OutputMode.TOOL and choice["type"] == "any" and _thinks(merged):
            choice["type"] = "auto"  # to force a call is refused while the model thinks
        if request.parallel_tool_calls is not None and choice["type"] != "none":
            choice["disable_parallel_tool_use"] = not request.parallel_tool_calls
        body |= {"tools": tools, "tool_choice": choice}
    if cache is not None and "cache_control" not in merged:
        mark(body, request, ends, cache)
    return body


def _told(text: str) -> JsonValue:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def render_messages(messages: Sequence[Message], provider: str = PROVIDER, ends: Ends | None = None) -> list[JsonValue]:
    """Return the turns of a conversation, without the messages of the system. `ends` takes where each message ends."""
    turns: list[tuple[str, list[JsonValue]]] = []
    ids = CallIds(once_in_all=True)
    for message in messages:
        role = "user"
        if message.role is MessageRole.ASSISTANT:
            role = "assistant"
            ids.next_reply()
        blocks = [] if message.is_system() else render_blocks(message.parts, ids, provider)
        if message.is_user() and not blocks:
            blocks.append({"type": "text", "text": _EMPTY})
        # A reply that was cut while the model thought. Thinking that nothing follows is refused.
        while role == "assistant" and blocks and as_object(blocks[-1]).get("type") in _THINKING:
            blocks.pop()
        if blocks:
            if role == "assistant" and turns and turns[-1][0] == role:
                turns.append(("user", [{"type": "text", "text": _AFTER}]))
            if not turns or turns[-1][0] != role:
                turns.append((role, []))
            turns[-1][1].extend(blocks)
        if ends is not None:
            ends.append((turns[-1][1], len(turns[-1][1])) if turns else ([], 0))
    return [{"role": role, "content": blocks} for role, blocks in turns]


def render_blocks(parts: Sequence[Part], ids: CallIds, provider: str) -> list[JsonValue]:
    """Return the blocks of a message; blank text is refused and makes none."""
    blocks: list[dict[str, JsonValue]] = []
    cited: dict[str, JsonValue] = {}
    for part, beside in understood(provider, parts):
        block = _block(part, beside, ids)
        if isinstance(part, CitationPart) and part.provider == provider and cited:
            cited["citations"] = [*as_list(cited.get("citations")), part.data]
        elif isinstance(part, TextPart):
            cited = block or {}
        if block:
            blocks.append(block)
    return list[JsonValue](blocks)


def _block(part: Part, beside: Mapping[str, JsonValue], ids: CallIds) -> dict[str, JsonValue] | None:
    match part:
        case TextPart(text=text):
            return {**beside, "type": "text", "text": text} if text.strip() else None
        case ToolCallPart():
            arguments, _ = arguments_text(part)
            call_id = ids.of_call(_id(part.id))
            return {**beside, "type": "tool_use", "id": call_id, "name": call_name(part.name), "input": arguments}
        case ToolResultPart():
            failed: dict[str, JsonValue] = {"is_error": True} if part.is_error else {}
            call_id = ids.of_result(_id(part.call_id))
            words: list[JsonValue] = [{"type": "text", "text": part.text}] if part.text.strip() else []
            told: JsonValue = [*words, *map(_file, part.files)] if part.files else part.text
            return {"type": "tool_result", "tool_use_id": call_id, "content": told, **failed}
        case ReasoningPart(text=text, signature=str(signature)):
            return {**beside, "type": "thinking", "thinking": text, "signature": signature}
        case ReasoningPart(text=text):
            # Without what came beside it, it is that of another provider and would be refused.
            return {**beside, "type": "thinking", "thinking": text} if beside else None
        case ProviderPart():
            return as_object(beside.get("whole"))
        case FilePart():
            return _file(part)
        case MediaPart():
            return _media(part)
        case CitationPart():
            return None


def _thinks(parameters: Mapping[str, JsonValue]) -> bool:
    return as_object(parameters.get("thinking")).get("type") in {"enabled", "adaptive"}


def _tool(spec: ToolSpec, *, is_strict: bool) -> JsonValue:
    if is_strict:
        return {**named(spec), "input_schema": messages_schema(spec.parameters), "strict": True}
    return {**named(spec), "input_schema": tool_schema(spec)}


def _gone(messages: Sequence[Message]) -> list[JsonValue]:
    """Return the tools that a conversation has used: one that holds calls is refused when it names no tools."""
    names = dict.fromkeys(call_name(call.name) for message in messages for call in message.tool_calls)
    return [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in names]


def _id(call_id: str) -> str:
    # A conversation may have begun with a provider whose ids have other characters.
    return _NOT_OF_AN_ID.sub("_", call_id)


def _file(part: FilePart) -> dict[str, JsonValue]:
    title: dict[str, JsonValue] = {} if part.filename is None else {"title": part.filename}
    inline: JsonValue = {"type": "base64", "media_type": part.mime_type, "data": base64_of(part)}
    if is_image(part) and part.size <= _LARGEST_IMAGE:
        return {"type": "image", "source": inline}
    if part.mime_type == PDF and part.data is not None:
        return {"type": "document", "source": inline, **title}
    if text := (text_in(part) or "").strip():
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **title}
    return {"type": "text", "text": in_words(part)}


def _media(part: MediaPart) -> dict[str, JsonValue]:
    kind = "image" if part.mime_type.startswith("image/") else "document"
    if kind == "document" and part.mime_type != "application/pdf":
        raise ConfigurationError(f"the Messages API takes only images and PDF, not {part.mime_type}")
    inline = _DATA.fullmatch(part.uri)
    source: JsonValue = (
        {"type": "base64", "media_type": inline["mime"], "data": inline["data"]}
        if inline
        else {"type": "url", "url": part.uri}
    )
    return {"type": kind, "source": source}
