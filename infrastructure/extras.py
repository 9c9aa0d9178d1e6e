"""The packages of extras, imported by what needs them and not before."""

import importlib
from functools import cache
from typing import Any

from steptrail.domain.errors import MissingExtra


def from_extra(module: str, extra: str, feature: str, package: str) -> Any:
    """Return a module of a package of an extra. Raises `MissingExtra`, which names the feature that needs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtra(feature, extra, package) from None


def from_otel(module: str) -> Any:
    """Return a module of OpenTelemetry. Raises `MissingExtra` where it is not installed."""
    package = "opentelemetry-exporter-otlp-proto-http" if ".exporter." in module else "opentelemetry-sdk"
    return from_extra(module, "otel", "telemetry", package)


@cache
def from_fleet(module: str) -> Any:
    """Return a module that the engine procrastinate needs. Raises `MissingExtra` where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra("the engine procrastinate", "fleet", "procrastinate") from error
