"""`make bench`: measures, writes the results, and ends with the bars."""

import argparse
import asyncio
import gc
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import orjson

from benchmarks.bars import bars, bars_table
from benchmarks.code import describe_code
from benchmarks.importing import measure_imports
from benchmarks.machine import describe_machine
from benchmarks.meter import keeping_bytecode
from benchmarks.plot import draw
from benchmarks.results import Plan, Results, StoreResults, measure_store
from benchmarks.servers import NoServer, open_postgres
from benchmarks.several import Fleet
from benchmarks.sqlite_place import SqliteSite
from benchmarks.tables import markdown, table

SMOKE = Plan(
    passes=1,
    sizes=(3, 12),
    least_steps=6,
    resume_steps=3,
    sync_steps=3,
    sessions=(1, 2),
    session_steps=4,
    waiting=(2,),
    waiting_steps=1,
    waiting_seconds=0.1,
    followers=2,
    follower_steps=2,
    audience_steps=2,
    listed=20,
    open_sessions=2,
    index_steps=3,
    asked_runs=40,
    audited=3,
    audited_steps=4,
    projected=4,
    projected_steps=2,
    beside_turns=1,
    beside_steps=3,
    chains=(3, 6, 12),
    fan=20,
    fleets=(Fleet(2, 1, 2),),
    commit_ms=(1,),
)
"""Enough to see that every measurement still works; its figures say nothing."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write `bench.json`, `bench.md` and `bench.svg`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="measure next to nothing, to see that it works")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    parser.add_argument("--scratch", type=Path, help="folder on the disk to measure (default: in the one of results)")
    given = parser.parse_args(arguments)
    if given.smoke:
        # Looking for garbage among all that is imported, before each measurement, takes longer than the measurements.
        gc.freeze()
    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    # Not the folder for temporary files, which may be memory: a sync would cost nothing there.
    scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=given.scratch or out))
    try:
        with keeping_bytecode(afresh=not given.smoke) as environment:
            results = asyncio.run(_measured(scratch, SMOKE if given.smoke else Plan(), environment))
    finally:
        shutil.rmtree(scratch)
    found = bars(results)
    written = {"bars": [{**asdict(bar), "held": bar.held} for bar in found], **asdict(results)}
    (out / "bench.json").write_bytes(orjson.dumps(written, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    draw(results, out / "bench.svg")
    (out / "bench.md").write_text(markdown(results, plot="bench.svg"), encoding="utf-8")
    for name, why in results.absent.items():
        print(f"{name} was not measured: {why}\n")
    print(table(bars_table(found)))


async def _measured(scratch: Path, plan: Plan, environment: Mapping[str, str]) -> Results:
    code, machine = describe_code(), describe_machine(scratch)
    here = SqliteSite(scratch)
    importing = await measure_imports(here, plan.passes, environment)
    stores: list[StoreResults] = [await measure_store(here, plan, environment)]
    absent: dict[str, str] = {}
    try:
        async with open_postgres() as site:
            stores.append(await measure_store(site, plan, environment))
    except NoServer as error:
        absent["PostgreSQL"] = str(error)
    return Results(code=code, machine=machine, plan=plan, importing=importing, stores=stores, absent=absent)


if __name__ == "__main__":
    main()
