"""The packages of the extra `otel`, imported by what needs them and not before."""

from typing import Any

from steptrail.infrastructure.extras import from_extra


def from_otel(module: str) -> Any:
    """Return a module of OpenTelemetry. Raises `MissingExtra` where it is not installed."""
    package = "opentelemetry-exporter-otlp-proto-http" if ".exporter." in module else "opentelemetry-sdk"
    return from_extra(module, "otel", "telemetry", package)
