"""Snapshots of one stream: caches of its state, so that a long stream need not be folded from its beginning.

Deleting a snapshot loses no data. One is kept after a commit: when the stream has doubled since the last snapshot, when
a run ends and the stream has grown by a quarter since, or when its owner has just folded many events. So snapshots cost
a small part of the run, or of the fold that they save. If a snapshot has any fault, the events are folded instead. If
keeping one fails, the run goes on.

A snapshot is made, and a long one opened, in a thread of its own: that may take seconds, for which whatever else the
event loop does would have to wait.
"""

import logging
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Generic

from steptrail.domain.errors import StoreError
from steptrail.domain.kernel.machine import Machine, S, SnapshotCodec
from steptrail.domain.kernel.record import Snapshot, StreamHead
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.thread_calls import run_in_thread

_WORTH_KEEPING = 1_000
"""So many events take several times as long to fold as a snapshot takes to read."""
_WORTH_A_FIRST = 4_000
_PART_AT_AN_END = 4
_LARGEST = 64 * 1024 * 1024
_LEVEL = 4
"""The level of compression. On states it is as quick as 1 and a sixth smaller; 6 takes three times as long for a tenth.
"""
_BARE = -zlib.MAX_WBITS
"""Without the checksum of zlib: the seal of a snapshot is one."""
_PIECE = 4_096
"""How many bytes are unpacked at a time. A text of megabytes would take as long to make room for as to unpack."""

_LONG = 512 * 1024
"""So many bytes take longer to open than a thread takes to begin: they are the text of some 2,000 steps."""
_THREAD = "steptrail-snapshot"

_log = logging.getLogger("steptrail.store")


class Snapshots(Generic[S]):
    """Reads and keeps the snapshots of one stream, for the journal that folds the stream and appends to it."""

    def __init__(self, machine: Machine[S, Any, Any, Any], store: EventStore, stream: str) -> None:
        self._codec, self._store, self._stream = machine.snapshots, store, stream
        self._newest = self._folded = 0
        """The version of the newest snapshot, and how many events had to be folded beside it to open the stream."""

    async def newest(self, *, at: int | None = None, about: int | None = None) -> tuple[S, StreamHead] | None:
        """Return the state of the newest snapshot, and the head of the stream at that state.

        None when there is no snapshot, when it is later than version `at`, and when it has any fault. Nor is one looked
        for when the stream is known to be `about` so short that none is kept of it.
        """
        if self._codec is None or (about is not None and about < _WORTH_KEEPING):
            return None
        try:
            snapshot = await self._store.snapshot(self._stream)
            if snapshot is None or (at is not None and snapshot.head.version > at):
                return None
            opened = partial(restore, self._codec, snapshot)
            state = opened() if len(snapshot.state) < _LONG else await run_in_thread(opened, name=_THREAD)
        except (StoreError, ValueError, RuntimeError) as error:  # the last where no thread can be started
            _log.info("the snapshot of %s is not used: %s", self._stream, error)
            return None
        if state is None:
            return None
        self._newest, self._folded = state.version, 0
        return state, snapshot.head

    def has_folded(self, events: int) -> None:
        """Note that so many events had to be folded to open the stream, with those of a past that it shares."""
        self._folded += events

    def is_due(self, version: int, *, has_ended: bool = False) -> bool:
        """Tell whether a snapshot at `version` is worth its cost. Quick, because it is asked after each commit.

        A run that `has_ended` is one that people look at.
        """
        if self._folded >= _WORTH_KEEPING:
            return self._codec is not None
        grown = self._newest // _PART_AT_AN_END if has_ended else self._newest
        return version - self._newest >= max(grown, _WORTH_A_FIRST) and self._codec is not None

    async def keep(self, state: S, head: StreamHead) -> None:
        """Keep a snapshot of the state that was committed as `head`. Raises only a cancellation."""
        # Noted first, so that a snapshot that cannot be kept is not tried again after each commit.
        self._newest, self._folded = head.version, 0
        if (codec := self._codec) is None:
            return
        try:
            data = await run_in_thread(lambda: packed(codec.dump(state)), name=_THREAD)
            if len(data) <= _LARGEST:
                await self._store.keep_snapshot(self._stream, Snapshot(head, codec.format, data))
        except Exception as error:
            _log.warning("no snapshot of %s was kept: %s", self._stream, error)


def restore(codec: SnapshotCodec[S], snapshot: Snapshot) -> S | None:
    """Return the state of a snapshot; None when another version of the fold made it.

    Raises `ValueError` when the snapshot cannot be decoded, or holds the state at another version than it says.
    """
    if snapshot.format != codec.format:
        return None
    state = codec.load(Unpacked(snapshot.state))
    if state.version != snapshot.head.version:
        msg = f"it holds the state at version {state.version}, not {snapshot.head.version}"
        raise ValueError(msg)
    return state


def packed(lines: Iterable[bytes]) -> bytes:
    """Return lines as a snapshot holds them: the length of their text, a blank, and the text in packed form."""
    text = b"\n".join(lines)
    return b"%d " % len(text) + zlib.compress(text, _LEVEL, wbits=_BARE)


class Unpacked:
    """The lines of a snapshot. They are unpacked each time that somebody goes through them, and none is kept.

    Going through them raises `ValueError` when they cannot be unpacked.
    """

    def __init__(self, state: bytes) -> None:
        self._state = state

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._pieces())

    def _pieces(self) -> Iterator[list[bytes]]:
        state, text = self._state, zlib.decompressobj(_BARE)
        blank = state.index(b" ")
        left = int(state[:blank])
        begun: list[bytes] = []
        for place in range(blank + 1, len(state), _PIECE):
            try:
                piece = text.decompress(state[place : place + _PIECE])
            except zlib.error as error:
                raise ValueError(f"it cannot be unpacked: {error}") from error
            left -= len(piece)
            end, *lines = piece.split(b"\n")
            begun.append(end)
            if lines:
                whole = [b"".join(begun), *lines]
                begun = [whole.pop()]
                yield whole
        if left or not text.eof:
            raise ValueError("it cannot be unpacked: it is cut off, or is not as long as it says")
        yield [b"".join(begun)]
