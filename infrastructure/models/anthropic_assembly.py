"""The events of a Messages stream become the message that the call would have had without streaming.

A block is begun once, by its index, and its pieces are added to it in the order in which they come. The input of a tool
comes as pieces of JSON, whether we or the provider run the tool. Pieces of an unknown kind are added by how they look.
"""

from collections.abc import Iterator

from steptrail.domain.errors import StreamBroken
from steptrail.domain.inference import ModelDelta
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.errors import ModelReplyInvalid
from steptrail.infrastructure.models.merging import merge_fields
from steptrail.infrastructure.models.wire import as_arguments, as_list, as_object, failure, read_arguments

_WHOLE = ("signature_delta", "compaction_delta")
"""Kinds of pieces that are the whole of what they hold, as the SDK takes them."""


class AnthropicAssembly:
    """The events of one message."""

    def __init__(self) -> None:
        self._message: dict[str, JsonValue] = {}
        self._blocks: dict[int, dict[str, JsonValue]] = {}
        self._inputs: dict[int, list[str]] = {}
        self.is_over = False

    def add(self, event: JsonValue) -> Iterator[ModelDelta]:
        """Take an event and yield what it says for people.

        Raises `ModelFailed` for an error among the events, and `ModelReplyInvalid` for a piece of no block.
        """
        told = as_object(event)
        index = told.get("index")
        place = index if isinstance(index, int) else 0
        match told.get("type"):
            case "error":
                raise failure(told.get("error"), "the stream of the model reports an error")
            case "message_start":
                self._message = as_object(told.get("message"))
                self._blocks = {i: as_object(block) for i, block in enumerate(as_list(self._message.get("content")))}
                self._inputs = {}
            case "content_block_start":
                self._blocks[place] = dict(as_object(told.get("content_block")))
                yield from _shown(self._blocks[place])
            case "content_block_delta":
                yield from self._append(place, dict(as_object(told.get("delta"))))
            case "message_delta":
                self._message |= as_object(told.get("delta"))
                counts = {name: count for name, count in as_object(told.get("usage")).items() if count is not None}
                self._message["usage"] = {**as_object(self._message.get("usage")), **counts}
            case "message_stop":
                self.is_over = True
            case _:
                pass

    def end(self) -> None:
        """Take a mark that is not of this protocol, which says why a message ended."""

    def body(self) -> JsonValue:
        """Return the message. Raises `StreamBroken` when the stream gave no reason for its end."""
        if not self._message.get("stop_reason"):
            raise StreamBroken("the stream of the model ended without a stop reason")
        for place, pieces in self._inputs.items():
            # Servers send an empty piece also behind an input that came whole.
            if (written := "".join(pieces)).strip():
                self._blocks[place]["input"] = _input(written, self._blocks[place].get("type"))
        return {**self._message, "content": [self._blocks[place] for place in sorted(self._blocks)]}

    def _append(self, place: int, delta: dict[str, JsonValue]) -> Iterator[ModelDelta]:
        if (block := self._blocks.get(place)) is None:
            raise ModelReplyInvalid("the stream has a piece of a block that was not begun")
        kind = delta.pop("type", None)
        if kind == "input_json_delta":
            piece = delta.get("partial_json")
            self._inputs.setdefault(place, []).append(piece if isinstance(piece, str) else "")
        elif kind == "citations_delta":
            block["citations"] = [*as_list(block.get("citations")), delta.get("citation")]
        elif kind in _WHOLE:
            block |= delta
        else:
            merge_fields(block, delta)
            yield from _shown({"type": block.get("type"), **delta})


def _input(written: str, kind: JsonValue) -> JsonValue:
    """Return the input of a tool. Of one that we run, what is no object is looked into where replies are read."""
    return written if kind == "tool_use" else as_arguments(*read_arguments(written))


def _shown(block: dict[str, JsonValue]) -> Iterator[ModelDelta]:
    text = block.get("text")
    thought = block.get("thinking")
    if block.get("type") == "text" and isinstance(text, str):
        yield ModelDelta(text)
    elif block.get("type") == "thinking" and isinstance(thought, str):
        yield ModelDelta(thought, kind="reasoning")
