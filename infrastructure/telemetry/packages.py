"""The packages of the extra `otel`, imported by what needs them and not before."""

import importlib
from typing import Any

from steptrail.domain.errors import MissingExtra

__all__ = ["from_otel"]


def from_otel(module: str) -> Any:
    """Return a module of OpenTelemetry. Raises `MissingExtra` where it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "opentelemetry":
            raise
        package = "opentelemetry-exporter-otlp-proto-http" if ".exporter." in module else "opentelemetry-sdk"
        raise MissingExtra("telemetry", "otel", package) from None
