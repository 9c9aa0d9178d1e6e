"""The events of a Responses stream become the response that the call would have had without streaming.

The last event holds the whole response. Servers that leave the output out of it have sent each item whole before, when
it was done; the items' pieces are for people only.
"""

from collections.abc import Iterator

from steptrail.domain.errors import StreamBroken
from steptrail.domain.inference import ModelDelta
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.wire import as_object, failure

_TEXT = ("response.output_text.delta", "response.refusal.delta")
_REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_LAST = ("response.completed", "response.incomplete", "response.failed")


class ResponsesAssembly:
    """The events of one reply."""

    def __init__(self) -> None:
        self._items: dict[int, JsonValue] = {}
        self._response: dict[str, JsonValue] | None = None
        self.is_over = False

    def add(self, event: JsonValue) -> Iterator[ModelDelta]:
        """Take an event and yield what it says for people. Raises `ModelFailed` for an error among the events."""
        told = as_object(event)
        kind, delta, place = told.get("type"), told.get("delta"), told.get("output_index")
        if kind == "error":
            raise failure(told.get("error") or told, "the stream of the model reports an error")
        if kind in _LAST:
            bare: dict[str, JsonValue] = {"status": str(kind).removeprefix("response."), "error": told.get("error")}
            self._response, self.is_over = as_object(told.get("response")) or bare, True
        elif kind == "response.output_item.done" and isinstance(place, int):
            self._items[place] = told.get("item")
        elif kind in _TEXT and isinstance(delta, str):
            yield ModelDelta(delta)
        elif kind in _REASONING and isinstance(delta, str):
            yield ModelDelta(delta, kind="reasoning")

    def end(self) -> None:
        """Take a mark that is not of this protocol, whose last event holds the response."""

    def body(self) -> JsonValue:
        """Return the response. Raises `StreamBroken` when the last event has not come."""
        if self._response is None:
            raise StreamBroken("the stream of the model ended before its response was complete")
        if self._response.get("output"):
            return self._response
        return {**self._response, "output": [self._items[place] for place in sorted(self._items)]}
