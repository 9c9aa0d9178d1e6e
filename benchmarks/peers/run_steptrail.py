"""Steptrail, or the floor that writes its rows: by the same rules as the peers, in a process of its own."""

import asyncio

from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.sqlite_place import SqlitePlace
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail


def measure(task: Task) -> Figures:
    """Run the sessions once; the floor then writes what they stored, and leaves nothing on the disk."""
    place = SqlitePlace(task.folder)
    figures = asyncio.run(_measured(place.url, task))
    if task.variant == "floor":
        rows = place.rows()
        with watched() as written:
            cost = place.write_floor(rows)
        return Figures(cost, written.syncs)
    figures.bytes = file_bytes(task.folder)
    return figures


async def _measured(url: str, task: Task) -> Figures:
    who = agent(task.steps)
    async with Steptrail.open(url, durability="normal" if task.variant == "normal" else "full") as trail:
        with watched() as figures:
            await asyncio.gather(*(run(trail, who, session_name(number)) for number in range(task.sessions)))
    return figures


if __name__ == "__main__":
    script(measure)
