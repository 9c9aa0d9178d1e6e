"""The result of a server, as JSON that the log can hold and the model can read.

Structured content stands for the whole result, else the text does. Of an image, a sound or another blob it holds only
the type, the size and the digest: base64 costs tokens and room, and a model cannot read it. Images and PDF are files
beside the result.
"""

import base64
import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import result_text
from steptrail.runtime.kernel.files import ANYTHING, File

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock


def result_of(result: "CallToolResult") -> JsonValue:
    """Return the structured content; else the text, its blocks joined by line breaks; else the list of all blocks.

    Structured content that comes with blocks other than text becomes an object of both.
    """
    blocks = [_block(block) for block in result.content]
    structured: JsonValue = result.structured_content
    if structured is not None:
        others = [block for block in blocks if block["type"] != "text"]
        return {"structuredContent": structured, "content": [*others]} if others else structured
    if all(block["type"] == "text" for block in blocks):
        return _text(result)
    return [*blocks]


def files_of(result: "CallToolResult") -> list[File]:
    """Return the images and the PDF among the blocks, each once, unless they are too large to be shown."""
    files: dict[str, File] = {}
    for block in result.content:
        data: str | None = getattr(block, "data", None) or getattr(getattr(block, "resource", None), "blob", None)
        if block.type == "audio" or not data or (content := _decoded(data)) is None:
            continue
        with suppress(ConfigurationError):
            file = File.from_bytes(content)
            if file.mime_type != ANYTHING:
                files[file.digest] = file
    return [*files.values()]


def error_text(result: "CallToolResult") -> str:
    """Return what the server says went wrong: its text, else its structured content as JSON."""
    if (text := _text(result)) or result.structured_content is None:
        return text or "the tool failed and its server did not say why"
    return result_text(result.structured_content)


def _text(result: "CallToolResult") -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def _block(block: "ContentBlock") -> dict[str, JsonValue]:
    match block.type:
        case "text":
            return {"type": "text", "text": block.text}
        case "image" | "audio":
            return {"type": block.type, "mimeType": block.mime_type, **_blob(block.data)}
        case "resource_link":
            link = block.model_dump(mode="json", by_alias=True, exclude_none=True)
            return {key: link[key] for key in ("type", "uri", "name", "description", "mimeType", "size") if key in link}
        case "resource":
            held = block.resource
            described: dict[str, JsonValue] = {"type": "resource", "uri": str(held.uri)}
            if held.mime_type is not None:
                described["mimeType"] = held.mime_type
            text: str | None = getattr(held, "text", None)
            return {**described, **(_blob(getattr(held, "blob", "")) if text is None else {"text": text})}


def _blob(data: str) -> dict[str, JsonValue]:
    if (content := _decoded(data)) is None:
        return {"base64Characters": len(data)}
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _decoded(data: str) -> bytes | None:
    with suppress(ValueError):
        return base64.b64decode("".join(data.split()), validate=True)
    return None
