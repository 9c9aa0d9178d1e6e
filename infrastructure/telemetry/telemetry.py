"""`Telemetry`: the settings by which the runs of a trail are told to a receiver of OpenTelemetry, while they go on."""

from collections.abc import Mapping
from typing import Any

from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.telemetry.live import LiveSpans
from steptrail.infrastructure.telemetry.otlp import span_exporter
from steptrail.infrastructure.telemetry.packages import from_otel
from steptrail.infrastructure.telemetry.readable import ReadableSpans, resource_of
from steptrail.infrastructure.telemetry.span_folds import SpanFolds
from steptrail.projections.telemetry import Span, is_sampled
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["Telemetry", "checked_share"]


class Telemetry:
    """Give it to `Steptrail.open(..., telemetry=...)`. It serves one trail, and ends with it.

    Spans go to `endpoint` over OTLP, protobuf over HTTP, with these `headers`. Without an endpoint the variables of
    OpenTelemetry say where (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`), or they go to this machine.
    With a `processor` they go to that span processor of OpenTelemetry alone, which is closed with the trail.

    `service` is the `service.name` of the spans. `sample` is the share of traces that are told, from 0 to 1: a run and
    everything below it are told or not. Without `steps` there are no spans of steps and of visits of nodes.
    Spans hold no prompt, reply, argument, result or message of an error. Raises `MissingExtra` without the extra
    `otel`, and `ConfigurationError` for what cannot be meant.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        service: str | None = None,
        sample: float = 1.0,
        steps: bool = True,
        processor: Any = None,
    ) -> None:
        if processor is not None and (endpoint is not None or headers is not None):
            raise ConfigurationError("spans go to an `endpoint` or to a `processor`: give one of them")
        self._share, self._steps, self._is_used = checked_share(sample), steps, False
        self._spans = ReadableSpans(resource_of(service))
        batches = from_otel("opentelemetry.sdk.trace.export")
        self._processor = processor or batches.BatchSpanProcessor(span_exporter(endpoint, headers))

    def begin(self, store: EventStore) -> LiveSpans:
        """Return what hears the commits of a trail. Raises `ConfigurationError` the second time."""
        if self._is_used:
            raise ConfigurationError("a Telemetry serves one trail: make another one for another trail")
        self._is_used = True
        return LiveSpans(SpanFolds(store, parts=self._steps), self._tell)

    def close(self) -> None:
        """Send what waits, and end. It may take as long as the receiver is given, when that is away."""
        self._processor.shutdown()

    def _tell(self, span: Span) -> None:
        if is_sampled(span.trace_id, self._share):
            self._processor.on_end(self._spans.of(span))


def checked_share(share: float) -> float:
    """Return a share of traces. Raises `ConfigurationError` unless it is from 0 to 1."""
    if not 0.0 <= share <= 1.0:
        raise ConfigurationError(f"the share of traces is a number from 0 to 1, not {share!r}")
    return share
