"""The data of a model call: the request to a driver, and its reply."""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from steptrail.domain.base import Settings, Value
from steptrail.domain.errors import FileUnreadable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.live import DeltaKind
from steptrail.domain.messages import Message, Part, ToolCallPart, text_of, tool_calls_of
from steptrail.domain.output import OutputMode, OutputSpec
from steptrail.domain.tools import ToolSpec
from steptrail.domain.usage import Usage


class ToolChoice(StrEnum):
    """Whether the model may call tools."""

    AUTO = "auto"
    """The model may call tools."""
    NONE = "none"
    """The model must not call tools."""
    REQUIRED = "required"
    """The model must call a tool."""


ToolChoiceName = Literal["auto", "none", "required"]
"""A member of `ToolChoice`, or its value as text."""


class FinishReason(StrEnum):
    """The reason why the model stopped writing, normalised. The provider's own word is stored beside it."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    PAUSED = "paused"
    """The provider stopped for now and would go on if asked again: there is no answer yet."""
    ERROR = "error"
    OTHER = "other"


CUT = frozenset({FinishReason.LENGTH, FinishReason.PAUSED, FinishReason.ERROR})
"""Finish reasons of a reply that ended before the model had said all of it."""
NO_END = frozenset({FinishReason.TOOL_CALLS, FinishReason.OTHER})
"""Finish reasons that do not say whether the model has finished. Text that comes with them counts as an answer."""


class ModelInfo(Settings, frozen=True, kw_only=True):
    """The model that a driver speaks to, as it is recorded: without credentials and objects."""

    driver: str
    model: str
    parameters: dict[str, JsonValue] = {}


class ModelReply(Value, frozen=True, kw_only=True):
    """The reply of one model call."""

    STATE = frozenset({"raw_finish_reason", "response_id", "response_model", "usage"})
    parts: tuple[Part, ...] = ()
    finish_reason: FinishReason
    raw_finish_reason: str | None = None
    usage: Usage
    response_id: str | None = None
    response_model: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the reply came to its end: it was neither cut, nor withheld, nor paused, nor broken off."""
        return self.finish_reason not in CUT and self.finish_reason is not FinishReason.CONTENT_FILTER

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer where no tools were offered: whole, and with text unless the model is done."""
        return self.is_whole and (self.finish_reason not in NO_END or bool(self.text.strip()))

    @property
    def text(self) -> str:
        """The text of the reply: its text parts, joined."""
        return text_of(self.parts)

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls of the reply, in order."""
        return tool_calls_of(self.parts)


class ModelDelta(Struct, frozen=True):
    """A piece of a reply that is still being written."""

    text: str
    kind: DeltaKind = "text"


async def no_file(digest: str) -> bytes:
    """Raise `FileUnreadable`: the request was built without a store."""
    raise FileUnreadable(digest, "it is read only when a model is asked")


class ModelRequest(Struct, frozen=True, kw_only=True):
    """The request that a driver sends.

    `messages` begins with the system prompt and holds the conversation, in an order that providers accept: each tool
    call is followed by its result. `timeout` is the time that the run has left, in seconds; None for no limit.
    `output_mode` is the way in which this call asks for an answer in the form `output`; both are None if it asks for
    text. In `tool`, the tool of the answer is among `tools`.
    `opening` is the number of messages at the beginning that are the same at each call of the agent, and `tail` that of
    those at the end that are shown at this call only.
    `read` returns the bytes of a file that the messages name, by its digest. It raises `FileUnreadable`.
    `call_index` is the number of model calls of the session that have ended. A scripted model finds its place by it.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    parallel_tool_calls: bool | None = None
    parameters: dict[str, JsonValue] = {}
    timeout: float | None = None
    call_index: int = 0
    output: OutputSpec | None = None
    output_mode: OutputMode | None = None
    opening: int = 0
    tail: int = 0
    read: Callable[[str], Awaitable[bytes]] = no_file
