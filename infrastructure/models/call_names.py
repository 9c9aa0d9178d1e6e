"""Ids and names of tool calls: made for a call that came without one, and as requests may hold them.

Providers refuse a conversation in which two calls have one id, or a call a name that no tool can have. Models of
compatible servers give such ids, and any model may invent such a name: sent back as it came, it would be refused for
ever. What stands in the log stays as it came.
"""

import hashlib
import json
import re
from collections import deque
from collections.abc import Mapping
from typing import Final

from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import ToolCallPart
from steptrail.infrastructure.models.wire import as_text, read_arguments

_NOT_OF_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_MOST_CHARACTERS = 64
_SHORT: Final = re.compile(r".{1,40}", re.DOTALL), 40
_IDS_OF_HOSTS: Final[Mapping[str, tuple[re.Pattern[str], int]]] = {
    "azure.com": _SHORT,
    "mistral.ai": (re.compile(r"[a-zA-Z0-9]{9}"), 9),
    "openai.com": _SHORT,
}
"""The ids that the hosts of a domain take, and the length of one that is made. The others take those of any model."""


def tool_call(name: str, arguments: JsonValue, call_id: JsonValue, *, reply: JsonValue, place: int) -> ToolCallPart:
    """Return a call as a provider wrote it. One without an id gets one of the reply's id, its place and its name.

    Reading the reply again makes the same one.
    """
    given, raw = read_arguments(arguments)
    told = json.dumps([reply if isinstance(reply, str) else None, place, name])
    made = f"call_{hashlib.sha256(told.encode()).hexdigest()[:16]}"
    return ToolCallPart(id=as_text(call_id) or made, name=name, arguments=given, raw=raw)


def call_name(name: str) -> str:
    """Return the name in the letters and the length that a tool may have."""
    return _NOT_OF_A_NAME.sub("_", name)[:_MOST_CHARACTERS]


class CallIds:
    """The ids of one conversation's calls, each used once: in the conversation, or at least in its reply.

    Results belong to the calls of the reply before them, those with one id in the order of the calls. An id that `host`
    would refuse, because another provider has given it, is replaced by its hash.
    """

    def __init__(self, *, once_in_all: bool, host: str = "") -> None:
        self._once_in_all = once_in_all
        self._form = _IDS_OF_HOSTS.get(".".join(host.split(".")[-2:]))
        self._taken: set[str] = set()
        self._unanswered: dict[str, deque[str]] = {}

    def next_reply(self) -> None:
        """Begin with the calls of another reply."""
        self._unanswered.clear()
        if not self._once_in_all:
            self._taken.clear()

    def of_call(self, call_id: str) -> str:
        """Return what the next call is called that came with this id."""
        found, number = self._fitting(call_id), 1
        while found in self._taken:
            number += 1
            found = self._fitting(f"{call_id}_{number}")
        self._taken.add(found)
        self._unanswered.setdefault(call_id, deque()).append(found)
        return found

    def of_result(self, call_id: str) -> str:
        """Return what the call is called that the next result with this id answers."""
        waiting = self._unanswered.get(call_id)
        return waiting.popleft() if waiting else call_id

    def _fitting(self, call_id: str) -> str:
        if self._form is None or self._form[0].fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode()).hexdigest()[: self._form[1]]
