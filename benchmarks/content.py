"""What the content of a session is, in bytes: what was said, and nothing about how it is kept.

Counted from the messages that the session folds to, so it holds only what a reader gets back: the UTF-8 of every text,
the arguments of a tool call as compact JSON, and what the model is shown of each result. Roles, ids, names of tools,
times, votes and usage are not content.
"""

from collections.abc import Iterable

import orjson

from steptrail.domain.messages import (
    CitationPart,
    FilePart,
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)


def content_bytes(messages: Iterable[Message]) -> int:
    """Return the bytes of content in the messages."""
    return sum(_bytes(part) for message in messages for part in message.parts)


def _bytes(part: Part) -> int:
    match part:
        case ToolCallPart():
            return len((part.raw or "").encode()) if part.arguments is None else len(orjson.dumps(part.arguments))
        case FilePart():
            return len(part.digest) + len((part.filename or "").encode())
        case MediaPart():
            return len(part.uri.encode())
        case ProviderPart():
            return len(orjson.dumps(part.data))
        case CitationPart():
            told = (part.uri, part.title, part.quote)
            return sum(len(text.encode()) for text in told if text is not None)
        case TextPart() | ReasoningPart() | ToolResultPart():
            return len(part.text.encode())
