"""Messages: a role and typed parts, in a form that fits all providers.

A reply of the model is one assistant message with all its parts. Data that a provider must get back verbatim is kept in
an opaque part. The arguments of a tool call are an object, never text.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Literal

from steptrail.domain.base import Value
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


class ToolResultPart(_Part, tag="tool_result", frozen=True, kw_only=True):
    """The text with which the outcome of one tool call is shown to the model."""

    kind: ClassVar[Literal["tool_result"]] = "tool_result"
    CONTENT = frozenset({"text"})
    STATE = frozenset({"call_id", "name"})
    call_id: str
    name: str
    text: str
    is_error: bool = False


class MediaPart(_Part, tag="media", frozen=True, kw_only=True):
    """A reference to media by address. The bytes are not stored."""

    kind: ClassVar[Literal["media"]] = "media"
    CONTENT = frozenset({"uri"})
    STATE = frozenset({"mime_type"})
    uri: str
    mime_type: str


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


Part = TextPart | ToolCallPart | ToolResultPart | MediaPart | ReasoningPart | CitationPart | ProviderPart


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
    def user(cls, text: str) -> "Message":
        """Return a message of the user."""
        return cls(role=MessageRole.USER, parts=(_text(text),))

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
    def tool(cls, call_id: str, name: str, text: str, *, is_error: bool = False) -> "Message":
        """Return the message that shows the outcome of one tool call to the model."""
        part = ToolResultPart(call_id=call_id, name=name, text=text, is_error=is_error)
        return cls(role=MessageRole.TOOL, parts=(part,))

    @property
    def text(self) -> str:
        """The text of the message: its text parts, and what the model is shown of results of tools, joined."""
        return "".join([part.text for part in self.parts if isinstance(part, TextPart | ToolResultPart)])

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
