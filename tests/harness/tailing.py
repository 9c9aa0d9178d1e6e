"""Many writers, readers that follow the log, and kills: every reader sees each event once, in the order of its session.

A writer notes each commit that it was told is stored; a reader notes each event together with its position, so that one
that is started again goes on behind the last line that its predecessor wrote.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from steptrail.domain.agent.events import MetadataChanged
from steptrail.domain.agent.ids import STREAM_PREFIX
from steptrail.domain.errors import ConcurrencyConflict, StoreLocked
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, StreamHead
from steptrail.runtime.kernel.ids import new_id
from steptrail.runtime.kernel.ports import EventStore
from tests.harness.store_urls import opened

_POLL_SECONDS = 0.01
_AT_ONCE = 4
_MOST_EVENTS = 5
_TAG = "tag"


class Seen(NamedTuple):
    """One event as a reader comes across it."""

    position: int
    stream: str
    version: int


@dataclass(frozen=True, slots=True)
class Shore:
    """The store, the sessions that are written to, and the folder with what writers and readers note."""

    url: str
    streams: tuple[str, ...]
    folder: Path
    start: int = 0
    """The position behind which it all begins."""

    @classmethod
    def with_sessions(cls, url: str, folder: Path, count: int) -> "Shore":
        """Return a shore with new sessions, behind everything that the store holds already."""
        streams = tuple(f"{STREAM_PREFIX}{new_id('tide')}" for _ in range(count))
        return cls(url, streams, folder, start=asyncio.run(_last_position(url)))

    def acknowledged(self, writer: str) -> Path:
        return self.folder / f"{writer}.acknowledged"

    def seen(self, reader: str) -> Path:
        return self.folder / f"{reader}.seen"

    @property
    def end(self) -> Path:
        """Holds the last position, once it is known: readers that have come there are done."""
        return self.folder / "end"


def tag_of(event: Event) -> str | None:
    """Return what tells an event of a writer from every other, nothing for an event of somebody else."""
    return str(event.changes.get(_TAG)) if isinstance(event, MetadataChanged) else None


async def follow(store: EventStore, after: int) -> AsyncIterator[Seen | None]:
    """Yield every event behind `after` as it is stored, and nothing whenever there is no more for the moment."""
    while True:
        async for position, stream, record in store.log(after=after):
            after = position
            yield Seen(position, stream, record.version)
        yield None
        await asyncio.sleep(_POLL_SECONDS)


async def _last_position(url: str) -> int:
    """Return the position of the newest event, 0 in an empty store."""
    newest = 0
    store = opened(url)
    async for position, _, _ in store.log():
        newest = position
    await store.close()
    return newest


def write_along(shore: Shore, writer: str, events: int) -> None:
    """Append until this writer and its predecessors have had `events` events acknowledged. For a process of its own."""

    async def main() -> None:
        store = opened(shore.url)
        notes = _Notes(shore.acknowledged(writer))
        left = [events - len(notes.lines)]
        await asyncio.gather(*(_append(store, shore, new_id(writer), notes, left) for _ in range(_AT_ONCE)))
        await store.close()

    asyncio.run(main())


async def _append(store: EventStore, shore: Shore, name: str, notes: "_Notes", left: list[int]) -> None:
    draw, heads, count = random.Random(name), dict[str, StreamHead](), 0  # noqa: S311 - chooses whom to write to
    while left[0] > 0:
        stream = draw.choice(shore.streams)
        tags = [f"{name}-{count + i}" for i in range(draw.randint(1, _MOST_EVENTS))]
        at = time.time_ns() // 1000
        changes = tuple((at, MetadataChanged(changes={_TAG: tag}, by="user")) for tag in tags)
        commit = Commit(CommitHead(commit_id=new_id("c"), actor=name), changes)
        head = heads.get(stream, EMPTY_STREAM)
        try:
            heads[stream] = await store.append(stream, head, commit)
        except ConcurrencyConflict:
            heads[stream] = await store.head(stream)
        except StoreLocked:
            continue
        else:
            notes.add(*tags)
            count += len(tags)
            left[0] -= len(tags)


def read_along(shore: Shore, reader: str) -> None:
    """Go on reading where a predecessor was killed, until the end is known and reached. For a process of its own."""

    async def main() -> None:
        store = opened(shore.url)
        notes = _Notes(shore.seen(reader))
        position = int(notes.lines[-1].split()[0]) if notes.lines else shore.start
        async for seen in follow(store, position):
            if seen is None:
                if shore.end.exists() and position >= int(shore.end.read_text(encoding="utf-8")):
                    break
            else:
                position = seen.position
                if seen.stream in shore.streams:
                    notes.add(" ".join(map(str, seen)))
        await store.close()

    asyncio.run(main())


class _Notes:
    """Lines of a file that survive a SIGKILL, with the one that was cut off by it taken away."""

    def __init__(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        self.lines = whole.splitlines()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.ftruncate(self._file, len(whole))
        os.lseek(self._file, 0, os.SEEK_END)

    def add(self, *lines: str) -> None:
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())
