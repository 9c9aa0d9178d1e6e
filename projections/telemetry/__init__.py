"""Spans of runs, made of the log alone: the same ones while a run goes on, and from a recording of it."""

from steptrail.projections.telemetry.content import SpanContent
from steptrail.projections.telemetry.fold import SpanFold
from steptrail.projections.telemetry.openinference import Flavour, with_openinference
from steptrail.projections.telemetry.span import (
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    TracePer,
    is_sampled,
    span_id,
    trace_id,
)

__all__ = [
    "Flavour",
    "Span",
    "SpanContent",
    "SpanEvent",
    "SpanFold",
    "SpanKind",
    "SpanLink",
    "TracePer",
    "is_sampled",
    "span_id",
    "trace_id",
    "with_openinference",
]
