"""The pieces of tool calls in a Chat Completions stream.

They belong together by their index, and by their id where the index says too little: a call is made once and from then
on only appended to, in whatever order the pieces of several calls come.
"""

from collections.abc import Mapping

from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.merging import merge_values
from steptrail.infrastructure.models.opaque import others
from steptrail.infrastructure.models.wire import as_object


class CallPieces:
    """The calls of one reply."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def add(self, entry: Mapping[str, JsonValue]) -> None:
        """Take a piece of a call."""
        function = as_object(entry.get("function"))
        self._call(entry.get("index"), entry.get("id"), function.get("name")).add(entry, function)

    def body(self) -> list[JsonValue]:
        """Return the calls in the order of their indices, as they stand in a reply without streaming."""
        calls = self._calls
        if all(isinstance(call.index, int) for call in calls):
            calls = sorted(calls, key=lambda call: call.index if isinstance(call.index, int) else 0)
        return [call.body() for call in calls]

    def _call(self, index: JsonValue, call_id: JsonValue, name: JsonValue) -> "_Call":
        """Return the call that a piece belongs to, or begin it."""
        same_index = [call for call in self._calls if index is None or call.index == index]
        for call in reversed(same_index):
            # Without an index another name is another call, whatever its id.
            if call_id and call.id == call_id and (index is not None or name in (None, "", call.name)):
                return call
        # Some servers count every call as number 0: there another id with a name of its own begins another call.
        begins = bool(call_id) and (index is None or (bool(name) and any(call.id for call in same_index)))
        if same_index and not begins:
            return same_index[-1]
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
        arguments = self._whole if self._whole is not None else "".join(self._arguments)
        function: JsonValue = {**self._beside_name, "name": self.name, "arguments": arguments}
        return {"type": "function", **self._beside, "id": self.id, "function": function}
