"""Folds the events of many streams into spans, and remembers the streams that grew last.

A stream that it does not know is read from its beginning. The spans that ended before the first event that it was given
are not told: somebody told them, here or in another process.
"""

import logging
from collections.abc import Sequence

from steptrail.domain.agent.events import SessionForked
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.errors import CorruptRecord, SessionErased
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.newest import Newest
from steptrail.projections.masking import Masking
from steptrail.projections.telemetry.content import SpanContent
from steptrail.projections.telemetry.fold import SpanFold
from steptrail.projections.telemetry.span import Span, TracePer
from steptrail.runtime.agent.request import Requests
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.ports import EventStore

_REMEMBERED = 1_000
_REMEMBERED_WITH_CONTENT = 100
_PAGE = 1_000

_log = logging.getLogger("steptrail.telemetry")


class SpanFolds:
    """The folds of the streams of one store. What is forgotten is read again when the stream grows.

    The spans hold content only with a `masking`.
    """

    def __init__(
        self,
        store: EventStore,
        *,
        parts: bool = True,
        trace_per: TracePer = "run",
        masking: Masking | None = None,
        remembered: int | None = None,
    ) -> None:
        self._store, self._parts = store, parts
        self._trace_per: TracePer = trace_per
        self._content = (
            SpanContent(masking, lambda state, agent: Requests().build(state, agent).messages)
            if masking is not None
            else None
        )
        self.remembered = remembered or (_REMEMBERED if masking is None else _REMEMBERED_WITH_CONTENT)
        self._folds = Newest[str, SpanFold | None](self.remembered)
        """The stream that grew last is the last one. None stands for a stream that cannot be read."""

    async def apply(
        self, stream: str, records: Sequence[Recorded[Event]], *, tells_missed: bool = False
    ) -> tuple[Span, ...]:
        """Return the spans that end with these events, which follow one another.

        Events between them and the last ones that it was given are read. With `tells_missed` their spans are told, too,
        of a stream that it knows; without it somebody else tells them. A stream that was erased or cannot be read has
        no spans from there on. Raises what reading the store raises.
        """
        if stream in self._folds:
            fold = self._folds.pop(stream)
        else:
            fold = SpanFold(stream, parts=self._parts, trace_per=self._trace_per, content=self._content)
        spans: tuple[Span, ...] = ()
        if fold is not None:
            try:
                is_known = fold.version > 0
                missed = await self._missed(stream, fold, records[0].version)
                spans = await self._applied(stream, fold, records)
                if is_known and tells_missed:
                    spans = (*missed, *spans)
            except (CorruptRecord, SessionErased) as error:
                _log.warning("there are no more spans of %s: %s", stream, error)
                fold = None
        self._folds.keep(stream, fold)
        return spans

    async def _missed(self, stream: str, fold: SpanFold, before: int) -> tuple[Span, ...]:
        spans = list[Span]()
        while fold.version < before - 1:
            version = fold.version
            page = (await self._store.read(stream, after=version, limit=_PAGE)).records
            spans += await self._applied(stream, fold, [record for record in page if record.version < before])
            if fold.version == version:
                break
        return tuple(spans)

    async def _applied(self, stream: str, fold: SpanFold, records: Sequence[Recorded[Event]]) -> tuple[Span, ...]:
        if self._content is not None and not fold.version and records and isinstance(records[0].event, SessionForked):
            # What a fork's model is asked begins with what was said in the other session.
            state, _ = await fold_stream(AGENT, self._store, stream, at=records[0].version)
            fold.begin_at(state)
        return fold.apply(records)
