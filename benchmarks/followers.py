"""What a run costs while many follow: other sessions, in which nothing happens, or the session of the run itself.

A run with followers stands between two without, in the same process and the same store. Whatever it costs more is the
followers'. Of other sessions they should cost nothing: a store that wakes all of them for each commit makes the run pay
for people who watch something else. Of its own session they are handed every event, and the clock stops when each has
the last one.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.meter import Compared, Cost, Pair, between, compared, progress, stopwatch
from benchmarks.places import Place, Site
from benchmarks.texts import QUESTION
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail
from steptrail.domain.kernel.record import Recorded

CaughtUp = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFigures:
    """A run of `steps` steps beside `followers`; the floor is the same run without them.

    `of_one` says that all of them follow the session of the run, and not each a session at rest. `delivery_us` is then
    the processor time that it takes to hand one event to one of them, in microseconds.
    """

    followers: int
    steps: int
    of_one: bool
    time: Compared
    delivery_us: float | None


async def measure_followers(site: Site, followers: int, steps: int, passes: int, *, of_one: bool) -> FollowerFigures:
    """Measure a run beside followers of its own session, or of one session at rest each."""
    progress(f"{site.name}: {followers} {'followers of one session' if of_one else 'idle followers'}")
    place = site.fresh()
    try:
        pairs, events = await _pairs(place, followers, steps, passes, of_one=of_one)
    finally:
        place.remove()
    time = compared(pairs, steps)
    more = (time.cpu_ms - time.floor_cpu_ms) * steps * 1000
    each = more / (events * followers) if of_one else None
    return FollowerFigures(followers=followers, steps=steps, of_one=of_one, time=time, delivery_us=each)


async def _pairs(place: Place, followers: int, steps: int, passes: int, *, of_one: bool) -> tuple[list[Pair], int]:
    """Return the passes, and how many events the run of each stores."""
    pairs: list[Pair] = []
    events = 0
    async with Steptrail.open(place.url) as trail:
        names = [session_name(number) for number in range(followers + 2 * passes + 1)]
        for name in names:
            await run(trail, agent(0), name)
        idle, own = names[:followers], iter(names[followers:])
        before, events = await _one_run(trail, steps, next(own))
        for _ in range(passes):
            name = next(own)
            async with _following(trail, [name] * followers if of_one else idle) as caught_up:
                ours, events = await _one_run(trail, steps, name, caught_up if of_one else None)
            after, _ = await _one_run(trail, steps, next(own))
            pairs.append(Pair(ours, between(before, after)))
            before = after
    return pairs, events


async def _one_run(trail: Steptrail, steps: int, name: str, caught_up: CaughtUp | None = None) -> tuple[Cost, int]:
    who, session = agent(steps), trail.session(name)
    known = (await session.state()).version
    with stopwatch() as watch:
        result = await session.send(who, QUESTION)
        if caught_up is not None:
            await caught_up(result.state.version)
    return watch.cost, result.state.version - known


@asynccontextmanager
async def _following(trail: Steptrail, names: Sequence[str]) -> AsyncGenerator[CaughtUp, None]:
    """Have each of the sessions followed by one who has seen all there is. Yields how to wait until they have more."""
    places = [0] * len(names)

    async def follow(number: int) -> None:
        async for each in trail.session(names[number]).follow(forever=True):
            if isinstance(each, Recorded):
                places[number] = each.version

    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(follow(number)) for number in range(len(names))]

    async def caught_up(version: int) -> None:
        while min(places) < version:
            if any(task.done() for task in tasks):
                await asyncio.gather(*tasks)  # one has ended, which none should: says why
            await asyncio.sleep(0.002)

    try:
        await caught_up(min([(await trail.session(name).state()).version for name in set(names)]))
        yield caught_up
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
