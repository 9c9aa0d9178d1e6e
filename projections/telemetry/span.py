"""A span that has ended, and the ids of spans, which follow from the log: to make a span again makes a duplicate."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

Attribute = str | bool | int | float | tuple[str, ...]
Attributes = Mapping[str, Attribute]

TracePer = Literal["session", "run", "segment"]
"""The parts that make one trace: all runs of the session at the top, one run of it, or one segment of any stream."""

LONGEST = 256
"""Characters of a text that is no content."""


class SpanKind(StrEnum):
    """The kind of a span: a call of a model leaves the process, everything else is internal."""

    INTERNAL = "internal"
    CLIENT = "client"


class SpanEvent(NamedTuple):
    """Something that happened inside a span. `at` is in microseconds of UTC."""

    name: str
    at: int
    attributes: Attributes


class SpanLink(NamedTuple):
    """A reference to another span. The ids are hexadecimal."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span that has ended. Instants are in microseconds of UTC, and ids are hexadecimal."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: SpanKind
    start: int
    end: int
    attributes: Attributes
    events: tuple[SpanEvent, ...]
    links: tuple[SpanLink, ...]
    is_error: bool


def trace_id(stream: str, execution: str) -> str:
    """Return the id of the trace of a run and of everything below it, for the stream and the run at the top."""
    return _digest(stream, execution)[:32]


def span_id(stream: str, start: str) -> str:
    """Return the id of a span. `start` names its beginning in the stream: a kind and a version, or an effect."""
    return _digest(stream, start)[32:48]


def is_sampled(trace_id: str, share: float) -> bool:
    """Tell whether a trace is of the `share` of traces, 0 to 1, that are told. Its id decides, as in OpenTelemetry."""
    return int(trace_id[16:], 16) < round(share * 2**64)


def bounded(text: str, longest: int = LONGEST) -> str:
    """Return a text that fits into every protocol: cut, and without half a pair of surrogates."""
    return text[:longest].encode("utf-8", "replace").decode()


def _digest(stream: str, name: str) -> str:
    return hashlib.sha256(f"{stream}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
