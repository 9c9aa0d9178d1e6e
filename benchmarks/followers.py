"""What a run costs while many follow other sessions, in which nothing happens.

A run with followers stands between two without, in the same process and the same store. Whatever it costs more is the
followers': a store that wakes all of them for each commit makes the run pay for people who watch something else.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.meter import Compared, Cost, Pair, between, compared, progress, stopwatch
from benchmarks.places import Place, Site
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail

__all__ = ["FollowerFigures", "measure_followers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFigures:
    """A run of `steps` steps beside `followers` idle followers; the floor is the same run without them."""

    followers: int
    steps: int
    time: Compared


async def measure_followers(site: Site, followers: int, steps: int, passes: int) -> FollowerFigures:
    """Measure a run beside followers that wait for other sessions, one session for each."""
    progress(f"{site.name}: {followers} idle followers")
    place = site.fresh()
    try:
        pairs = await _pairs(place, followers, steps, passes)
    finally:
        place.remove()
    return FollowerFigures(followers=followers, steps=steps, time=compared(pairs, steps))


async def _pairs(place: Place, followers: int, steps: int, passes: int) -> list[Pair]:
    pairs: list[Pair] = []
    async with Steptrail.open(place.url) as trail:
        at_rest = agent(0)
        for number in range(followers):
            await run(trail, at_rest, session_name(number))
        runs = iter(range(followers, followers + 2 * passes + 1))
        before = await _one_run(trail, steps, next(runs))
        for _ in range(passes):
            async with _following(trail, followers):
                ours = await _one_run(trail, steps, next(runs))
            after = await _one_run(trail, steps, next(runs))
            pairs.append(Pair(ours, between(before, after)))
            before = after
    return pairs


async def _one_run(trail: Steptrail, steps: int, number: int) -> Cost:
    who = agent(steps)
    with stopwatch() as watch:
        await run(trail, who, session_name(number))
    return watch.cost


@asynccontextmanager
async def _following(trail: Steptrail, followers: int) -> AsyncGenerator[None, None]:
    """Have every session at rest followed by one follower that has seen all there is."""
    behind = followers
    all_idle = asyncio.Event()

    async def follow(number: int) -> None:
        nonlocal behind
        session = trail.session(session_name(number))
        stored = len(await session.events())
        async for _ in session.follow(forever=True):
            stored -= 1
            if not stored:
                behind -= 1
                if not behind:
                    all_idle.set()

    ready = asyncio.create_task(all_idle.wait())
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(follow(number)) for number in range(followers)]
    try:
        await asyncio.wait([ready, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await asyncio.gather(*tasks)  # one has ended, which none should: says why
        yield
    finally:
        for task in (ready, *tasks):
            task.cancel()
        await asyncio.gather(ready, *tasks, return_exceptions=True)
