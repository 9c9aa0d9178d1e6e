"""Pieces of replies on their way to front ends: held until their step was told of, joined meanwhile, never late."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

from steptrail.domain.live import ReplyDelta
from steptrail.projections.broadcast import Envelope, EnvelopeFold

__all__ = ["LiveChunks"]

_MOST_WAITING = 10_000
_LONGEST = 2_000
"""Characters of one chunk that pieces are joined to."""


class LiveChunks:
    """What this process's runs write and was not told yet. Pieces that come too late, or are too many, get lost.

    `add` may be called from any thread; the rest belongs to the event loop in which it was made.
    """

    def __init__(self, utc: Callable[[], int]) -> None:
        self._utc = utc
        self._loop = asyncio.get_running_loop()
        self._waiting = deque[ReplyDelta]()
        self.came = asyncio.Event()
        self.dropped = 0

    def add(self, delta: ReplyDelta) -> None:
        """Take a piece."""
        self._loop.call_soon_threadsafe(self._add, delta)

    async def take(self, fold_of: Callable[[ReplyDelta], Awaitable[EnvelopeFold | None]]) -> list[Envelope]:
        """Return the messages of all pieces whose step is open in their session's fold, and keep those of later ones.

        Where there is no fold yet the pieces are kept.
        """
        self.came.clear()
        held, told = deque[ReplyDelta](), list[Envelope]()
        waiting, self._waiting = self._waiting, deque[ReplyDelta]()
        for delta in waiting:
            fold = await fold_of(delta)
            moment = "early" if fold is None else fold.moment_of(delta)
            if moment == "early":
                held.append(delta)
            elif moment == "now" and fold is not None:
                told += fold.delta(delta, at=self._utc())
            else:
                self.dropped += 1
        self._waiting.extendleft(reversed(held))
        return told

    def _add(self, delta: ReplyDelta) -> None:
        last = self._waiting[-1] if self._waiting else None
        if last is not None and _goes_on(last, delta):
            self._waiting[-1] = replace(last, text=last.text + delta.text)
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting.append(delta)
        else:
            self.dropped += 1
        self.came.set()


def _goes_on(last: ReplyDelta, delta: ReplyDelta) -> bool:
    same = replace(last, text="") == replace(delta, text="")
    return same and not last.is_final and len(last.text) + len(delta.text) <= _LONGEST
