"""Tells spans of the runs of this process, while they go on.

It hears the commits and folds them in a task of its own, so no run waits for it. What a killed process has not sent is
lost; `steptrail export --otlp` makes the same spans of the log.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import Context

from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.newest import Newest
from steptrail.infrastructure.telemetry.span_folds import SpanFolds
from steptrail.projections.telemetry.span import Span
from steptrail.runtime.kernel.log_raised import log_raised

_MOST_COMMITS = 10_000
_LAST_SECONDS = 10.0

_log = logging.getLogger("steptrail.telemetry")


class LiveSpans:
    """The spans of one trail. `tell` gets each of them once, in an event loop of the trail; it must not block."""

    def __init__(self, folds: SpanFolds, tell: Callable[[Span], None], *, most: int = _MOST_COMMITS) -> None:
        self._folds, self._tell = folds, tell
        self._commits: deque[tuple[str, Sequence[Recorded[Event]]]] = deque(maxlen=most)
        self._task: asyncio.Task[None] | None = None
        self._dropped = Newest[str, None](folds.remembered)
        """The streams of commits that were dropped and are to be told when these grow, of those that the folds know."""
        self._has_dropped = False

    def committed(self, stream: str, records: Sequence[Recorded[Event]]) -> None:
        """Be told of a durable commit. The oldest is dropped when too many wait."""
        if len(self._commits) == self._commits.maxlen:
            self._dropped.keep(self._commits[0][0], None)
            if not self._has_dropped:
                _log.warning("more commits wait for their spans than are kept: some spans are told late, or not at all")
            self._has_dropped = True
        self._commits.append((stream, records))
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            # In a context of its own: it is not part of the work of the run.
            self._task = loop.create_task(self._drain(), name="steptrail-telemetry", context=Context())

    async def aclose(self) -> None:
        """Tell the spans of all commits that were heard, for ten seconds at most: they may have to be read."""
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
                    await self._task
                await self._drain()
        except TimeoutError:
            said = "spans of %d commits could not be told within %g seconds: `steptrail export --otlp` sends them"
            _log.warning(said, len(self._commits) + 1, _LAST_SECONDS)

    async def _drain(self) -> None:
        while self._commits:
            stream, records = self._commits.popleft()
            # What other processes committed between two commits of this one they tell themselves.
            has_dropped = stream in self._dropped
            self._dropped.pop(stream, None)
            spans: tuple[Span, ...] = ()
            with _logged(stream):
                spans = await self._folds.apply(stream, records, tells_missed=has_dropped)
            for span in spans:
                with _logged(stream):
                    self._tell(span)


@contextmanager
def _logged(stream: str) -> Generator[None]:
    """Log an exception, and go on: one span that cannot be told costs no other."""
    try:
        yield
    except Exception as error:
        log_raised(_log, error, "spans of %s were not told", stream, level=logging.ERROR)
