"""Pieces of replies on their way to front ends: held until their step was told of, joined meanwhile, never late.

A piece is as long as its transport takes it. What the text is as characters says little: JSON inside of JSON in ASCII,
as the Pusher protocol is written, takes a dozen bytes for one.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

import orjson
from msgspec.structs import replace

from steptrail.domain.live import TextDelta
from steptrail.infrastructure.broadcast.transport import BroadcastTransport
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.projections.broadcast.fold import EnvelopeFold

_MOST_WAITING = 10_000
_MOST_BYTES, _BESIDE_THE_TEXT, _LEAST_ROOM = 10_000, 2_000, 100
"""How many bytes a message may have where its transport gives no number, how many of them its names and ids need, and
how many a piece has in any case."""


def room_of(transport: BroadcastTransport) -> int:
    """Return how many bytes the text of a piece may take, as it is written, so that the transport takes the message."""
    most: int = getattr(transport, "most_bytes", None) or _MOST_BYTES
    return max(_LEAST_ROOM, most - _BESIDE_THE_TEXT)


def pieces_of(delta: TextDelta, room: int) -> Iterator[TextDelta]:
    """Yield a piece of a reply, or as many as it takes until the text of each has room."""
    text = delta.text
    if len(text) < 2 or _written(text) <= room:
        yield delta
        return
    half = len(text) // 2
    yield from pieces_of(replace(delta, text=text[:half], is_final=False), room)
    yield from pieces_of(replace(delta, text=text[half:]), room)


def _written(text: str) -> int:
    """Return how many bytes text takes as JSON inside of JSON in ASCII, the widest form that a transport writes."""
    return len(json.dumps(orjson.dumps(text).decode()))


class LiveChunks:
    """Text that the runs of this process write, waiting to be told. Pieces that are late or too many get lost.

    `add` may be called from any thread; the rest belongs to the event loop in which it was made.
    """

    def __init__(self, utc: Callable[[], int], *, room: int) -> None:
        self._utc, self._room = utc, room
        self._loop = asyncio.get_running_loop()
        self._waiting = deque[TextDelta]()
        self.came = asyncio.Event()
        self.dropped = 0

    def add(self, delta: TextDelta) -> None:
        """Take a piece."""
        self._loop.call_soon_threadsafe(self._add, delta)

    async def take(self, fold_of: Callable[[TextDelta], Awaitable[EnvelopeFold | None]]) -> list[BroadcastEnvelope]:
        """Return the messages of all pieces whose step is open in their session's fold, and keep those of later ones.

        Where there is no fold yet the pieces are kept.
        """
        self.came.clear()
        held, told = deque[TextDelta](), list[BroadcastEnvelope]()
        waiting, self._waiting = self._waiting, deque[TextDelta]()
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

    def _add(self, delta: TextDelta) -> None:
        for piece in pieces_of(delta, self._room):
            self._put(piece)
        self.came.set()

    def _put(self, piece: TextDelta) -> None:
        last = self._waiting[-1] if self._waiting else None
        if last is not None and _goes_on(last, piece) and _written(last.text + piece.text) <= self._room:
            self._waiting[-1] = replace(last, text=last.text + piece.text)
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting.append(piece)
        else:
            self.dropped += 1


def _goes_on(last: TextDelta, delta: TextDelta) -> bool:
    return replace(last, text="") == replace(delta, text="") and not last.is_final
