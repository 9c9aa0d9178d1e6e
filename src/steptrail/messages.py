"""Messages: roles and typed parts."""

from steptrail.domain.messages import (
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

__all__ = [
    "MediaPart",
    "Message",
    "MessageRole",
    "Part",
    "ProviderPart",
    "ReasoningPart",
    "TextPart",
    "ToolCallPart",
    "ToolResultPart",
]
