"""Waits for an instant, or for an append of another process to the stream before it."""

import asyncio
from contextlib import suppress
from typing import Any

from steptrail.runtime.kernel.faults import Reach
from steptrail.runtime.kernel.journal import Journal
from steptrail.runtime.kernel.log_reader import Watch

_QUICK_SECONDS = 0.2
"""A wait that is over by then costs no watch."""
_LOOK_AGAIN_SECONDS = 1.0
"""How often the clock is looked at, which may be set, and how soon a reader of the log that failed is replaced."""


async def wait_for_news(journal: Journal[Any, Any], until: int, reach: Reach) -> None:
    """Wait until the journal's clock shows `until`, in microseconds; no longer when another process appends.

    What that has appended is read then. Raises store errors.
    """
    reach("before-wait")
    if await _has_news_before(journal, until):
        await journal.refresh()
    reach("after-wait")


async def _has_news_before(journal: Journal[Any, Any], until: int) -> bool:
    may_have_news = asyncio.Event()
    watch: Watch | None = None
    try:
        await asyncio.sleep(min(max(0.0, (until - journal.now()) / 1e6), _QUICK_SECONDS))
        while (left := (until - journal.now()) / 1e6) > 0:
            if watch is None or watch.is_over:
                watch = journal.watch(lambda _: may_have_news.set(), lambda _: None)
                may_have_news.set()  # what came before is not told
            if may_have_news.is_set():
                may_have_news.clear()
                if await journal.has_news():
                    return True
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LOOK_AGAIN_SECONDS)):
                    await may_have_news.wait()
        return await journal.has_news()
    finally:
        if watch is not None:
            watch.leave()
