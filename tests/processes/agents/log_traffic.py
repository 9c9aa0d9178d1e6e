"""A process that writes to the log, or one that follows it and keeps what it saw in a file."""

import argparse
import asyncio
import json
import os
from pathlib import Path

from steptrail.domain.agent.events import MetadataChanged
from steptrail.domain.errors import ConcurrencyConflict
from steptrail.domain.kernel.record import Commit, CommitHead, StreamHead
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.ids import new_id
from steptrail.runtime.kernel.ports import EventStore
from tests.processes.agents.site import Site

ENOUGH = "enough"
"""The gate that ends the writing."""

SHARED = "agent:shared"


async def _write(site: Site, name: str) -> None:
    """Append to three sessions of its own and one that all writers share until the gate is open, and once at least."""
    store = open_store(site.url, durability="normal")
    streams = [*(f"agent:{name}-{i}" for i in range(3)), SHARED]
    heads = [await store.head(stream) for stream in streams]
    is_over = False
    while not is_over:
        is_over = site.is_open(ENOUGH)
        heads = await asyncio.gather(*(_append(store, *place) for place in zip(streams, heads, strict=True)))
        await asyncio.sleep(0.002)
    await store.close()


async def _append(store: EventStore, stream: str, head: StreamHead) -> StreamHead:
    event = MetadataChanged(changes={"by": os.getpid()}, by="writer")
    commit = Commit(CommitHead(commit_id=new_id("c"), actor="writer"), ((head.version, event),) * 3)
    try:
        return await store.append(stream, head, commit)
    except ConcurrencyConflict:
        return await store.head(stream)


async def _read(site: Site, seen: Path, after: int) -> None:
    """Write down one line for each event, as soon as it comes, until somebody ends the process."""
    # One write of a file opened for appending is never cut by a SIGKILL.
    file = os.open(seen, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    async with Steptrail.open(site.url) as trail, trail.subscribe(after) as entries:
        async for entry in entries:
            line = {"position": entry.position, "sessionId": entry.id, "version": entry.record.version}
            os.write(file, json.dumps(line).encode() + b"\n")


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["write", "read"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--after", type=int, default=0)
    given = parser.parse_args()
    site = Site(given.folder)
    if given.command == "write":
        asyncio.run(_write(site, given.name))
    else:
        asyncio.run(_read(site, site.folder / given.name, given.after))


if __name__ == "__main__":
    main()
