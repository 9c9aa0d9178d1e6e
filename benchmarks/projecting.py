"""What the views of runs cost: their projector against the least that makes the same rows, and appends beside it.

The log is that of one real session, stored again and again. The floor reads its rows, parses each as JSON, and writes
the rows that the views hold at the end, each once and whole, into the same tables and in large transactions: it folds
nothing, and changes no row again (ADR 97).
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import quantiles

from benchmarks.listing import store_again
from benchmarks.meter import Compared, Cost, Pair, between, compared, progress, stopwatch
from benchmarks.places import Site
from benchmarks.work import agent, run, session_name
from steptrail import Steptrail
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.views.database import Statements
from steptrail.infrastructure.views.ddl import POSTGRES
from steptrail.infrastructure.views.views import Views
from steptrail.interfaces.python.views_of_runs import views_of_runs
from steptrail.projections.kernel.table import Scalar, Table
from steptrail.projections.runs_view.view import RunsView

_AT_ONCE = 5_000
"""So many rows are in one transaction of the floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectorFigures:
    """The views of a log of `events` events are built. `time` is for one event, `inserts` beside the inserts alone."""

    events: int
    rows: int
    time: Compared
    inserts: Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideFigures:
    """How long an append took, in milliseconds by the clock, while another process built views or none did."""

    appends: int
    alone_median_ms: float
    alone_p99_ms: float
    beside_median_ms: float
    beside_p99_ms: float


async def measure_projector(site: Site, sessions: int, steps: int, passes: int) -> ProjectorFigures:
    """Measure the views of so many sessions of so many steps each."""
    progress(f"{site.name}: the projector, {sessions:,} sessions of {steps} steps")
    place = site.fresh()
    try:
        async with Steptrail.open(place.url, durability="normal") as trail:
            await store_again(trail, sessions, agent(steps))
        store = open_store(place.url)
        views = views_of_runs(store)
        try:
            await views.rebuild()
            rows = await asyncio.to_thread(_rows, views)
            events = await store.last_position()
            pairs: list[Pair] = []
            beside_inserts: list[Pair] = []
            reads, writes = place.read_floor(), await asyncio.to_thread(_inserts, views, rows)
            for _ in range(passes):
                with stopwatch() as watch:
                    await views.rebuild()
                read, written = place.read_floor(), await asyncio.to_thread(_inserts, views, rows)
                beside_inserts.append(Pair(watch.cost, between(writes, written)))
                pairs.append(Pair(watch.cost, between(_both(reads, writes), _both(read, written))))
                reads, writes = read, written
        finally:
            await views.close()
            await store.close()
        many = sum(map(len, rows.values()))
        return ProjectorFigures(
            events=events, rows=many, time=compared(pairs, events), inserts=compared(beside_inserts, events)
        )
    finally:
        place.remove()


async def measure_beside(site: Site, sessions: int, steps: int, turns: int, appended: int) -> BesideFigures:
    """Measure sessions of `appended` steps beside a process that builds the views of such a log again and again.

    They take turns with sessions that nothing runs beside.
    """
    progress(f"{site.name}: appends beside a projector")
    place = site.fresh()
    try:
        async with Steptrail.open(place.url) as trail:
            await store_again(trail, sessions, agent(steps))
            alone: list[float] = []
            beside: list[float] = []
            for turn in range(turns):
                alone += await _appends(trail, appended, f"alone-{turn}")
                with subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.projecting", place.url], stdout=subprocess.PIPE, text=True
                ) as process:
                    try:
                        assert process.stdout is not None
                        # It says when it begins.
                        await asyncio.to_thread(process.stdout.readline)
                        beside += await _appends(trail, appended, f"beside-{turn}")
                    finally:
                        process.terminate()
        return BesideFigures(
            appends=len(beside),
            alone_median_ms=_percentile(alone, 50),
            alone_p99_ms=_percentile(alone, 99),
            beside_median_ms=_percentile(beside, 50),
            beside_p99_ms=_percentile(beside, 99),
        )
    finally:
        place.remove()


async def _appends(trail: Steptrail, steps: int, name: str) -> list[float]:
    """Return how long each append of a session of so many steps took, in milliseconds."""
    times: list[float] = []
    append = trail.store.append

    async def timed(*given: object) -> object:
        began = time.perf_counter()
        try:
            return await append(*given)  # type: ignore[arg-type]  # the arguments of append
        finally:
            times.append(1000 * (time.perf_counter() - began))

    setattr(trail.store, "append", timed)  # noqa: B010 - the clock stands between the runs and their store
    try:
        await run(trail, agent(steps), f"{session_name(0)}-{name}")
    finally:
        delattr(trail.store, "append")
    return times


def _percentile(times: Sequence[float], percent: int) -> float:
    return quantiles(times, n=100, method="inclusive")[percent - 1]


def _rows(views: Views) -> dict[Table, list[tuple[Scalar, ...]]]:
    """Return what the views hold, by table."""
    number = views.series.current()
    assert number is not None
    generation = views.series.open(number)
    return generation.database.read(
        lambda statements: {table: [*generation.rows(statements, table)] for table in RunsView.tables}
    )


def _both(one: Cost, other: Cost) -> Cost:
    return Cost(one.wall + other.wall, one.cpu + other.cpu)


def _inserts(views: Views, rows: dict[Table, list[tuple[Scalar, ...]]]) -> Cost:
    """Write rows into the tables of a generation that nobody looks at; return what that cost."""
    generation = views.series.begin()
    generation.database.write(lambda statements: generation.prepare(statements, [RunsView()]))
    sql = generation.database.sql
    prefix = f"steptrail_views_{generation.number}." if sql is POSTGRES else ""
    with stopwatch() as watch:
        for table, found in rows.items():
            text = f"INSERT INTO {prefix}{table.name} VALUES ({', '.join([sql.mark] * len(table.columns))})"
            for first in range(0, len(found), _AT_ONCE):
                some = found[first : first + _AT_ONCE]

                def write(statements: Statements, some: Sequence[Sequence[Scalar]] = some, text: str = text) -> None:
                    statements.change_all(text, some)

                generation.database.write(write)
    return watch.cost


def main(url: str) -> None:
    """Build the views of a store again and again, until this process is told to end."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        # The lease of a process that just dies is held for a while.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        store = open_store(url)
        views = views_of_runs(store)
        print("begins", flush=True)
        while True:
            await views.rebuild()

    with suppress(asyncio.CancelledError):
        asyncio.run(work())


if __name__ == "__main__":
    main(sys.argv[1])
