"""Exports the spans of recorded runs: those of a log, or of what follows a place in it."""

import asyncio
from collections.abc import Awaitable, Callable

from steptrail.infrastructure.telemetry.span_folds import SpanFolds
from steptrail.projections.telemetry.span import Span, is_sampled
from steptrail.runtime.kernel.subscription import Subscription

_BATCH = 512
_PAGE = 500
_REST_SECONDS = 0.2
"""How long the export rests when it has told all, so that what runs commit meanwhile goes in one request."""


async def export_spans(
    entries: Subscription,
    folds: SpanFolds,
    send: Callable[[list[Span]], Awaitable[int]],
    *,
    share: float = 1.0,
    keep: Callable[[int], Awaitable[None]] | None = None,
    at_once: int = _BATCH,
) -> int:
    """Send the spans that end with these entries, and return how many of them `send` says were taken.

    `share` of the traces are sent, about `at_once` spans together. With `keep` it tells the place behind which nothing
    was sent. What `send` raises ends the export.
    """
    batch, told, position, read = list[Span](), 0, 0, 0
    coming = aiter(entries)

    async def flush() -> None:
        nonlocal told
        told += await send(batch)
        batch.clear()
        if keep is not None and position:
            await keep(position)

    while True:
        entry = entries.ready()
        if entry is None:
            if keep is not None:
                await flush()
                if 0 < read < _PAGE:
                    await asyncio.sleep(_REST_SECONDS)
            read = 0
            entry = await anext(coming, None)
            if entry is None:
                break
        ended = await folds.apply(entry.stream, (entry.record,))
        batch += (span for span in ended if is_sampled(span.trace_id, share))
        position, read = entry.position, read + 1
        if len(batch) >= at_once:
            await flush()
    await flush()
    return told
