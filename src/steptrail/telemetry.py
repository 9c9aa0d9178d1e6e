"""Spans of OpenTelemetry of the runs of a trail. It needs the extra `otel`."""

from steptrail.infrastructure.telemetry.telemetry import Telemetry

__all__ = ["Telemetry"]
