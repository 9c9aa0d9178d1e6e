"""Makes spans of OpenTelemetry, and sends spans and metrics over OTLP: protobuf over HTTP, which all receivers take."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from steptrail.domain.errors import ConfigurationError, NotExported, shown
from steptrail.domain.version import VERSION
from steptrail.infrastructure.bounded_requests import bound
from steptrail.infrastructure.extras import from_otel
from steptrail.projections.telemetry.names import SCHEMA_URL, Own
from steptrail.projections.telemetry.span import Span, SpanKind

Signal: TypeAlias = Literal["traces", "metrics"]
_EXPORTERS: Mapping[Signal, tuple[str, str]] = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
}
_LOCAL = "http://localhost:4318"
_BAD, _TOO_LARGE = HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE
"""The answers that a request gets again however often it is sent. Collectors give both to one that is too large."""

_log = logging.getLogger("steptrail.telemetry")


def endpoint_of(url: str | None, signal: Signal = "traces") -> str:
    """Return the address for spans, or for metrics, at a receiver.

    Without a `url` it is that of the variables of OpenTelemetry, or a receiver on this machine.
    Raises `ConfigurationError` for an address that is none.
    """
    if not url:
        own = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
        if own:
            return own
        url = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or _LOCAL
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigurationError(f"the receiver of telemetry is an address such as {_LOCAL}, not {url!r}")
    path = parts.path.rstrip("/").removesuffix("/v1/traces")
    return urlunsplit(parts._replace(path=f"{path}/v1/{signal}"))


def exporter(
    signal: Signal,
    url: str | None,
    headers: Mapping[str, str] | None = None,
    *,
    hear: Callable[..., None] | None = None,
) -> Any:
    """Return an exporter of spans or of metrics. `hear` is called with each answer: it is a hook of `requests`.

    Raises `MissingExtra` without the extra `otel`.
    """
    module, name = _EXPORTERS[signal]
    made: Any = getattr(from_otel(f"opentelemetry.exporter.otlp.proto.http.{module}"), name)
    own = ("OTEL_PYTHON_EXPORTER_OTLP_HTTP", f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{signal.upper()}")
    # Where the user's own variables name what a receiver is asked with, that is used.
    is_theirs = any(os.environ.get(f"{each}_CREDENTIAL_PROVIDER") for each in own)
    session = None if is_theirs else bound(from_otel("requests").Session())
    if session is not None:
        session.hooks["response"] += [_not_elsewhere] if hear is None else [hear, _not_elsewhere]
    return made(endpoint=endpoint_of(url, signal), headers=headers and dict(headers), session=session)


def _not_elsewhere(response: Any, *_: Any, **__: Any) -> None:
    """Raise `OSError` for an answer that sends elsewhere: the exporter does not go there, and calls it a success."""
    if 300 <= response.status_code < 400:
        raise OSError(
            f"it answered {response.status_code}, which sends elsewhere: "
            "give the address that it leads to, such as https in the place of http"
        )


class ReadableSpans:
    """Makes `ReadableSpan`s of one resource. They are whole, so they go to a processor.

    Raises `MissingExtra` without the extra `otel`.
    """

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


class SpanSender:
    """Sends spans and says whether they have arrived, for runs that were recorded. Its methods block."""

    def __init__(self, url: str | None) -> None:
        self._exporter, self._spans = exporter("traces", url, hear=self._hear), ReadableSpans(resource_of(None))
        self._success = from_otel("opentelemetry.sdk.trace.export").SpanExportResult.SUCCESS
        self._answer = from_otel("opentelemetry.proto.collector.trace.v1.trace_service_pb2").ExportTraceServiceResponse
        self._no_answer = from_otel("google.protobuf.message").DecodeError
        self._status, self._refused = 0, 0

    def send(self, spans: Sequence[Span]) -> int:
        """Send spans, and return how many were taken. Those that are refused for good are left out, with a warning.

        Raises `NotExported` when the receiver did not take them, after some tries.
        """
        if not spans:
            return 0
        if self._is_taken(spans):
            return max(0, len(spans) - self._refused)
        status = self._status
        if status not in (_BAD, _TOO_LARGE):
            raise NotExported(len(spans))
        if (half := len(spans) // 2) > 0:
            return self.send(spans[:half]) + self.send(spans[half:])
        # What refuses even a request without spans is no receiver of them.
        if status == _BAD and not self._is_taken(()):
            raise NotExported(len(spans))
        said = "the receiver refuses a span of %s with %d, and it is left out: %s, which began with event %d"
        about = spans[0].attributes
        _log.warning(said, about[Own.SESSION_ID], status, spans[0].name, about[Own.VERSION])
        return 0

    def close(self) -> None:
        """End the connection."""
        self._exporter.shutdown()

    def _is_taken(self, spans: Sequence[Span]) -> bool:
        self._status = 0
        return self._exporter.export([self._spans.of(span) for span in spans]) is self._success

    def _hear(self, response: Any, *_: Any, **__: Any) -> None:
        self._status, self._refused = response.status_code, 0
        if response.status_code != HTTPStatus.OK:
            return
        with suppress(self._no_answer):
            said = self._answer.FromString(response.content).partial_success
            if said.rejected_spans > 0:
                self._refused = said.rejected_spans
                _log.warning("the receiver refused %d spans of a request: %s", self._refused, shown(said.error_message))
