"""Adds the spans of this process to metrics of OpenTelemetry, and tells what is open, not counted, or waits.

That is looked up when a reader asks for it, in the event loop of the trail. A reader that asks in that very
loop, or when it does not run, gets what was seen last.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from steptrail.domain.version import VERSION
from steptrail.infrastructure.extras import from_otel
from steptrail.projections.telemetry.metrics import INSTRUMENTS, Measure, measures_of
from steptrail.projections.telemetry.names import SCHEMA_URL, Metric, Own
from steptrail.projections.telemetry.span import Span
from steptrail.runtime.kernel.engine import EngineStatus, WorkerReport
from steptrail.runtime.kernel.lists import oldest_due, open_counts
from steptrail.runtime.kernel.log_raised import log_raised
from steptrail.runtime.kernel.ports import EventStore

Lags = Callable[[], Awaitable[Mapping[str, int]]]
"""Returns how many positions of the log each projection has not counted, by its name."""

Fleet = Callable[[], Awaitable[tuple[EngineStatus | None, Sequence[WorkerReport]]]]
"""Returns what the engine holds, None without one or when it is away; and what the workers of this process do."""

_PATIENCE_SECONDS = 5.0
_FRESH_SECONDS = 1.0

_log = logging.getLogger("steptrail.telemetry")


class LiveMetrics:
    """The metrics of one trail. `reader` is a metric reader of OpenTelemetry, which is closed with the trail."""

    def __init__(self, reader: Any, resource: Any) -> None:
        self._metrics = from_otel("opentelemetry.metrics")
        self._provider = from_otel("opentelemetry.sdk.metrics").MeterProvider([reader], resource)
        self._meter = self._provider.get_meter("steptrail", VERSION, SCHEMA_URL)
        self._instruments = {metric: self._made(metric) for metric in INSTRUMENTS}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seen: tuple[Measure, ...] = ()
        self._seen_at = float("-inf")

    def begin(self, store: EventStore, lags: Lags, fleet: Fleet) -> None:
        """Begin to tell what stands open in a store, what its read models have not counted, and what waits for it."""
        look, gauge = partial(self._look, store, lags, fleet), self._meter.create_observable_gauge

        def of(metric: Metric) -> Callable[[Any], Any]:
            return lambda _: self._observed(metric, look)

        gauge(Metric.OPEN, [of(Metric.OPEN)], "{run}", "Runs that are open.")
        gauge(Metric.OLDEST_DUE, [of(Metric.OLDEST_DUE)], "s", "For how long a run is due.")
        lag = "Positions of the log that are not counted yet."
        gauge(Metric.PROJECTION_LAG, [of(Metric.PROJECTION_LAG)], "{position}", lag)
        gauge(Metric.FLEET_WAITING, [of(Metric.FLEET_WAITING)], "{wake}", "Wakes that wait for a worker.")
        gauge(Metric.FLEET_OLDEST, [of(Metric.FLEET_OLDEST)], "s", "For how long a wake waits.")
        gauge(Metric.WORKER_RUNNING, [of(Metric.WORKER_RUNNING)], "{session}", "Sessions that are carried on here.")
        counter = self._meter.create_observable_counter
        counter(Metric.WORKER_WAKES, [of(Metric.WORKER_WAKES)], "{wake}", "Wakes that came here.")
        with suppress(RuntimeError):  # else it is known with the first span
            self._loop = asyncio.get_running_loop()

    def tell(self, span: Span) -> None:
        """Add a span."""
        self._loop = asyncio.get_running_loop()
        for metric, value, attributes in measures_of(span):
            instrument = self._instruments[metric]
            if INSTRUMENTS[metric].buckets:
                instrument.record(value, attributes)
            else:
                instrument.add(value, attributes)

    def close(self) -> None:
        """Tell the reader for the last time, and close it."""
        self._provider.shutdown()

    def _made(self, metric: Metric) -> Any:
        unit, description, buckets = INSTRUMENTS[metric]
        if not buckets:
            return self._meter.create_counter(metric, unit, description)
        return self._meter.create_histogram(
            metric, unit, description, explicit_bucket_boundaries_advisory=list(buckets)
        )

    def _observed(self, metric: Metric, look: Callable[[], Coroutine[Any, Any, None]]) -> Iterable[Any]:
        """Return the values of a gauge. It is called by the reader."""
        is_old = time.monotonic() - self._seen_at >= _FRESH_SECONDS
        if is_old and self._loop is not None and self._loop.is_running() and not _is_here(self._loop):
            looking = asyncio.run_coroutine_threadsafe(look(), self._loop)
            try:
                looking.result(_PATIENCE_SECONDS)
            except Exception as error:
                looking.cancel()
                # The other gauges of this reader are not to wait as long again: it would give up, and tell nothing.
                self._seen_at = time.monotonic()
                log_raised(_log, error, "what is open in the store was not told")
        return [self._metrics.Observation(each.value, each.attributes) for each in self._seen if each.metric is metric]

    async def _look(self, store: EventStore, lags: Lags, fleet: Fleet) -> None:
        counts = await open_counts(store)
        now = time.time_ns() // 1_000
        since = await oldest_due(store, now)
        oldest = Measure(Metric.OLDEST_DUE, 0.0 if since is None else max(0, now - since) / 1e6, {})
        self._seen = (
            oldest,
            *(Measure(Metric.OPEN, count, {Own.STATUS.value: status}) for status, count in counts.items()),
            *(Measure(Metric.PROJECTION_LAG, lag, {Own.PROJECTION.value: of}) for of, lag in (await lags()).items()),
            *_of_fleet(*await fleet(), now),
        )
        self._seen_at = time.monotonic()


def _of_fleet(status: EngineStatus | None, workers: Sequence[WorkerReport], now: int) -> Iterator[Measure]:
    for topic, each in () if status is None else status.topics.items():
        of = {Own.TOPIC.value: topic}
        yield Measure(Metric.FLEET_WAITING, each.waiting, of)
        yield Measure(Metric.FLEET_OLDEST, 0.0 if each.since is None else max(0, now - each.since) / 1e6, of)
    if workers:
        in_vain = sum(each.without_effect for each in workers)
        yield Measure(Metric.WORKER_RUNNING, sum(len(each.running) for each in workers), {})
        yield Measure(Metric.WORKER_WAKES, in_vain, {Own.HAD_EFFECT.value: False})
        yield Measure(Metric.WORKER_WAKES, sum(each.wakes for each in workers) - in_vain, {Own.HAD_EFFECT.value: True})


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
