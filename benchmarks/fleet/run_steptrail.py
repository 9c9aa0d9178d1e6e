"""Steptrail: sessions that were started and left to workers."""

import asyncio
import sys

from benchmarks.fleet.child import CONCURRENCY, Job, began, script
from benchmarks.listing import asking
from benchmarks.texts import QUESTION, warm
from benchmarks.work import agent, session_name
from steptrail import Steptrail


def fill(job: Job) -> None:
    """Start all sessions."""

    async def start() -> None:
        who = agent(job.steps)
        async with Steptrail.open(job.url) as trail:
            for number in range(job.sessions):
                await trail.start(who, QUESTION, session=session_name(number))

    asyncio.run(start())


def work(job: Job) -> None:
    """Carry them on: `woken` by an engine, or not."""
    warm(job.steps)
    who = agent(job.steps), asking(1)

    async def serve() -> None:
        engine = "procrastinate" if job.variant == "woken" else None
        async with Steptrail.open(job.url, engine=engine) as trail, trail.work(*who, concurrency=CONCURRENCY):
            await asyncio.to_thread(sys.stdin.readline)

    with began():
        asyncio.run(serve())


if __name__ == "__main__":
    script(fill, work)
