"""The chunks of a Chat Completions stream become the body that the call would have had without streaming.

Pieces of a tool call belong together by their index, and by their id where the index says too little: a call is made
once and from then on only appended to, in whatever order the pieces of several calls come.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from steptrail.domain.errors import StreamBroken
from steptrail.domain.inference import ModelDelta
from steptrail.infrastructure.models.wire import as_list, as_object

__all__ = ["ChatAssembly"]

_LONG = ("text", "summary", "data")
"""Fields of reasoning details that come in pieces."""


class ChatAssembly:
    """The chunks of one reply."""

    def __init__(self) -> None:
        self._top: dict[str, JsonValue] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: list[_Call] = []
        self._details: list[dict[str, JsonValue]] = []
        self._before_tools: JsonValue = None
        self._finish_reason: JsonValue = None

    def add(self, event: JsonValue) -> Iterator[ModelDelta]:
        """Take a chunk and yield what it says for people. The last one may have a usage and no choices."""
        chunk = as_object(event)
        self._top |= {name: chunk[name] for name in ("id", "model", "usage") if chunk.get(name)}
        choices = as_list(chunk.get("choices"))
        choice = as_object(choices[0]) if choices else {}
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = as_object(choice.get("delta"))
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            text = delta.get(name)
            if isinstance(text, str) and text:
                self._texts.setdefault(name, []).append(text)
        for entry in as_list(delta.get("tool_calls")):
            self._add_call(as_object(entry))
        for entry in as_list(delta.get("reasoning_details")):
            self._add_detail(as_object(entry))
        self._before_tools = delta.get("function_call") or self._before_tools
        thought, said = delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content")
        if isinstance(thought, str):
            yield ModelDelta(thought, kind="reasoning")
        if isinstance(said, str):
            yield ModelDelta(said)

    def body(self) -> JsonValue:
        """Return the completion. Raises `StreamBroken` when nothing said why it ended."""
        if self._finish_reason is None:
            raise StreamBroken("the stream of the model ended without a finish reason")
        message: dict[str, JsonValue] = {"role": "assistant", "content": None}
        message |= {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [call.body() for call in self._calls]
        if self._details:
            message["reasoning_details"] = list[JsonValue](self._details)
        if self._before_tools:
            message["function_call"] = self._before_tools
        choice: JsonValue = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._top, "choices": [choice]}

    def _add_call(self, entry: dict[str, JsonValue]) -> None:
        function = as_object(entry.get("function"))
        call = self._call(entry.get("index"), entry.get("id"), function.get("name"))
        call.id = call.id or entry.get("id")
        call.name = call.name or function.get("name")
        call.extra = entry.get("extra_content") or call.extra
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.append(arguments)
        elif arguments is not None:
            call.whole = arguments

    def _call(self, index: JsonValue, call_id: JsonValue, name: JsonValue) -> "_Call":
        """Return the call that a piece belongs to, or begin it."""
        same_index = [call for call in self._calls if index is None or call.index == index]
        for call in reversed(same_index):
            if call_id and call.id == call_id:
                return call
        # Some servers count every call as number 0: there another id with a name of its own begins another call.
        begins = bool(call_id) and (index is None or (bool(name) and any(call.id for call in same_index)))
        if same_index and not begins:
            return same_index[-1]
        self._calls.append(_Call(index))
        return self._calls[-1]

    def _add_detail(self, entry: dict[str, JsonValue]) -> None:
        last = self._details[-1] if self._details else {}
        if not last or any(last.get(name) != entry.get(name) for name in ("type", "index")):
            self._details.append(dict(entry))
            return
        for name, value in entry.items():
            before = last.get(name)
            if name in _LONG and isinstance(before, str) and isinstance(value, str):
                last[name] = before + value
            elif value is not None:
                last[name] = value


class _Call:
    def __init__(self, index: JsonValue) -> None:
        self.index = index
        self.id: JsonValue = None
        self.name: JsonValue = None
        self.extra: JsonValue = None
        self.whole: JsonValue = None
        self.arguments: list[str] = []

    def body(self) -> JsonValue:
        function: JsonValue = {"name": self.name, "arguments": self.whole or "".join(self.arguments)}
        extra: dict[str, JsonValue] = {} if self.extra is None else {"extra_content": self.extra}
        return {"id": self.id, "type": "function", "function": function, **extra}
