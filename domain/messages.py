"""Messages: a role and typed parts, in a form that fits all providers.

A reply of the model is one assistant message with all its parts. Data that a provider must get back verbatim is kept in
an opaque part. The arguments of a tool call are an object, never text.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Literal

from steptrail.domain.base import Count, Value
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_row


class MessageRole(StrEnum):
    """The role of the one who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"
    DEVELOPER = "developer"


class _Part(Value, frozen=True, tag_field="kind"):
    """A part of a message. `kind` stands in its stored form, because without it nobody could tell which part it is."""


class TextPart(_Part, tag="text", frozen=True, kw_only=True):
    """Text in natural language."""

    kind: ClassVar[Literal["text"]] = "text"
    CONTENT = frozenset({"text"})
    text: str


class ToolCallPart(_Part, tag="tool_call", frozen=True, kw_only=True):
    """A request of the model to call a tool.

    `arguments` is the parsed JSON object; None when the model's text was no JSON object, and then `raw` is that text.
    """

    kind: ClassVar[Literal["tool_call"]] = "tool_call"
    CONTENT = frozenset({"arguments", "raw"})
    STATE = frozenset({"id", "name"})
    id: str
    name: str
    arguments: dict[str, JsonValue] | None = None
    raw: str | None = None


class MediaPart(_Part, tag="media", frozen=True, kw_only=True):
    """A reference to media by address. The bytes are not stored."""

    kind: ClassVar[Literal["media"]] = "media"
    CONTENT = frozenset({"uri"})
    STATE = frozenset({"mime_type"})
    uri: str
    mime_type: str


ImageDetail = Literal["auto", "low", "high"]
"""How closely a model is to look at an image, where its provider lets one choose."""


class FilePart(_Part, tag="file", frozen=True, kw_only=True, eq=False):
    """A file or an image, by the SHA-256 of its bytes, which lie once in the store, beside the events.

    It is made with its bytes by `File` and `Image`; from the log it comes without them. `size` is in bytes.
    """

    kind: ClassVar[Literal["file"]] = "file"
    CONTENT = frozenset({"digest", "filename"})
    STATE = frozenset({"detail", "mime_type"})
    digest: str
    mime_type: str
    size: Count
    filename: str | None = None
    detail: ImageDetail | None = None

    def __eq__(self, other: object) -> bool:
        """Tell whether it is the same part, whether or not the bytes are at hand."""
        return isinstance(other, FilePart) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def _fields(self) -> tuple[object, ...]:
        return self.digest, self.mime_type, self.size, self.filename, self.detail

    @property
    def data(self) -> bytes | None:
        """The bytes, where they are at hand; else None."""
        return None

    @property
    def placeholder(self) -> str:
        """The text that stands for it where it cannot be shown, such as `[image/png, 812 kB, a.png]`."""
        return f"[{', '.join(filter(None, (self.mime_type, size_text(self.size), self.filename)))}]"


def size_text(size: int) -> str:
    """Return a number of bytes for people, such as `812 kB`."""
    for unit, step in (("MB", 10**6), ("kB", 10**3)):
        if size >= step:
            return f"{size / step:.3g} {unit}" if size < 100 * step else f"{size // step} {unit}"
    return f"{size} bytes"


class ToolResultPart(_Part, tag="tool_result", frozen=True, kw_only=True):
    """The text, and the files, with which the outcome of one tool call is shown to the model."""

    kind: ClassVar[Literal["tool_result"]] = "tool_result"
    CONTENT = frozenset({"text"})
    STATE = frozenset({"call_id", "name"})
    call_id: str
    name: str
    text: str
    is_error: bool = False
    files: tuple[FilePart, ...] = ()


class ReasoningPart(_Part, tag="reasoning", frozen=True, kw_only=True):
    """The reasoning that the model showed. `signature` must be sent back unchanged."""

    kind: ClassVar[Literal["reasoning"]] = "reasoning"
    CONTENT = frozenset({"signature", "text"})
    text: str
    signature: str | None = None


class CitationPart(_Part, tag="citation", frozen=True, kw_only=True):
    """A source that the model names for the text part before it.

    `quote` is a passage of the source. `start` and `end` are the range of the message's text that rests on it; None
    when the whole text part does. `data` must be sent back to `provider` verbatim.
    """

    kind: ClassVar[Literal["citation"]] = "citation"
    CONTENT = frozenset({"data", "quote", "title", "uri"})
    STATE = frozenset({"provider"})
    uri: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    provider: str
    data: JsonValue = None


class ProviderPart(_Part, tag="provider", frozen=True, kw_only=True):
    """Opaque data that only `provider` understands. It must be sent back verbatim."""

    kind: ClassVar[Literal["provider"]] = "provider"
    CONTENT = frozenset({"data"})
    STATE = frozenset({"provider"})
    provider: str
    data: JsonValue


Part = TextPart | ToolCallPart | ToolResultPart | MediaPart | FilePart | ReasoningPart | CitationPart | ProviderPart


def text_of(parts: Sequence[Part]) -> str:
    """Return the text of parts: the text parts, joined."""
    return "".join([part.text for part in parts if isinstance(part, TextPart)])


def tool_calls_of(parts: Sequence[Part]) -> tuple[ToolCallPart, ...]:
    """Return the tool calls among parts, in order."""
    return tuple([part for part in parts if isinstance(part, ToolCallPart)])


def _text(text: object) -> TextPart:
    """Return a text part. Raises `ConfigurationError` for an object that is no text, such as a tool call."""
    if not isinstance(text, str):
        msg = f"a message is made of a text, not of {type(text).__name__}; tool calls are given as `tool_calls=(…,)`"
        raise ConfigurationError(msg)
    return TextPart(text=text)


class Message(Value, frozen=True, kw_only=True):
    """One turn of the conversation."""

    role: MessageRole
    parts: tuple[Part, ...] = ()
    name: str | None = None

    @classmethod
    def user(cls, text: str, *files: FilePart | MediaPart) -> "Message":
        """Return a message of the user: a text and files, or files alone behind an empty text."""
        for each in files:
            if not isinstance(each, FilePart | MediaPart):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"behind its text a message holds files, not {type(each).__name__}")
        head = (_text(text),) if text or not files else ()
        return cls(role=MessageRole.USER, parts=(*head, *files))

    @classmethod
    def assistant(cls, text: str = "", *, tool_calls: Sequence[ToolCallPart] = ()) -> "Message":
        """Return a message of the model; empty text makes no part."""
        head: tuple[Part, ...] = (_text(text),) if text else ()
        return cls(role=MessageRole.ASSISTANT, parts=(*head, *a_row(tool_calls, "`tool_calls`")))

    @classmethod
    def system(cls, text: str) -> "Message":
        """Return an instruction of the operator."""
        return cls(role=MessageRole.SYSTEM, parts=(_text(text),))

    @classmethod
    def developer(cls, text: str) -> "Message":
        """Return an instruction of the developer, for providers that distinguish it from one of the system."""
        return cls(role=MessageRole.DEVELOPER, parts=(_text(text),))

    @classmethod
    def tool(cls, call_id: str, name: str, text: str, *files: FilePart, is_error: bool = False) -> "Message":
        """Return the message that shows the outcome of one tool call to the model."""
        part = ToolResultPart(call_id=call_id, name=name, text=text, is_error=is_error, files=files)
        return cls(role=MessageRole.TOOL, parts=(part,))

    @property
    def text(self) -> str:
        """The text of the message: its text parts, and what the model is shown of results of tools, joined."""
        return "".join([part.text for part in self.parts if isinstance(part, TextPart | ToolResultPart)])

    @property
    def files(self) -> tuple[FilePart, ...]:
        """The files of the message, and those of results of tools in it, in order."""
        held = [part.files if isinstance(part, ToolResultPart) else (part,) for part in self.parts]
        return tuple([part for parts in held for part in parts if isinstance(part, FilePart)])

    @property
    def in_words(self) -> str:
        """The text of the message, and behind it what stands for each of its files."""
        return " ".join(filter(None, (self.text, *(part.placeholder for part in self.files))))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls of the message, in order."""
        return tool_calls_of(self.parts)

    def is_user(self) -> bool:
        """Tell whether this is a message of the user."""
        return self.role is MessageRole.USER

    def is_assistant(self) -> bool:
        """Tell whether this is a message of the model."""
        return self.role is MessageRole.ASSISTANT

    def is_tool(self) -> bool:
        """Tell whether this is the result of a tool call."""
        return self.role is MessageRole.TOOL

    def is_system(self) -> bool:
        """Tell whether this is an instruction: of the system or of the developer."""
        return self.has_role(MessageRole.SYSTEM, MessageRole.DEVELOPER)

    def is_developer(self) -> bool:
        """Tell whether this is an instruction of the developer."""
        return self.role is MessageRole.DEVELOPER

    def has_role(self, *roles: MessageRole) -> bool:
        """Tell whether the role is one of `roles`."""
        return self.role in roles
