"""`Telemetry`: the settings by which the runs of a trail are told to a receiver of OpenTelemetry, while they go on."""

import logging
import os
from collections.abc import Collection, Mapping
from typing import Any, get_args

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_flag
from steptrail.infrastructure.extras import from_otel
from steptrail.infrastructure.telemetry.live import LiveSpans
from steptrail.infrastructure.telemetry.metrics import Fleet, Lags, LiveMetrics
from steptrail.infrastructure.telemetry.otlp import ReadableSpans, exporter, resource_of
from steptrail.infrastructure.telemetry.span_folds import SpanFolds
from steptrail.projections.masking import Mask, Masking
from steptrail.projections.telemetry.openinference import Flavour, with_openinference
from steptrail.projections.telemetry.span import Span, TracePer, is_sampled
from steptrail.runtime.kernel.log_raised import log_raised
from steptrail.runtime.kernel.ports import EventStore

_MOST_WITH_CONTENT = 32
"""Spans of one request, with content: receivers refuse large ones."""

_log = logging.getLogger("steptrail.telemetry")


class Telemetry:
    """Give it to `Steptrail.open(..., telemetry=...)`. It serves one trail, and ends with it.

    Spans go to `endpoint` over OTLP, protobuf over HTTP, with these `headers`. Without an endpoint the variables of
    OpenTelemetry say where (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`), or they go to this machine.
    With `OTEL_SDK_DISABLED=true` nothing is told.
    With a `processor` they go to that span processor of OpenTelemetry alone, which is closed with the trail.

    `service` is the `service.name` of the spans. `sample` is the share of traces that are told, from 0 to 1: a run and
    everything below it are told or not. Without `steps` there are no spans of steps and of visits of nodes. A trace is
    a `run` with everything below it, or all runs of a `session`, or a `segment` of any stream alone.

    Spans hold no prompt, reply, argument, result or message of an error, but with `content`. Then they are masked as on
    the pages of the inspector: credentials, the values of `mask_keys`, and what the function `mask` returns instead.
    With the `flavour` "openinference" they have the attributes of OpenInference too.

    With `metrics=True` metrics go to the same endpoint. In the place of True a metric reader of OpenTelemetry may
    stand, which is closed with the trail. Raises `MissingExtra` without the extra `otel`, and `ConfigurationError` for
    what cannot be meant.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        service: str | None = None,
        sample: float = 1.0,
        steps: bool = True,
        trace_per: TracePer = "run",
        content: bool = False,
        mask_keys: Collection[str] = (),
        mask: Mask | None = None,
        flavour: Flavour | None = None,
        metrics: Any = False,
        processor: Any = None,
    ) -> None:
        _check_texts(endpoint, service, headers)
        # Any text is true, also the "false" of a variable, and would have everything told.
        a_flag(content, "`content`")
        a_flag(steps, "`steps`")
        if processor is not None and (endpoint is not None or headers is not None):
            raise ConfigurationError("spans go to an `endpoint` or to a `processor`: give one of them")
        if processor is not None and metrics is True:
            raise ConfigurationError("with a `processor`, `metrics` is a metric reader of OpenTelemetry")
        if trace_per not in get_args(TracePer):
            raise ConfigurationError(f"`trace_per` is one of {', '.join(get_args(TracePer))}, not {trace_per!r}")
        if flavour is not None and flavour not in get_args(Flavour):
            raise ConfigurationError(f"`flavour` is {get_args(Flavour)[0]!r} or None, not {flavour!r}")
        if not content and (mask_keys or mask is not None):
            raise ConfigurationError("without `content` there is nothing to mask: leave out `mask_keys` and `mask`")
        masking = Masking(mask_keys, mask)
        self._share, self._steps, self._is_used = _told_of(checked_share(sample)), steps, False
        self._trace_per: TracePer = trace_per
        self._masking = masking if content else None
        self._flavoured = with_openinference if flavour is not None else _as_it_is
        readers = from_otel("opentelemetry.sdk.metrics.export")
        if not isinstance(metrics, bool | readers.MetricReader):
            raise ConfigurationError(f"`metrics` is True or a metric reader of OpenTelemetry, not {metrics!r}")
        resource = resource_of(service)
        self._spans = ReadableSpans(resource)
        exports = from_otel("opentelemetry.sdk.trace.export")
        most = _MOST_WITH_CONTENT if content else None
        self._processor = processor or exports.BatchSpanProcessor(
            exporter("traces", endpoint, headers), max_export_batch_size=most
        )
        if metrics is True:
            metrics = readers.PeriodicExportingMetricReader(exporter("metrics", endpoint, headers))
        self._metrics = LiveMetrics(metrics, resource) if metrics is not False else None

    def begin(self, store: EventStore, lags: Lags, fleet: Fleet) -> LiveSpans:
        """Return what hears the commits of a trail. `lags` looks up its read models, `fleet` its engine and workers.

        Raises `ConfigurationError` the second time.
        """
        self.check_unused()
        self._is_used = True
        if self._metrics is not None:
            self._metrics.begin(store, lags, fleet)
        folds = SpanFolds(store, parts=self._steps, trace_per=self._trace_per, masking=self._masking)
        return LiveSpans(folds, self._tell)

    def check_unused(self) -> None:
        """Raise `ConfigurationError` when a trail has begun with it."""
        if self._is_used:
            raise ConfigurationError("a Telemetry serves one trail: make another one for another trail")

    def close(self) -> None:
        """Send what waits, and end. It may take as long as the receiver is given, when that is away.

        A processor or a metric reader that fails is told to the log: the trail is closed all the same, and its runs are
        stored.
        """
        ends = [("processor of spans", "spans", self._processor.shutdown)]
        if self._metrics is not None:
            ends.append(("metric reader", "metrics", self._metrics.close))
        for name, missing, end in ends:
            try:
                end()
            except Exception as error:
                said = "the %s did not end as it should: %s may be missing"
                log_raised(_log, error, said, name, missing, level=logging.ERROR)

    def _tell(self, span: Span) -> None:
        if self._metrics is not None:
            self._metrics.tell(span)
        if is_sampled(span.trace_id, self._share):
            self._processor.on_end(self._spans.of(self._flavoured(span)))


def _as_it_is(span: Span) -> Span:
    return span


def checked_share(share: float) -> float:
    """Return a share of traces. Raises `ConfigurationError` unless it is from 0 to 1."""
    if not isinstance(share, int | float) or not 0.0 <= share <= 1.0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the share of traces is a number from 0 to 1, not {share!r}")
    return share


def _told_of(share: float) -> float:
    """Return a share of traces, or none where the variable of OpenTelemetry turns all of it off."""
    return 0.0 if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" else share


def _check_texts(endpoint: Any, service: Any, headers: Any) -> None:
    for name, text in (("endpoint", endpoint), ("service", service)):
        if not isinstance(text, str | None):
            raise ConfigurationError(f"`{name}` is a text or None, not {text!r}")
    # Their values are secrets, which no error shows.
    given: Mapping[Any, Any] | Any = {} if headers is None else headers
    texts: list[Any] = [*given, *given.values()] if isinstance(given, Mapping) else [None]
    if not all(isinstance(each, str) for each in texts):
        raise ConfigurationError("`headers` are a mapping from names to texts")
