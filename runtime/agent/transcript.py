"""A conversation as one text for a model that summarises it. Its size is bounded, however long the conversation is."""

from collections.abc import Sequence
from typing import Final

from steptrail.domain.messages import MediaPart, Message
from steptrail.domain.tools import result_text

_LEAST_BYTES: Final = 200
"""The least that is left of a message before whole messages are left out."""


def transcript_of(messages: Sequence[Message], most: int) -> str:
    """Return the conversation as text of about `most` bytes of UTF-8.

    Long messages lose their middle first; when that is not enough, messages after the first one are left out. What only
    one provider understands, such as reasoning, is left out anyway.
    """
    said = [text for message in messages if (text := _said(message))]
    sizes = [len(text.encode()) for text in said]
    longest = max(sizes, default=0)
    while longest > _LEAST_BYTES and sum(min(size, longest) for size in sizes) > most:
        longest = max(_LEAST_BYTES, longest * 3 // 4)
    said = [_shortened(text, longest) for text in said]
    out = max(0, len(said) - max(2, most // _LEAST_BYTES)) if sum(len(text.encode()) for text in said) > most else 0
    if out:
        said[1 : 1 + out] = [f"[{out:,} messages left out]"]
    return "\n\n".join(said)


def _said(message: Message) -> str:
    calls = [f"calls {each.name} {result_text(each.arguments or each.raw)}" for each in message.tool_calls]
    shown = [f"shows {part.mime_type}" for part in message.parts if isinstance(part, MediaPart)]
    said = "\n".join(text for text in (message.in_words, *calls, *shown) if text)
    return f"{message.role.value}: {said}" if said else ""


def _shortened(text: str, most: int) -> str:
    written = text.encode()
    if len(written) <= most:
        return text
    half = max(1, most // 2 - 20)
    begin, end = written[:half].decode(errors="ignore"), written[-half:].decode(errors="ignore")
    return f"{begin} […{len(written) - 2 * half:,} bytes left out…] {end}"
