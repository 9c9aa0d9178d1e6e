"""Messages as entries of a slim document, and back.

An entry is `role`, `content` and, where there is anything to say, `metadata`. The text parts of a message join to its
content. Its `metadata` holds `tool_calls` (`id`, `name`, `args` or the model's `raw_args`), `citations` (`uri`,
`title`, `quote`, `start`, `end`), `reasoning` (`text`, `signature`), `media` (`uri`, `mime_type`) and `provider`
(`provider`, `data`, and `before`: the kind of part that it stands in front of, and which of that kind, from 0). Each
result of a tool is an entry of its own, its text the content, with `tool_call_id`, `tool_name` and `is_error`.
"""

from collections.abc import Sequence

from msgspec import structs

from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.base import made
from steptrail.domain.failures import ErrorType
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
    text_of,
)
from steptrail.domain.storable import storable
from steptrail.projections.serialization.config import SlimSerializationConfig
from steptrail.projections.serialization.cutting import cut
from steptrail.projections.serialization.reader import Reader

Entry = dict[str, JsonValue]

OMITTED_RESULT = "[tool result omitted]"
UNFIT_ARGUMENTS = "The arguments do not fit the tool."
"""Stands for the error of a call that was refused because of them, where no argument is shown: it quotes them."""


def newest_entries(
    messages: Sequence[Message], origins: Sequence[MessageOrigin], config: SlimSerializationConfig
) -> list[Entry]:
    """Return the newest messages as entries, oldest first, none of them a result whose call is not among them."""
    most = config.max_messages
    found: list[list[Entry]] = []
    count = 0
    for message, origin in zip(reversed(messages), reversed(origins), strict=True):
        if most is not None and count >= most:
            break
        if origin.output:
            continue  # the model was asked for its answer in the right form
        found.append(_entries_of(message, origin, config))
        count += len(found[-1])
    entries = [entry for of_one in reversed(found) for entry in of_one]
    if most is not None:
        entries = entries[max(len(entries) - most, 0) :]
    return without_orphans(entries)


def without_orphans(entries: list[Entry]) -> list[Entry]:
    """Return the entries from the first that is no result of a tool."""
    first = next((place for place, entry in enumerate(entries) if not is_result(entry)), len(entries))
    return entries[first:]


def is_result(entry: Entry) -> bool:
    """Tell whether an entry is what a tool answered."""
    metadata = entry.get("metadata")
    return isinstance(metadata, dict) and "tool_call_id" in metadata


def _entries_of(message: Message, origin: MessageOrigin, config: SlimSerializationConfig) -> list[Entry]:
    """Return a message as one entry, or as one for each result of a tool in it, after what else it says."""
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    quotes_arguments = origin.error_type is ErrorType.VALIDATION
    entries = [_result(part, config, quotes_arguments=quotes_arguments) for part in results]
    if not results or len(results) < len(message.parts):
        entries.insert(0, _spoken(message, config))
    return entries


def _spoken(message: Message, config: SlimSerializationConfig) -> Entry:
    metadata: Entry = {}
    calls: list[JsonValue] = [_call(part, config) for part in message.tool_calls]
    media: list[JsonValue] = [
        {"uri": part.uri, "mime_type": part.mime_type} for part in message.parts if isinstance(part, MediaPart)
    ]
    files: list[JsonValue] = [_file(part) for part in message.parts if isinstance(part, FilePart)]
    citations = [_citation(part, config) for part in message.parts if isinstance(part, CitationPart)]
    for key, found in (("tool_calls", calls), ("citations", citations), ("media", media), ("files", files)):
        if found:
            metadata[key] = found
    if config.include_reasoning:
        metadata |= _only_for_the_model(message, config)
    entry: Entry = {"role": message.role.value, "content": cut(text_of(message.parts), config.max_content_length)}
    return {**entry, "metadata": metadata} if metadata else entry


def _file(part: FilePart) -> Entry:
    return {name: value for name, value in structs.asdict(part).items() if value is not None}


def _call(part: ToolCallPart, config: SlimSerializationConfig) -> Entry:
    call: Entry = {"id": part.id, "name": part.name}
    if config.include_tool_args and part.arguments is not None:
        call["args"] = part.arguments
    elif config.include_tool_args and part.raw is not None:
        call["raw_args"] = part.raw
    return call


def _citation(part: CitationPart, config: SlimSerializationConfig) -> JsonValue:
    said: dict[str, JsonValue] = {
        name: value for name in part.__struct_fields__ if (value := getattr(part, name)) is not None
    }
    if part.quote is not None:
        said["quote"] = cut(part.quote, config.max_content_length)
    hidden = () if config.include_reasoning else ("provider", "data")
    return {name: value for name, value in said.items() if name not in hidden}


def _only_for_the_model(message: Message, config: SlimSerializationConfig) -> Entry:
    thoughts: list[JsonValue] = []
    opaque: list[JsonValue] = []
    for number, part in enumerate(message.parts):
        if isinstance(part, ReasoningPart):
            text = cut(part.text, config.max_content_length)
            # A signature is one of the whole text: beside a part of it the provider would refuse both.
            thoughts.append({"text": text, "signature": part.signature if text == part.text else None})
        elif isinstance(part, ProviderPart) and config.include_tool_args:  # which may repeat the calls
            opaque.append({"provider": part.provider, "data": part.data, **_place(message.parts, number)})
    return {key: found for key, found in (("reasoning", thoughts), ("provider", opaque)) if found}


def _place(parts: Sequence[Part], number: int) -> Entry:
    """Return what an opaque part stands in front of, if that is anything: it may belong to it."""
    following = next((part for part in parts[number:] if not isinstance(part, ProviderPart)), None)
    if following is None:
        return {}
    return {"before": [following.kind, sum(part.kind == following.kind for part in parts[:number])]}


def _result(part: ToolResultPart, config: SlimSerializationConfig, *, quotes_arguments: bool) -> Entry:
    if not config.include_tool_results:
        text = OMITTED_RESULT
    elif quotes_arguments and not config.include_tool_args:
        text = UNFIT_ARGUMENTS
    else:
        text = cut(part.text, config.max_content_length)
    said: Entry = {"tool_call_id": part.call_id, "tool_name": part.name, "is_error": part.is_error}
    if part.files and config.include_tool_results:
        said["files"] = list(map(_file, part.files))
    return {"role": MessageRole.TOOL.value, "content": text, "metadata": said}


def message_of(entry: Reader) -> Message:
    """Return the message of an entry, which may say `_metadata` for `metadata`. Raises `InvalidStateData`."""
    role = entry.one_of("role", MessageRole)
    content = entry.text("content", "")
    metadata = entry.object("metadata" if entry.has("metadata") else "_metadata")
    if metadata.has("tool_call_id"):
        result = ToolResultPart(
            call_id=metadata.text("tool_call_id"),
            name=metadata.text("tool_name", "unknown"),
            text=content,
            is_error=metadata.truth("is_error", default=False),
            files=tuple(map(_file_of, metadata.objects("files"))),
        )
        return Message(role=role, parts=(result,))
    parts: list[Part] = [
        *(
            ReasoningPart(text=each.text("text", ""), signature=each.text_or_none("signature"))
            for each in metadata.objects("reasoning")
        ),
        *([TextPart(text=content)] if content else []),
        *(_citation_of(each) for each in metadata.objects("citations")),
        *(
            MediaPart(uri=each.text("uri"), mime_type=each.text("mime_type", "application/octet-stream"))
            for each in metadata.objects("media")
        ),
        *(_file_of(each) for each in metadata.objects("files")),
        *(_call_of(each) for each in metadata.objects("tool_calls")),
    ]
    for each in metadata.objects("provider"):
        parts.insert(_found(parts, each.value("before")), _opaque(each))
    return Message(role=role, parts=tuple(parts))


def _found(parts: Sequence[Part], before: JsonValue) -> int:
    """Return where an opaque part stood. Texts have become one, so the last of a kind stands for those after it."""
    kind, number = before if isinstance(before, list) and len(before) == 2 else (None, 0)
    places = [place for place, part in enumerate(parts) if part.kind == kind]
    if not places or not isinstance(number, int):
        return len(parts)
    return places[min(max(number, 0), len(places) - 1)]


def _citation_of(told: Reader) -> CitationPart:
    said = {name: told.value(name) for name in ("uri", "title", "quote", "start", "end", "data")}
    said |= {"kind": "citation", "provider": told.text("provider", "unknown")}
    return told.made("uri", lambda: made(CitationPart, said))


def _file_of(told: Reader) -> FilePart:
    said = {name: told.value(name) for name in FilePart.__struct_fields__}
    return told.made("digest", lambda: made(FilePart, {"kind": "file", **said}))


def _call_of(call: Reader) -> ToolCallPart:
    name = call.text_or_none("name") or call.object("function").text_or_none("name") or "unknown"
    identity, raw = call.text_or_none("id") or "", call.text_or_none("raw_args")
    arguments = call.values("args") if call.has("args") else None
    return call.made("args", lambda: ToolCallPart(id=identity, name=name, arguments=arguments, raw=raw))


def _opaque(part: Reader) -> ProviderPart:
    provider, data = part.text("provider"), part.value("data")
    return part.made("data", lambda: ProviderPart(provider=provider, data=storable(data)))
