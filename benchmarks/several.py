"""Several processes on one PostgreSQL database, with commits that are quick and with commits that wait for the disk.

A fleet has many processes and few sessions in each, so they cannot share their commits. What one of them holds until
its commit has ended, such as a lock, all of them wait for: this is where that is seen. The floor writes the same rows
from as many processes. It takes no lock, so it promises no order: it is how much the server can take.
"""

import asyncio
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Any

from benchmarks.meter import Compared, Cost, Pair, between, compared, now, progress
from benchmarks.postgres_place import PostgresPlace, PostgresSite, connected, floor_statements, floor_table
from benchmarks.rows import Rows
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail

_STARTING_SECONDS = 120
_SESSIONS_A_PROCESS = 1_000

Done = tuple[float, float, float]
"""When a process began and ended by the clock that all processes share, and its processor time, in seconds."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """So many processes with so many sessions in each, of so many steps each."""

    processes: int
    sessions: int
    steps: int

    @property
    def total(self) -> int:
        """The steps of all of them."""
        return self.processes * self.sessions * self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralFigures:
    """A fleet whose commits wait `commit_ms` milliseconds longer. Processor time is that of all clients together."""

    fleet: Fleet
    commit_ms: int
    time: Compared
    steps_a_second: float
    floor_steps_a_second: float


def measure_several(
    site: PostgresSite, fleets: Sequence[Fleet], commit_ms: Sequence[int], passes: int
) -> list[SeveralFigures]:
    """Measure each fleet with each delay of a commit."""
    return [_measured(site, fleet, delay, passes) for delay in commit_ms for fleet in fleets]


def _measured(site: PostgresSite, fleet: Fleet, delay: int, passes: int) -> SeveralFigures:
    progress(f"{site.name}: {fleet.processes} processes, commits {delay} ms longer")
    pairs: list[Pair] = []
    before: Cost | None = None
    for _ in range(passes):
        warm, place = site.fresh(), site.fresh()
        try:
            if delay:
                place.slow_commits(delay)
            ours = _ours(place, warm, fleet)
            after = write_together(place, fleet.processes)
        finally:
            place.remove()
            warm.remove()
        pairs.append(Pair(ours, between(before or after, after)))
        before = after
    return SeveralFigures(
        fleet=fleet,
        commit_ms=delay,
        time=compared(pairs, fleet.total),
        steps_a_second=median(fleet.total / pair.ours.wall for pair in pairs),
        floor_steps_a_second=median(fleet.total / pair.floor.wall for pair in pairs),
    )


def _ours(place: PostgresPlace, warm: PostgresPlace, fleet: Fleet) -> Cost:
    first = range(0, fleet.processes * _SESSIONS_A_PROCESS, _SESSIONS_A_PROCESS)
    return _together(_run, [(place.url, warm.url, number, fleet.sessions, fleet.steps) for number in first])


def write_together(place: PostgresPlace, processes: int) -> Cost:
    """Write the rows of a store once more, plainly, each process its share; return what that cost."""
    rows = place.rows()
    shares = [Rows(rows.columns, rows.commits[number::processes]) for number in range(processes)]
    with floor_table(place.url):
        return _together(_write, [(place.url, share) for share in shares])


def _together(work: Callable[..., None], tasks: Sequence[tuple[Any, ...]]) -> Cost:
    """Have each task done by a process of its own, all from the same moment on; return what that cost.

    Raises `RuntimeError` when one of them fails.
    """
    context = multiprocessing.get_context("spawn")
    start, done = context.Barrier(len(tasks)), context.SimpleQueue()
    processes = [context.Process(target=work, args=(start, done, *task)) for task in tasks]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        msg = f"processes ended with {[process.exitcode for process in processes]}"
        raise RuntimeError(msg)
    found: list[Done] = [done.get() for _ in processes]
    wall = max(ended for _, ended, _ in found) - min(began for began, _, _ in found)
    return Cost(wall, sum(cpu for _, _, cpu in found))


def _run(
    start: Barrier, done: "SimpleQueue[Done]", url: str, warm_url: str, first: int, sessions: int, steps: int
) -> None:
    """Be a process of the fleet. What its first session makes for all is made in the database at `warm_url`."""

    async def work() -> Done:
        who = agent(steps)
        async with Steptrail.open(warm_url) as trail:
            await run(trail, agent(1), session_name(first))
        async with Steptrail.open(url) as trail:
            start.wait(_STARTING_SECONDS)
            began = now()
            await asyncio.gather(*(run(trail, who, session_name(first + number)) for number in range(sessions)))
            return _done(began)

    done.put(asyncio.run(work()))


def _write(start: Barrier, done: "SimpleQueue[Done]", url: str, rows: Rows) -> None:
    """Be a process of the floor."""
    with connected(url) as connection:
        statements = floor_statements(rows, ordered=False)
        start.wait(_STARTING_SECONDS)
        began = now()
        for statement, values in statements:
            connection.execute(statement, values)
        done.put(_done(began))


def _done(began: Cost) -> Done:
    ended = now()
    return began.wall, ended.wall, (ended - began).cpu
