"""What sessions cost that only wait: processor time while the model thinks, and the memory that they hold meanwhile.

`python -m benchmarks.waiting URL SESSIONS STEPS SECONDS` is the process that is measured: it brings every session to a
model call that does not end, and then watches itself. Sessions cost nothing while they wait only where nothing looks
for something to do on behalf of each.
"""

import asyncio
import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.meter import now, progress, run_process
from benchmarks.places import Site
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFigures:
    """Figures for `sessions` sessions in one process that wait in a model call after `steps` steps each.

    `core_percent` is how much of one core the process takes. `kilobytes` is how much each session adds to the memory
    of the process; None where the system does not say how much that is.
    """

    sessions: int
    steps: int
    core_percent: float
    kilobytes: float | None


def measure_waiting(
    site: Site, counts: Sequence[int], steps: int, seconds: float, passes: int, environment: Mapping[str, str]
) -> list[WaitingFigures]:
    """Measure each of `counts` sessions for `seconds` seconds."""
    return [_measured(site, count, steps, seconds, passes, environment) for count in counts]


def main(url: str, sessions: int, steps: int, seconds: float) -> None:
    """Be the process that is measured, and print what it found."""
    asyncio.run(_wait(url, sessions, steps, seconds))


def _measured(
    site: Site, sessions: int, steps: int, seconds: float, passes: int, environment: Mapping[str, str]
) -> WaitingFigures:
    progress(f"{site.name}: {sessions} sessions that wait")
    shares: list[float] = []
    sizes: list[float] = []
    for _ in range(passes):
        place = site.fresh()
        try:
            command = [sys.executable, "-m", "benchmarks.waiting", place.url, *map(str, (sessions, steps, seconds))]
            found = json.loads(run_process(command, environment=environment)[1])
        finally:
            place.remove()
        shares.append(found["core_percent"])
        if found["kilobytes"] is not None:
            sizes.append(found["kilobytes"])
    return WaitingFigures(
        sessions=sessions, steps=steps, core_percent=median(shares), kilobytes=median(sizes) if sizes else None
    )


async def _wait(url: str, sessions: int, steps: int, seconds: float) -> None:
    waiting = 0
    all_wait, never = asyncio.Event(), asyncio.Event()

    async def held(call: int) -> None:
        nonlocal waiting
        if call < steps:
            return
        waiting += 1
        if waiting == sessions:
            all_wait.set()
        await never.wait()

    async with Steptrail.open(url) as trail:
        await run(trail, agent(steps), session_name(sessions))  # what the first session makes for all
        who = agent(steps, held=held)
        before = _memory()
        running: list[asyncio.Task[Any]] = [
            asyncio.create_task(run(trail, who, session_name(number))) for number in range(sessions)
        ]
        ready = asyncio.create_task(all_wait.wait())
        await asyncio.wait([ready, *running], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await asyncio.gather(*running)  # one has ended, which none should: says why
        await asyncio.sleep(min(1.0, seconds))
        after = _memory()
        began = now()
        await asyncio.sleep(seconds)
        cost = now() - began
        size = None if before is None or after is None else (after - before) / 1000 / sessions
        # The sessions never end: the process does, without closing its store.
        print(json.dumps({"core_percent": 100 * cost.cpu / cost.wall, "kilobytes": size}), flush=True)
        os._exit(0)


def _memory() -> int | None:
    """Return the bytes of this process that are in memory, without its garbage."""
    gc.collect()
    if not _STATM.exists():
        return None
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
