"""Sends spans and metrics over OTLP: protobuf over HTTP, which every receiver of OpenTelemetry takes."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from steptrail.domain.errors import ConfigurationError, NotExported
from steptrail.infrastructure.bounded_requests import bound
from steptrail.infrastructure.extras import from_otel
from steptrail.infrastructure.telemetry.readable import ReadableSpans, resource_of
from steptrail.projections.telemetry import Span

Signal: TypeAlias = Literal["traces", "metrics"]
_EXPORTERS: Mapping[Signal, tuple[str, str]] = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
}
_LOCAL = "http://localhost:4318"


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


def exporter(signal: Signal, url: str | None, headers: Mapping[str, str] | None = None) -> Any:
    """Return an exporter of spans or of metrics. Raises `MissingExtra` without the extra `otel`."""
    module, name = _EXPORTERS[signal]
    made: Any = getattr(from_otel(f"opentelemetry.exporter.otlp.proto.http.{module}"), name)
    own = ("OTEL_PYTHON_EXPORTER_OTLP_HTTP", f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{signal.upper()}")
    # Where the user's own variables name what a receiver is asked with, that is used.
    is_theirs = any(os.environ.get(f"{each}_CREDENTIAL_PROVIDER") for each in own)
    session = None if is_theirs else bound(from_otel("requests").Session())
    return made(endpoint=endpoint_of(url, signal), headers=headers and dict(headers), session=session)


class SpanSender:
    """Sends spans and says whether they have arrived, for runs that were recorded. Its methods block."""

    def __init__(self, url: str | None) -> None:
        self._exporter, self._spans = exporter("traces", url), ReadableSpans(resource_of(None))
        self._failure = from_otel("opentelemetry.sdk.trace.export").SpanExportResult.FAILURE

    def send(self, spans: Sequence[Span]) -> None:
        """Send spans. Raises `NotExported` when the receiver did not take them, after some tries."""
        if spans and self._exporter.export([self._spans.of(span) for span in spans]) is self._failure:
            raise NotExported(len(spans))

    def close(self) -> None:
        """End the connection."""
        self._exporter.shutdown()
