"""Steptrail, or the floor that writes its rows: by the same rules as the peers, in a process of its own."""

import asyncio

from benchmarks.meter import Cost, stopwatch
from benchmarks.peers.child import Task, file_bytes, script
from benchmarks.sqlite_place import SqlitePlace
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail

__all__ = ["measure"]


def measure(task: Task) -> tuple[Cost, int]:
    """Run the session once; the floor then writes what that stored, and leaves nothing on the disk."""
    place = SqlitePlace(task.folder)
    ours = asyncio.run(_measured(place.url, task.steps))
    return (place.write_floor(place.rows()), 0) if task.variant == "floor" else (ours, file_bytes(task.folder))


async def _measured(url: str, steps: int) -> Cost:
    who = agent(steps)
    async with Steptrail.open(url) as trail:
        with stopwatch() as watch:
            await run(trail, who, session_name(0))
    return watch.cost


if __name__ == "__main__":
    script(measure)
