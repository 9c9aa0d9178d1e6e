"""The common part of the protocols of a scripted model server: a reply as it is to be written, and its pieces."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import NamedTuple

from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.models.wire import as_list, as_object
from steptrail.testing.model_script import ScriptedReply


class WireCall(NamedTuple):
    """A tool call with its id, if it has one, and the text of its arguments."""

    id: str | None
    name: str
    arguments: str


class WireCitation(NamedTuple):
    """A source of a text: its address, its title, and what stands there."""

    url: str
    title: str
    quote: str


class WireReply(NamedTuple):
    """A scripted reply, with ids that no other reply of the server has."""

    number: int
    text: str
    finish_reason: str | None
    usage: Mapping[str, JsonValue]
    reasoning: str | None = None
    opaque: tuple[dict[str, JsonValue], ...] = ()
    calls: tuple[WireCall, ...] = ()
    citations: tuple[WireCitation, ...] = ()
    fields: Mapping[str, JsonValue] = MappingProxyType({})
    chunked: bool = False

    @classmethod
    def of(cls, script: ScriptedReply, number: int) -> "WireReply":
        """Return the `number`-th reply of a server."""
        usage, fields, opaque = script.get("usage"), script.get("fields"), script.get("opaque")
        prefix, ids = "call" if number == 1 else f"call_{number}", script.get("ids")
        given = dict(enumerate(ids if isinstance(ids, list) else [], 1))
        calls: list[WireCall] = []
        for place, call in enumerate(_objects(script.get("calls")), 1):
            call_id = given.get(place, f"{prefix}_{place}")
            calls.append(WireCall(None if call_id is None else str(call_id), str(call["name"]), str(call["arguments"])))
        reasoning, reason = script.get("reasoning"), script.get("finish_reason")
        return cls(
            number=number,
            text=str(script.get("text") or ""),
            finish_reason=reason if isinstance(reason, str) else None,
            usage=usage if isinstance(usage, dict) else {},
            reasoning=reasoning if isinstance(reasoning, str) else None,
            opaque=tuple(_objects(opaque if isinstance(opaque, list) else [opaque])),
            calls=tuple(calls),
            citations=tuple(
                WireCitation(str(each["url"]), str(each["title"]), str(each["quote"]))
                for each in _objects(script.get("citations"))
            ),
            fields=fields if isinstance(fields, dict) else {},
            chunked=script.get("chunked") is True,
        )

    def count(self, *path: str) -> int:
        """Return one of the counts of the usage, 0 when it is not there."""
        value: JsonValue = dict(self.usage)
        for name in path:
            value = as_object(value).get(name)
        return value if isinstance(value, int) else 0


def _objects(values: JsonValue) -> list[dict[str, JsonValue]]:
    return [value for value in as_list(values) if isinstance(value, dict)]


SseEvent = tuple[str | None, JsonValue]
"""The name of an event, if it has one, and its data; data that is text is sent as it is."""


class OpenAiWire:
    """The part that is the same in the protocols of OpenAI."""

    def is_authorized(self, headers: Mapping[str, str]) -> bool:
        """Tell whether there is a bearer token."""
        return headers.get("authorization", "").startswith("Bearer ")

    def error(self, status: int, error: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the error object."""
        return {"error": {**error, "param": None}}


def pieces_of(text: str) -> list[str]:
    """Return text in the pieces that a model might write it in; together they are the text."""
    return re.findall(r"\s*\S{1,3}|\s+$", text)


def in_turns(rows: Sequence[Sequence[SseEvent]]) -> Iterator[SseEvent]:
    """Yield the events of several rows one from each in turn, as a provider may write calls side by side."""
    return (event for event in chain.from_iterable(zip_longest(*rows)) if event is not None)


def named(event: dict[str, JsonValue]) -> SseEvent:
    """Return an event under the name that it says of itself."""
    return str(event["type"]), event


def sse(event: SseEvent) -> bytes:
    """Return an event as it goes over the line."""
    name, data = event
    head = f"event: {name}\n" if name else ""
    written = data if isinstance(data, str) else json.dumps(data)
    return f"{head}data: {written}\n\n".encode()
