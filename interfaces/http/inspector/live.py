"""Hints to open pages: which runs have grown. A page that shows one of them asks for itself anew.

A hint holds names and numbers, never content, and goes out at most four times a second. A browser that comes again is
told by the first beat to look, so hints need no place in the log, which would tell a tenant how much others write.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from steptrail.domain.errors import StoreError, StoreIsStandby
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.interfaces.http.inspector.access import Access, visible
from steptrail.interfaces.http.sse import End
from steptrail.runtime.kernel.lists import growing_position
from steptrail.runtime.kernel.log_reader import watch_log
from steptrail.runtime.kernel.ports import EventStore

if TYPE_CHECKING:
    from sse_starlette import ServerSentEvent

BEAT_SECONDS: Final = 4.0
"""So often a page is told that the line is alive, and looks, whatever it hears: that a process died is in no event."""
_REST_SECONDS = 0.25
_MOST_NAMED = 200
"""How many runs one hint names; of the others a page hears by the next beat."""


async def hints(
    store: EventStore, may_see: Callable[[], Awaitable[Access | None]], end: End
) -> "AsyncGenerator[ServerSentEvent]":
    """Yield a beat first and every few seconds, and between them hints of what has grown.

    With every beat `may_see` is asked what the caller may see. Ends when that is nothing any more, when `end` returns,
    and when the store fails or is closed: a browser comes again by itself.
    """
    from sse_starlette import ServerSentEvent

    changed, is_over, now = asyncio.Event(), False, asyncio.get_running_loop().time

    def over(error: Exception | None) -> None:
        nonlocal is_over
        # Nobody follows the log of a standby: its pages look at every beat.
        is_over = is_over or not isinstance(error, StoreIsStandby)
        changed.set()

    async def ended() -> None:
        await end()
        over(None)

    try:
        watch = watch_log(store, lambda _: changed.set(), over)
        ending = asyncio.create_task(ended())
        try:
            position, beat_at, access = await growing_position(store), now(), await may_see()
            while access is not None and not is_over:
                if now() >= beat_at:
                    beat_at = now() + BEAT_SECONDS
                    yield ServerSentEvent(event="beat", data=str(BEAT_SECONDS), retry=2_000, sep="\n")
                changed.clear()
                position, grown = await _grown(store, position)
                named = await _named(store, access, grown)
                if named:
                    yield ServerSentEvent(data=json.dumps({"streams": named}, separators=(",", ":")), sep="\n")
                if grown:
                    await asyncio.sleep(_REST_SECONDS)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(beat_at):
                        await changed.wait()
                if now() >= beat_at:
                    access = await may_see()
        finally:
            ending.cancel()
            watch.leave()
    except StoreError:
        return


async def _grown(store: EventStore, position: int) -> tuple[int, Mapping[str, int]]:
    try:
        return await store.grown(position)
    except StoreIsStandby as standby:
        return standby.newest, {}


async def _named(store: EventStore, access: Access, grown: Mapping[str, int]) -> Mapping[str, int]:
    """Return those that grew and that a caller may see, the last of them if they are many."""
    last = dict(list(grown.items())[-_MOST_NAMED:])
    if access.tenant is None or not last:
        return last
    rows = visible(access, await store.index(IndexQuery(streams=list(last))))
    return {row.stream: last[row.stream] for row in rows}
