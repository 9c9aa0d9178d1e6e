"""Messages: roles and typed parts."""

from steptrail.domain.messages import (
    CitationPart,
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
]
