"""Many sessions in one process, and whether they share what a commit costs.

The same number of steps is spread over 1, 64 and 512 sessions that run at once. The floor writes the commits of all of
them one after another on one connection, so it never shares a sync: ours may cost less than the floor.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.meter import Compared, Cost, Pair, between, compared, progress, stopwatch
from benchmarks.places import Place, Site
from benchmarks.sync_counter import counted_syncs
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFigures:
    """Figures for `sessions` sessions of `steps` steps each, at once. `commits_a_sync` is None where unknown."""

    sessions: int
    steps: int
    time: Compared
    steps_a_second: float
    commits_a_sync: float | None


async def measure_sessions(site: Site, counts: Sequence[int], total: int, passes: int) -> list[SessionFigures]:
    """Measure each of `counts` sessions at once, `total` steps in all."""
    return [await _measured(site, count, max(1, total // count), passes) for count in counts]


async def _measured(site: Site, count: int, steps: int, passes: int) -> SessionFigures:
    progress(f"{site.name}: {count} sessions at once")
    pairs: list[Pair] = []
    before: Cost | None = None
    for _ in range(passes + 1):
        place = site.fresh()
        try:
            cost = await _run_all(place, count, steps)
            after = place.write_floor(place.rows())
            if before is not None:
                pairs.append(Pair(cost, between(before, after)))
            before = after
        finally:
            place.remove()
    return SessionFigures(
        sessions=count,
        steps=steps,
        time=compared(pairs, count * steps),
        steps_a_second=median(count * steps / pair.ours.wall for pair in pairs),
        commits_a_sync=await _commits_a_sync(site, count, steps),
    )


async def _run_all(place: Place, count: int, steps: int) -> Cost:
    who = agent(steps)
    async with Steptrail.open(place.url) as trail:
        with stopwatch() as watch:
            await asyncio.gather(*(run(trail, who, session_name(number)) for number in range(count)))
    return watch.cost


async def _commits_a_sync(site: Site, count: int, steps: int) -> float | None:
    """Count in a run of its own, so that no figure of time holds the counting."""
    place = site.fresh()
    try:
        with counted_syncs() as counter:
            await _run_all(place, count, steps)
        return len(place.rows().commits) / counter.count if counter.count else None
    except OSError:
        return None
    finally:
        place.remove()
