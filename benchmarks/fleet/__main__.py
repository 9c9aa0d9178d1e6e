"""`python -m benchmarks.fleet`: workers on one PostgreSQL database, beside a queue of DBOS and the plain floor.

All sessions are there before the first worker begins, so what is measured is how much a fleet carries. In every pass
each contender runs once under each condition, in a new database; every other pass goes the other way round.
"""

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from benchmarks.code import describe_code
from benchmarks.fleet.contenders import FLOOR, Condition, Contender, carry_on, contenders
from benchmarks.fleet.waiting import IdleFigures, measure_idle
from benchmarks.machine import describe_machine
from benchmarks.meter import Cost, progress
from benchmarks.postgres_place import PostgresSite
from benchmarks.servers import open_postgres
from benchmarks.several import write_together
from benchmarks.tables import table

_IDLE_WORKERS = 2
_ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write `fleet.json` and `fleet.md`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    parser.add_argument("--workers", nargs="+", type=int, default=(1, 2, 4, 8))
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--commit-ms", nargs="+", type=int, default=(0, 2), help="by how much a commit lasts longer")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--waiting", type=int, default=100_000, help="how many sessions wait beside idle workers")
    parser.add_argument("--waiting-seconds", type=float, default=30.0, help="for how long that is looked at")
    parser.add_argument("--out", type=Path, default=_ROOT / "benchmarks" / "results")
    parser.add_argument("--alone", action="store_true", help="measure no other library")
    parser.add_argument("--environments", type=Path, default=_ROOT / ".peers")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    conditions = [
        Condition(workers, given.sessions, given.steps, delay) for delay in given.commit_ms for workers in given.workers
    ]
    found = contenders(None if given.alone else given.environments.resolve())
    settings, idle = asyncio.run(_measured(found, conditions, given))
    machine = {**describe_machine(given.out), **settings}
    text = "\n\n".join([*report(found, conditions, machine, given.passes), *report_idle(idle)]) + "\n"
    (given.out / "fleet.md").write_text(text, encoding="utf-8")
    fields = {
        "code": describe_code(),
        "machine": machine,
        "passes": given.passes,
        "contenders": _fields(found),
        "idle": [asdict(figures) for figures in idle],
    }
    (given.out / "fleet.json").write_bytes(orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    print(text)


def report(
    found: Sequence[Contender], conditions: Sequence[Condition], machine: dict[str, str], passes: int
) -> Iterator[str]:
    """Yield the parts of the report."""
    code = ", ".join(f"{name} {value}" for name, value in describe_code().items())
    of = "one pass" if passes == 1 else f"medians of {passes} passes"
    yield "# Workers on one database"
    yield (
        f"Figures of {code}: {of}. All sessions are in the database before the first worker "
        "begins; each worker carries on 8 at once. Steps a second are by the clock, until the last session has ended; "
        "processor time is that of all workers, without the server's, which has the same cores."
    )
    yield table([["machine", ""], *([name, value] for name, value in machine.items())])
    for commit_ms in dict.fromkeys(condition.commit_ms for condition in conditions):
        own = [condition for condition in conditions if condition.commit_ms == commit_ms]
        longer = f"commits that last {commit_ms} ms longer" if commit_ms else "commits as they are"
        yield f"## {own[0].sessions} sessions of {own[0].steps} steps, {longer}"
        head = ["", *(f"{each.workers} worker{'s' * (each.workers > 1)}" for each in own), "processor, ms a step"]
        yield table([head, *(_line(contender, own) for contender in found)])


def report_idle(found: Sequence[IdleFigures]) -> Iterator[str]:
    """Yield the part of the report about workers that have nothing to do."""
    if not found:
        return
    yield "## Beside sessions that wait for a person"
    yield (
        f"Shares of a core while nothing happens, {found[0].workers} workers on one database: of each worker, and of "
        "the server for all of them. `jobs` and `wakes` are the engine's: what it held, and how often it woke a worker."
    )
    head = ["workers", "sessions", "a worker", "the server", "transactions", "jobs", "wakes"]
    yield table([head, *(_idle_line(figures) for figures in found)])


def _idle_line(figures: IdleFigures) -> list[str]:
    way = "woken by procrastinate" if figures.way == "woken" else "that look themselves"
    server = "" if figures.server_percent is None else f"{figures.server_percent:.2f} %"
    counts = (f"{figures.transactions_a_second:.1f}/s", str(figures.jobs), str(figures.wakes))
    return [way, f"{figures.sessions:,}", f"{figures.worker_percent:.2f} %", server, *counts]


def _line(contender: Contender, conditions: Sequence[Condition]) -> list[str]:
    name = f"{contender.name} ({contender.version})" if contender.version else contender.name
    if contender.failed:
        return [name, contender.failed, *[""] * len(conditions)]
    speeds = [f"{median(each.total / cost.wall for cost in contender.found[each]):,.0f}/s" for each in conditions]
    spent = [median(cost.cpu / each.total for cost in contender.found[each]) * 1e3 for each in conditions]
    return [name, *speeds, f"{min(spent):.2f} to {max(spent):.2f}"]


async def _measured(
    found: Sequence[Contender], conditions: Sequence[Condition], given: argparse.Namespace
) -> tuple[dict[str, str], Sequence[IdleFigures]]:
    async with open_postgres() as site:
        for number in range(given.passes):
            for condition in conditions if number % 2 == 0 else reversed(conditions):
                _one_pass(found, condition, site, number)
        return site.settings(), await measure_idle(site, _IDLE_WORKERS, given.waiting, given.waiting_seconds)


def _one_pass(found: Sequence[Contender], condition: Condition, site: PostgresSite, number: int) -> None:
    floor = next(each for each in found if each.name == FLOOR)
    for contender in found if number % 2 == 0 else reversed(found):
        if contender is floor or contender.failed:
            continue
        progress(f"pass {number + 1}, {condition}: {contender.name}")
        place = site.fresh()
        try:
            if condition.commit_ms:
                place.slow_commits(condition.commit_ms)
            _keep(contender, condition, carry_on(contender, condition, place))
            if contender.script[0] == "benchmarks.fleet.run_steptrail":
                _keep(floor, condition, write_together(place, condition.workers))
        except RuntimeError as error:
            contender.failed = str(error)
        finally:
            place.remove()


def _keep(contender: Contender, condition: Condition, cost: Cost) -> None:
    contender.found.setdefault(condition, []).append(cost)


def _fields(found: Sequence[Contender]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "version": each.version,
            "failed": each.failed,
            "conditions": [
                {**asdict(condition), "passes": [asdict(cost) for cost in costs]}
                for condition, costs in each.found.items()
            ],
        }
        for each in found
    ]


if __name__ == "__main__":
    main()
