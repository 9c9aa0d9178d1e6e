"""Sends spans and metrics over OTLP: protobuf over HTTP, which every receiver of OpenTelemetry takes."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from steptrail.domain.errors import ConfigurationError, NotExported
from steptrail.infrastructure.bounded_requests import bound
from steptrail.infrastructure.extras import from_otel
from steptrail.infrastructure.telemetry.readable import ReadableSpans, resource_of
from steptrail.projections.telemetry import Span

_EXPORTER = "opentelemetry.exporter.otlp.proto.http"
_LOCAL = "http://localhost:4318"


def endpoint_of(url: str | None, signal: Literal["traces", "metrics"] = "traces") -> str:
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


def span_exporter(url: str | None, headers: Mapping[str, str] | None = None) -> Any:
    """Return an exporter of spans. Raises `MissingExtra` without the extra `otel`."""
    exporter = from_otel(f"{_EXPORTER}.trace_exporter")
    return exporter.OTLPSpanExporter(
        endpoint=endpoint_of(url), headers=headers and dict(headers), session=_session("TRACES")
    )


def metric_exporter(url: str | None, headers: Mapping[str, str] | None = None) -> Any:
    """Return an exporter of metrics. Raises `MissingExtra` without the extra `otel`."""
    exporter = from_otel(f"{_EXPORTER}.metric_exporter")
    return exporter.OTLPMetricExporter(
        endpoint=endpoint_of(url, "metrics"), headers=headers and dict(headers), session=_session("METRICS")
    )


def _session(signal: str) -> Any:
    """Return what an exporter asks a receiver with; None where the user's own variables name one."""
    own = ("OTEL_PYTHON_EXPORTER_OTLP_HTTP", f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{signal}")
    if any(os.environ.get(f"{each}_CREDENTIAL_PROVIDER") for each in own):
        return None
    return bound(from_otel("requests").Session())


class SpanSender:
    """Sends spans and says whether they have arrived, for runs that were recorded. Its methods block."""

    def __init__(self, url: str | None) -> None:
        self._exporter, self._spans = span_exporter(url), ReadableSpans(resource_of(None))
        self._failure = from_otel("opentelemetry.sdk.trace.export").SpanExportResult.FAILURE

    def send(self, spans: Sequence[Span]) -> None:
        """Send spans. Raises `NotExported` when the receiver did not take them, after some tries."""
        if spans and self._exporter.export([self._spans.of(span) for span in spans]) is self._failure:
            raise NotExported(len(spans))

    def close(self) -> None:
        """End the connection."""
        self._exporter.shutdown()
