"""A conversation that was compacted: the part of it that requests show, and how the newest compaction went."""

import msgspec
from msgspec import Struct, structs

from steptrail.domain.messages import FilePart, Message, ToolResultPart
from steptrail.domain.shared.run import after_step

_MOST_OF_AN_IMAGE = 6_000
"""The characters of a text that takes about as many tokens as an image does, however many bytes that has."""
_HEAD = "The conversation so far is left out here. This is its summary:"


class Shortened(Struct, frozen=True):
    """The part of a conversation that is shown; see `ConversationCompacted`. `asked` counts the summaries asked for."""

    through: int = 0
    kept: tuple[int, ...] = ()
    summary: str | None = None
    cleared_through: int = 0
    cleared_above: int = 0
    asked: int = 0

    @property
    def head(self) -> tuple[Message, ...]:
        """The message with the summary, if there is one."""
        return (Message.user(f"{_HEAD}\n\n{self.summary}"),) if self.summary is not None else ()


class Compacted(Struct, frozen=True):
    """The newest compaction of an execution, its `number`-th, after step `step`.

    `tokens_after` is what the first request after it took; 0 until that is known. `how` says what was done.
    """

    number: int
    step: int
    tokens_before: int
    how: str
    tokens_after: int = 0

    def __str__(self) -> str:
        """Return what it came to: `182,310 -> 9,400 tokens after step 41 (summary by gpt-5-mini)`."""
        before = f"{self.tokens_before:,}" if self.tokens_before else "too many"
        after = f" -> {self.tokens_after:,}" if self.tokens_after else ""
        more = f", compaction {self.number}" if self.number > 1 else ""
        return f"{before}{after} tokens {after_step(self.step)} ({self.how}){more}"


def without_long_results(message: Message, above: int) -> Message:
    """Return the message with a note in place of each result of a tool that has more than `above` characters.

    The files of a result go with it, and count as text.
    """
    if not message.is_tool():
        return message
    parts = tuple(
        structs.replace(part, text=_note(part), files=())
        if isinstance(part, ToolResultPart) and _is_long(part, above)
        else part
        for part in message.parts
    )
    return message if parts == message.parts else structs.replace(message, parts=parts)


def size_of(message: Message) -> int:
    """Return how much there is to read of a message, in bytes of text."""
    return len(msgspec.json.encode(message)) + sum(map(_size_of_file, message.files))


def _size_of_file(part: FilePart) -> int:
    return min(part.size, _MOST_OF_AN_IMAGE) if part.mime_type.startswith("image/") else part.size


def _is_long(part: ToolResultPart, above: int) -> bool:
    return len(part.text) + sum(map(_size_of_file, part.files)) > max(above, len(_note(part)))


def _note(part: ToolResultPart) -> str:
    shown = (f"{len(part.text):,} characters", *(file.placeholder[1:-1] for file in part.files))
    return f"[result of {part.name}, {', '.join(shown)}, left out]"
