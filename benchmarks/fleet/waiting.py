"""What very many sessions that wait for a person cost workers, their engine and the database while nothing happens.

Shares of one core, with no session and with all of them in the database, each for workers that look themselves and for
workers that an engine wakes. A session that waits is stored as often as that, as the commits of one real session.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fleet.contenders import Condition, Contender, working
from benchmarks.listing import asking, store_again
from benchmarks.meter import progress
from benchmarks.postgres_place import PostgresPlace, PostgresSite, connected
from steptrail import Steptrail

_TICKS = os.sysconf("SC_CLK_TCK")
_WAYS = ("work", "woken")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFigures:
    """Workers beside sessions that wait: shares of a core in percent, and what the engine holds and did in that time.

    `server_percent` is None where the server is on another machine.
    """

    way: str
    workers: int
    sessions: int
    worker_percent: float
    server_percent: float | None
    transactions_a_second: float
    jobs: int
    wakes: int


async def measure_idle(site: PostgresSite, workers: int, sessions: int, seconds: float) -> Sequence[IdleFigures]:
    """Measure each way with no session and with so many, for so many seconds each."""
    found: list[IdleFigures] = []
    for way in _WAYS:
        for number in (0, sessions):
            progress(f"{workers} workers ({way}) beside {number:,} sessions that wait")
            place = site.fresh()
            try:
                await _filled(place, number)
                found.append(_measured(place, way, workers, number, seconds))
            finally:
                place.remove()
    return found


async def _filled(place: PostgresPlace, sessions: int) -> None:
    async with Steptrail.open(place.url, durability="normal") as trail:
        if sessions:
            await store_again(trail, sessions, asking(1))


def _measured(place: PostgresPlace, way: str, workers: int, sessions: int, seconds: float) -> IdleFigures:
    contender = Contender(f"Steptrail, {way}", ("benchmarks.fleet.run_steptrail", way))
    with working(contender, Condition(workers, sessions, 1, 0), place) as running, connected(place.url) as database:
        if sessions:
            database.execute("VACUUM ANALYZE")
        time.sleep(min(5.0, seconds))  # what a worker does at its beginning
        processes = [worker.pid for worker in running]
        began, spent, served = time.perf_counter(), _spent(processes), _spent(_backends(database))
        done, woken = _transactions(database), _wakes(database)
        time.sleep(seconds)
        wall = time.perf_counter() - began
        return IdleFigures(
            way=way,
            workers=workers,
            sessions=sessions,
            worker_percent=100 * (sum(_spent(processes).values()) - sum(spent.values())) / wall / workers,
            server_percent=_grown(served, _spent(_backends(database)), wall),
            transactions_a_second=(_transactions(database) - done) / wall,
            jobs=_jobs(database),
            wakes=_wakes(database) - woken,
        )


def _backends(database: Any) -> list[int]:
    statement = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    return [pid for (pid,) in database.execute(statement).fetchall()]


def _spent(processes: Sequence[int]) -> dict[int, float]:
    """Return the seconds of the processor that each of these has taken; without those that are not on this machine."""
    found: dict[int, float] = {}
    for process in processes:
        stat = Path(f"/proc/{process}/stat")
        if stat.exists():
            user, system = stat.read_text().rpartition(")")[2].split()[11:13]
            found[process] = (int(user) + int(system)) / _TICKS
    return found


def _grown(before: Mapping[int, float], after: Mapping[int, float], wall: float) -> float | None:
    """Return the share of a core, in percent, of the processes that are there at the end; None where there are none."""
    grown = sum(seconds - before.get(process, 0.0) for process, seconds in after.items())
    return 100 * grown / wall if after else None


def _transactions(database: Any) -> int:
    statement = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    return int(database.execute(statement).fetchone()[0])


def _jobs(database: Any) -> int:
    return _of_engine(database, "SELECT count(*) FROM steptrail_fleet.procrastinate_jobs")


def _wakes(database: Any) -> int:
    return _of_engine(database, "SELECT sum((report::json->>'wakes')::int) FROM steptrail_fleet.fleet_workers")


def _of_engine(database: Any, statement: str) -> int:
    has_one = database.execute("SELECT to_regnamespace('steptrail_fleet') IS NOT NULL").fetchone()[0]
    return int(database.execute(statement).fetchone()[0] or 0) if has_one else 0
