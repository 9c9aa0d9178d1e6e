"""Steptrail, or the floor that writes its rows: by the same rules as the peers, in a process of its own."""

import asyncio
from collections.abc import Awaitable, Callable

from benchmarks.peers.child import Figures, Task, file_bytes, script, watched
from benchmarks.sqlite_place import SqlitePlace
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail

Lane = Callable[[Steptrail, int], Awaitable[object]]
"""Does the work of a session, or of a chain of runs, by its number."""


def measured(task: Task, lane: Lane) -> Figures:
    """Run all lanes at once; the floor then writes what they stored, and leaves nothing on the disk."""
    place = SqlitePlace(task.folder)
    figures = asyncio.run(_run(place.url, task, lane))
    if task.variant == "floor":
        rows = place.rows()
        with watched() as written:
            cost = place.write_floor(rows)
        return Figures(cost, written.syncs)
    figures.bytes = file_bytes(task.folder)
    return figures


async def _run(url: str, task: Task, lane: Lane) -> Figures:
    async with Steptrail.open(url, durability="normal" if task.variant == "normal" else "full") as trail:
        with watched() as figures:
            await asyncio.gather(*(lane(trail, number) for number in range(task.sessions)))
    return figures


def measure(task: Task) -> Figures:
    """Run the sessions once."""
    who = agent(task.steps)
    return measured(task, lambda trail, number: run(trail, who, session_name(number)))


if __name__ == "__main__":
    script(measure)
