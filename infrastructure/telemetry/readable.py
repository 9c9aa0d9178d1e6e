"""Makes spans of OpenTelemetry of those that were folded from the log. They are whole, so they go to a processor."""

import os
from typing import Any

from steptrail.domain.version import VERSION
from steptrail.infrastructure.extras import from_otel
from steptrail.projections.telemetry import Span, SpanKind
from steptrail.projections.telemetry.names import SCHEMA_URL


class ReadableSpans:
    """Makes `ReadableSpan`s of one resource. Raises `MissingExtra` without the extra `otel`."""

    def __init__(self, resource: Any) -> None:
        self._trace, self._sdk = from_otel("opentelemetry.trace"), from_otel("opentelemetry.sdk.trace")
        scope = from_otel("opentelemetry.sdk.util.instrumentation")
        self._scope = scope.InstrumentationScope("steptrail", VERSION, SCHEMA_URL)
        self._resource = resource

    def of(self, span: Span) -> Any:
        """Return a span of OpenTelemetry that has ended. It counts as sampled."""
        trace = self._trace
        kinds = {SpanKind.INTERNAL: trace.SpanKind.INTERNAL, SpanKind.CLIENT: trace.SpanKind.CLIENT}
        return self._sdk.ReadableSpan(
            name=span.name,
            context=self._context(span.trace_id, span.span_id),
            parent=self._context(span.trace_id, span.parent_id) if span.parent_id is not None else None,
            resource=self._resource,
            attributes=span.attributes,
            events=[self._sdk.Event(each.name, each.attributes, timestamp=each.at * 1_000) for each in span.events],
            links=[trace.Link(self._context(*link)) for link in span.links],
            kind=kinds[span.kind],
            status=trace.Status(trace.StatusCode.ERROR if span.is_error else trace.StatusCode.UNSET),
            start_time=span.start * 1_000,
            end_time=span.end * 1_000,
            instrumentation_scope=self._scope,
        )

    def _context(self, trace_id: str, span_id: str) -> Any:
        sampled = self._trace.TraceFlags(self._trace.TraceFlags.SAMPLED)
        return self._trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=sampled)


def resource_of(service: str | None) -> Any:
    """Return the resource of a service: its name, and what the variables of OpenTelemetry say of this process.

    A service without a name has that of `OTEL_SERVICE_NAME`, or else `steptrail`.
    """
    name = service or os.environ.get("OTEL_SERVICE_NAME") or "steptrail"
    return from_otel("opentelemetry.sdk.resources").Resource.create({"service.name": name})
