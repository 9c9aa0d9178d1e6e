"""Messages: a role and typed parts, neutral between providers.

A reply of the model is one assistant message with all its parts. What a provider must get back verbatim travels in an
opaque part. Arguments of a tool call are never text.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue, field_serializer

from steptrail.domain.base import FrozenModel
from steptrail.domain.errors import ConfigurationError

__all__ = [
    "CitationPart",
    "MediaPart",
    "Message",
    "MessageRole",
    "Part",
    "ProviderPart",
    "ReasoningPart",
    "TextPart",
    "ToolCallPart",
    "ToolResultPart",
    "text_of",
    "tool_calls_of",
]


class MessageRole(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"
    DEVELOPER = "developer"


class _TaggedPart(FrozenModel):
    @field_serializer("kind", check_fields=False)
    def _always_written(self, kind: str) -> str:
        # A field with a serializer of its own is written also where defaults are not: without its tag a part could not
        # be told from the others on reading.
        return kind


class TextPart(_TaggedPart):
    """Natural language."""

    kind: Literal["text"] = "text"
    CONTENT = frozenset({"text"})
    text: str


class ToolCallPart(_TaggedPart):
    """The model asks for a tool.

    `arguments` is the parsed JSON object, or None when the model's text was not one; then `raw` is that text.
    """

    kind: Literal["tool_call"] = "tool_call"
    CONTENT = frozenset({"arguments", "raw"})
    STATE = frozenset({"id", "name"})
    id: str
    name: str
    arguments: dict[str, JsonValue] | None = None
    raw: str | None = None


class ToolResultPart(_TaggedPart):
    """The text that the model is shown of one tool call."""

    kind: Literal["tool_result"] = "tool_result"
    CONTENT = frozenset({"text"})
    STATE = frozenset({"call_id", "name"})
    call_id: str
    name: str
    text: str
    is_error: bool = False


class MediaPart(_TaggedPart):
    """A reference to media by address; the bytes are not stored."""

    kind: Literal["media"] = "media"
    CONTENT = frozenset({"uri"})
    STATE = frozenset({"mime_type"})
    uri: str
    mime_type: str


class ReasoningPart(_TaggedPart):
    """The reasoning that the model showed; `signature` must go back unchanged."""

    kind: Literal["reasoning"] = "reasoning"
    CONTENT = frozenset({"signature", "text"})
    text: str
    signature: str | None = None


class CitationPart(_TaggedPart):
    """A source that the model names for the text part before it.

    `quote` is what stands in the source. `start` and `end` are the characters of the message's text that rest on it,
    where the provider says so; otherwise the whole text part does. `data` is what `provider` wants back verbatim.
    """

    kind: Literal["citation"] = "citation"
    CONTENT = frozenset({"data", "quote", "title", "uri"})
    STATE = frozenset({"provider"})
    uri: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    provider: str
    data: JsonValue = None


class ProviderPart(_TaggedPart):
    """Opaque data that only `provider` understands and must get back verbatim."""

    kind: Literal["provider"] = "provider"
    CONTENT = frozenset({"data"})
    STATE = frozenset({"provider"})
    provider: str
    data: JsonValue


Part = Annotated[
    TextPart | ToolCallPart | ToolResultPart | MediaPart | ReasoningPart | CitationPart | ProviderPart,
    Field(discriminator="kind"),
]


def text_of(parts: Sequence[Part]) -> str:
    """Return the natural language of parts: those of text, joined."""
    return "".join([part.text for part in parts if isinstance(part, TextPart)])


def tool_calls_of(parts: Sequence[Part]) -> tuple[ToolCallPart, ...]:
    """Return the tool calls among parts, in order."""
    return tuple([part for part in parts if isinstance(part, ToolCallPart)])


def _text(text: object) -> TextPart:
    """Return the part of a text. Raises `ConfigurationError` for anything else, such as a tool call in its place."""
    if not isinstance(text, str):
        msg = f"a message is made of a text, not of {type(text).__name__}; tool calls are given as `tool_calls=(…,)`"
        raise ConfigurationError(msg)
    return TextPart(text=text)


class Message(FrozenModel):
    """One turn of the conversation."""

    role: MessageRole
    parts: tuple[Part, ...] = ()
    name: str | None = None

    @classmethod
    def user(cls, text: str) -> "Message":
        """Return a message of the user."""
        return cls(role=MessageRole.USER, parts=(_text(text),))

    @classmethod
    def assistant(cls, text: str = "", *, tool_calls: tuple[ToolCallPart, ...] = ()) -> "Message":
        """Return a message of the model; empty text makes no part."""
        head: tuple[Part, ...] = (_text(text),) if text else ()
        return cls(role=MessageRole.ASSISTANT, parts=head + tool_calls)

    @classmethod
    def system(cls, text: str) -> "Message":
        """Return an instruction of the operator."""
        return cls(role=MessageRole.SYSTEM, parts=(_text(text),))

    @classmethod
    def developer(cls, text: str) -> "Message":
        """Return an instruction of the developer, where a provider tells the two apart."""
        return cls(role=MessageRole.DEVELOPER, parts=(_text(text),))

    @classmethod
    def tool(cls, call_id: str, name: str, text: str, *, is_error: bool = False) -> "Message":
        """Return what the model is shown of one tool call."""
        part = ToolResultPart(call_id=call_id, name=name, text=text, is_error=is_error)
        return cls(role=MessageRole.TOOL, parts=(part,))

    @property
    def text(self) -> str:
        """The natural language of the message: its text parts, joined."""
        return text_of(self.parts)

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls the message asks for, in order."""
        return tool_calls_of(self.parts)

    def is_user(self) -> bool:
        """Tell whether the user speaks."""
        return self.role is MessageRole.USER

    def is_assistant(self) -> bool:
        """Tell whether the model speaks."""
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
