"""One model call as data: what is asked for, and what comes back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue

from steptrail.domain.base import FrozenModel
from steptrail.domain.live import DeltaKind
from steptrail.domain.messages import Message, Part, ToolCallPart, text_of, tool_calls_of
from steptrail.domain.tools import ToolSpec
from steptrail.domain.usage import Usage

__all__ = ["FinishReason", "ModelDelta", "ModelInfo", "ModelReply", "ModelRequest", "ToolChoice", "ToolChoiceName"]


class ToolChoice(StrEnum):
    """Whether the model may call tools."""

    AUTO = "auto"
    """It may."""
    NONE = "none"
    """It must not."""
    REQUIRED = "required"
    """It must."""


ToolChoiceName = Literal["auto", "none", "required"]
"""A member of `ToolChoice` as people write it."""


class FinishReason(StrEnum):
    """Why the model stopped writing, normalised; the provider's own word is kept beside it."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    PAUSED = "paused"
    """The provider stopped for a while and would go on if asked to: there is no answer yet."""
    ERROR = "error"
    OTHER = "other"


class ModelInfo(FrozenModel):
    """Which model a driver speaks to, for the log: no credentials, no objects."""

    driver: str
    model: str
    parameters: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class ModelReply(FrozenModel):
    """The reply of one model call."""

    STATE = frozenset({"raw_finish_reason", "response_id", "response_model", "usage"})
    parts: tuple[Part, ...] = ()
    finish_reason: FinishReason
    raw_finish_reason: str | None = None
    usage: Usage
    response_id: str | None = None
    response_model: str | None = None

    @property
    def text(self) -> str:
        """The natural language of the reply: its text parts, joined."""
        return text_of(self.parts)

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls it asks for, in order."""
        return tool_calls_of(self.parts)


@dataclass(frozen=True, slots=True)
class ModelDelta:
    """A piece of a reply that is still being written."""

    text: str
    kind: DeltaKind = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """The request that a driver is to send.

    `messages` holds the system prompt first and every earlier turn, in an order that providers accept: each tool call
    is followed by its result. `timeout` is the rest of the run's time, in seconds. `call_index` counts the model calls
    of the session that have ended, so a scripted model finds its place again in another process.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    parallel_tool_calls: bool | None = None
    parameters: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    timeout: float | None = None
    call_index: int = 0
