"""Kills without a name: contests, tides, take-overs and runs killed at random moments, as long as one likes.

A random moment meets what no fault point names: the inside of a write, of a lease, of the database. The moments come
from a seed, but what they hit depends on the machine, so what was found wrong is kept: the log, and the ledger.
"""

import asyncio
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from steptrail.runtime.kernel.ids import new_id
from steptrail.testing.crash import Ledger
from tests.harness.contention import Arena, Contest, contend, disturb, judge
from tests.harness.crash_audit import Finding, Log, audit, read_log, undisturbed
from tests.harness.crash_workload import VARIANTS, Workload, go
from tests.harness.store_urls import with_short_leases
from tests.harness.tailing import Shore, read_along, write_along
from tests.harness.tailing_audit import Tide, judge_tide, stored
from tests.harness.take_overs import Struggle, struggle
from tests.harness.worker_pool import Worker, WorkerPool

_LOOK_SECONDS = 0.02
_HANGS_SECONDS = 600.0


class Survivor(NamedTuple):
    """A session that came to its end, how often its process was killed before, and what that shows."""

    workload: Workload
    kills: int
    finding: Finding


def contest(pool: WorkerPool, url: str, folder: Path, *, contenders: int = 8, inputs: int, messages: int) -> Contest:
    """Let `contenders` processes run one session while another sends messages and stops; say what became of it."""
    session = new_id("contest")
    arena = Arena(url, session, Ledger(folder / f"{session}.jsonl"))
    names = [f"contender{number}" for number in range(contenders)]
    workers = [*(pool.start(contend, arena, name, inputs) for name in names)]
    workers.append(pool.start(disturb, arena, "ninth", messages))
    for worker in workers:
        worker.end(_HANGS_SECONDS).answer()
    said = [f"{name}-{number}" for name in names for number in range(inputs)]
    said += [f"ninth-{number}" for number in range(messages)]
    return judge(arena.ledger.entries(), asyncio.run(read_log(url, session)), said)


def random_kills(pool: WorkerPool, url: str, folder: Path, *, sessions: int, kills: int, seed: int) -> list[Survivor]:
    """Run sessions of all effect classes in turn, each killed up to `kills` times at random moments, to their end."""
    url = with_short_leases(url)
    draw = random.Random(seed)  # noqa: S311 - chooses moments
    began = time.monotonic()
    wholes = {variant: asyncio.run(undisturbed(url, folder, variant)) for variant in VARIANTS}
    longest = (time.monotonic() - began) / len(wholes)
    workloads = [Workload.new(url, folder, VARIANTS[number % len(VARIANTS)]) for number in range(sessions)]
    survivors: list[Survivor] = []
    at_once = os.cpu_count() or 1
    for start in range(0, sessions, at_once):
        batch = workloads[start : start + at_once]
        left: dict[str, list[Log]] = {workload.session: [] for workload in batch}
        for _ in range(kills):
            running = [(workload, pool.start(go, workload)) for workload in batch]
            for workload, worker in running:
                time.sleep(draw.uniform(0.0, longest))
                is_in_time = worker.killed()
                # How long a run takes changes with what else the machine does: who comes too late comes earlier next.
                longest *= 1.1 if is_in_time else 0.7
                if is_in_time:
                    left[workload.session].append(asyncio.run(read_log(url, workload.session)))
        for workload in batch:
            ending = pool.run(go, workload).answer()
            after, before = asyncio.run(read_log(url, workload.session)), left[workload.session]
            finding = audit(workload, before, after, ending, wholes[workload.variant])
            survivors.append(Survivor(workload, len(before), finding))
    return survivors


def take_overs(pool: WorkerPool, url: str, folder: Path, *, minutes: float, seed: int) -> Iterator[Struggle]:
    """Yield what became of one session after another that six processes took from each other, for so long."""
    url = with_short_leases(url)
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        yield struggle(pool, url, folder, seed=seed)
        seed += 1


def tide(
    pool: WorkerPool,
    url: str,
    folder: Path,
    *,
    events: int,
    kills: int,
    seed: int,
    writers: int = 8,
    readers: int = 3,
    sessions: int = 24,
) -> tuple[Tide, int]:
    """Append at least `events` events while readers follow; kill writers and readers on the way and start them again.

    Return what that shows, and how many processes were really killed.
    """
    draw = random.Random(seed)  # noqa: S311 - chooses victims and moments
    shore = Shore.with_sessions(url, folder, sessions)
    each = events // writers + 1
    writing, reading = ([f"{kind}{n}" for n in range(count)] for kind, count in (("w", writers), ("r", readers)))

    def begin(name: str) -> Worker[None]:
        return pool.start(write_along, shore, name, each) if name in writing else pool.start(read_along, shore, name)

    workers = {name: begin(name) for name in (*writing, *reading)}
    killed = 0
    for number in range(1, kills + 1):
        while _told(shore, writing) < events * number / (kills + 1):
            time.sleep(_LOOK_SECONDS)
        time.sleep(draw.uniform(0.0, _LOOK_SECONDS))
        victim = draw.choice(writing if number % 3 else reading)
        killed += workers[victim].killed()
        workers[victim] = begin(victim)
    for name in writing:
        workers[name].end(_HANGS_SECONDS).answer()
    log = asyncio.run(stored(shore))
    # Readers look for the file at any moment: it is there with what it says, or not at all.
    written = shore.end.with_suffix(".new")
    written.write_text(str(max(seen.position for seen in log)), encoding="utf-8")
    written.replace(shore.end)
    for name in reading:
        workers[name].end(_HANGS_SECONDS).answer()
    return judge_tide(shore, log, writing, reading), killed


def _told(shore: Shore, writers: Sequence[str]) -> int:
    notes = [shore.acknowledged(writer) for writer in writers]
    return sum(path.read_bytes().count(b"\n") for path in notes if path.exists())
