"""The events of a Messages stream become the message that the call would have had without streaming.

A block is begun once, by its index, and its pieces are appended to it in whatever order the blocks' pieces come.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from steptrail.domain.errors import StreamBroken
from steptrail.domain.inference import ModelDelta
from steptrail.infrastructure.models.wire import as_list, as_object

__all__ = ["AnthropicAssembly"]

_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""The kind of a piece, and the field that it carries and is appended to."""


class AnthropicAssembly:
    """The events of one message."""

    def __init__(self) -> None:
        self._message: dict[str, JsonValue] = {}
        self._blocks: dict[int, dict[str, JsonValue]] = {}
        self._inputs: dict[int, list[str]] = {}

    def add(self, event: JsonValue) -> Iterator[ModelDelta]:
        """Take an event and yield what it says for people. The SDK raises errors among the events itself."""
        told = as_object(event)
        index = told.get("index")
        place = index if isinstance(index, int) else 0
        match told.get("type"):
            case "message_start":
                self._message = as_object(told.get("message"))
            case "content_block_start":
                self._blocks[place] = dict(as_object(told.get("content_block")))
                yield from _shown(self._blocks[place])
            case "content_block_delta":
                yield from self._append(place, as_object(told.get("delta")))
            case "message_delta":
                self._message |= as_object(told.get("delta"))
                counts = {name: count for name, count in as_object(told.get("usage")).items() if count is not None}
                self._message["usage"] = {**as_object(self._message.get("usage")), **counts}
            case _:
                pass

    def body(self) -> JsonValue:
        """Return the message. Raises `StreamBroken` when nothing said why it ended."""
        if not self._message.get("stop_reason"):
            raise StreamBroken("the stream of the model ended without a stop reason")
        for place, pieces in self._inputs.items():
            self._blocks[place]["input"] = "".join(pieces)
        return {**self._message, "content": [self._blocks[place] for place in sorted(self._blocks)]}

    def _append(self, place: int, delta: dict[str, JsonValue]) -> Iterator[ModelDelta]:
        block = self._blocks.setdefault(place, {})
        kind = delta.get("type")
        if kind == "input_json_delta":
            piece = delta.get("partial_json")
            self._inputs.setdefault(place, []).append(piece if isinstance(piece, str) else "")
        elif kind == "citations_delta":
            block["citations"] = [*as_list(block.get("citations")), delta.get("citation")]
        elif isinstance(kind, str) and (name := _PIECES.get(kind)) is not None:
            before, piece = block.get(name), delta.get(name)
            block[name] = f"{before or ''}{piece or ''}"
            yield from _shown({"type": block.get("type"), name: piece})


def _shown(block: dict[str, JsonValue]) -> Iterator[ModelDelta]:
    text = block.get("text")
    thought = block.get("thinking")
    if block.get("type") == "text" and isinstance(text, str):
        yield ModelDelta(text)
    elif block.get("type") == "thinking" and isinstance(thought, str):
        yield ModelDelta(thought, kind="reasoning")
