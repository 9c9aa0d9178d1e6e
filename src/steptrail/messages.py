"""Messages: roles and typed parts."""

from steptrail.domain.messages import (
    CitationPart,
    FilePart,
    ImageDetail,
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
from steptrail.runtime.kernel.files import File, Image

__all__ = [
    "CitationPart",
    "File",
    "FilePart",
    "Image",
    "ImageDetail",
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
