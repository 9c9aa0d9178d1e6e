"""The chunks of a Chat Completions stream become the body that the call would have had without streaming.

What the protocol knows is put together by its rules, what a server adds of its own by how it looks. Choices are kept
apart, since a server may send several whatever it was asked for; the first one is what is shown.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from steptrail.domain.errors import StreamBroken
from steptrail.domain.inference import ModelDelta
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.chat_content import ContentPieces
from steptrail.infrastructure.models.merging import merge_fields, merge_values
from steptrail.infrastructure.models.opaque import others
from steptrail.infrastructure.models.wire import as_list, as_object, failure, read_arguments

REASONING: Final = ("reasoning_content", "reasoning")
"""Two spellings of one extension of the protocol."""


class ChatAssembly:
    """The chunks of one reply."""

    def __init__(self) -> None:
        self._top: dict[str, JsonValue] = {}
        self._choices: dict[JsonValue, _Choice] = {}
        self.is_over = False

    def add(self, event: JsonValue) -> Iterator[ModelDelta]:
        """Take a chunk and yield what it says for people. Raises `ModelFailed` for an error among the chunks."""
        chunk = as_object(event)
        if error := chunk.get("error"):
            raise failure(error, "the stream of the model reports an error")
        # The last chunk may have a usage and no choices.
        self._top |= {name: chunk[name] for name in ("id", "model", "usage", "citations") if chunk.get(name)}
        for choice in map(as_object, as_list(chunk.get("choices"))):
            index = choice.get("index")
            number = index if isinstance(index, int) else 0
            deltas = list(self._choices.setdefault(number, _Choice()).add(choice))
            if number == next(iter(self._choices)):
                yield from deltas

    def end(self) -> None:
        """Take the protocol's own mark of the end."""
        self.is_over = True

    def body(self) -> JsonValue:
        """Return the completion. Raises `StreamBroken` when the stream ended without a reason."""
        if not self.is_over and not any(choice.finish_reason for choice in self._choices.values()):
            raise StreamBroken("the stream of the model ended without a finish reason")
        # The one that came first was shown, so it is the reply, whatever its number.
        choices: list[JsonValue] = [{"index": index, **choice.body()} for index, choice in self._choices.items()]
        return {**self._top, "choices": choices}


class _Choice:
    def __init__(self) -> None:
        self.finish_reason: JsonValue = None
        self._content = ContentPieces()
        self._calls = CallPieces()
        self._fields: dict[str, JsonValue] = {}

    def add(self, choice: Mapping[str, JsonValue]) -> Iterator[ModelDelta]:
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = dict(as_object(choice.get("delta")))
        content, calls = delta.pop("content", None), delta.pop("tool_calls", None)
        thought = next((said for name in REASONING if isinstance(said := delta.get(name), str) and said), None)
        if thought is not None:
            yield ModelDelta(thought, kind="reasoning")
        yield from self._content.add(content)
        for entry in as_list(calls):
            self._calls.add(as_object(entry))
        merge_fields(self._fields, delta)

    def body(self) -> dict[str, JsonValue]:
        message: dict[str, JsonValue] = {"role": "assistant", "content": self._content.body(), **self._fields}
        if calls := self._calls.body():
            message["tool_calls"] = calls
        return {"message": message, "finish_reason": self.finish_reason}


class CallPieces:
    """The calls of one reply.

    Pieces belong together by their index, and by their id where the index says too little: a call is made once and from
    then on only appended to, in whatever order the pieces of several calls come.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def add(self, entry: Mapping[str, JsonValue]) -> None:
        """Take a piece of a call."""
        function = as_object(entry.get("function"))
        self._call(entry.get("index"), entry.get("id"), function).add(entry, function)

    def body(self) -> list[JsonValue]:
        """Return the calls in the order of their indices, as they stand in a reply without streaming."""
        calls = self._calls
        if all(isinstance(call.index, int) for call in calls):
            calls = sorted(calls, key=lambda call: call.index if isinstance(call.index, int) else 0)
        return [call.body() for call in calls]

    def _call(self, index: JsonValue, call_id: JsonValue, function: Mapping[str, JsonValue]) -> "_Call":
        """Return the call that a piece belongs to, or begin it."""
        name = function.get("name")
        near = [call for call in self._calls if index is None or call.index == index]
        # Another name is another call, whatever its number and its id.
        fitting = [call for call in near if not name or call.name in (None, "", name)]
        for call in reversed(fitting):
            if call_id and call.id == call_id:
                return call
        # Some servers count every call as number 0: there another id with a name of its own begins another call. Some
        # give no ids either: there a name with arguments does, behind a call whose arguments are whole.
        begins = index is None or (bool(name) and any(call.id for call in near))
        if not call_id:
            arguments = function.get("arguments")
            has_more = bool(name) and arguments is not None and bool(str(arguments).strip())
            begins = has_more and any(call.is_whole for call in fitting[-1:])
        if fitting and not begins:
            return fitting[-1]
        self._calls.append(_Call(index))
        return self._calls[-1]


class _Call:
    def __init__(self, index: JsonValue) -> None:
        self.index = index
        self.id: JsonValue = None
        self.name: JsonValue = None
        self._whole: JsonValue = None
        self._arguments: list[str] = []
        self._beside: dict[str, JsonValue] = {}
        self._beside_name: dict[str, JsonValue] = {}

    @property
    def is_whole(self) -> bool:
        """Whether it has a name, and arguments to which nothing can be added.

        They are read when their last piece may be the last one, because there may be many thousands.
        """
        may_end = self._whole is not None or "".join(self._arguments[-1:]).rstrip().endswith(("}", "null"))
        return bool(self.name) and may_end and read_arguments(self._written)[0] is not None

    def add(self, entry: Mapping[str, JsonValue], function: Mapping[str, JsonValue]) -> None:
        self.id = self.id or entry.get("id")
        self.name = self.name or function.get("name")
        self._beside = merge_values(self._beside, others(entry, "index", "id", "function"))
        self._beside_name = merge_values(self._beside_name, others(function, "name", "arguments"))
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            self._arguments.append(arguments)
        elif arguments is not None:
            self._whole = arguments

    def body(self) -> JsonValue:
        function: JsonValue = {**self._beside_name, "name": self.name, "arguments": self._written}
        return {"type": "function", **self._beside, "id": self.id, "function": function}

    @property
    def _written(self) -> JsonValue:
        return self._whole if self._whole is not None else "".join(self._arguments)
