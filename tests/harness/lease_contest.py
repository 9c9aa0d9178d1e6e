"""Processes that take a few leases from each other and are killed while they do: of each lease there is one owner.

An owner leaves a file as its witness while it holds a lease. Whoever is granted that lease and finds the witness of a
process that lives has found a second owner.
"""

import asyncio
import os
import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steptrail.domain.errors import SessionBusy
from steptrail.infrastructure.store.opening import open_store
from steptrail.testing.crash import Ledger
from tests.harness.pids import is_running
from tests.harness.worker_pool import WorkerPool

_STREAMS = ("agent:a", "agent:b", "agent:c")
_BETWEEN_KILLS = 0.06
_LONGEST_HELD = 0.004
_DYING_SECONDS = 5.0
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class LeaseContest:
    """How many leases were granted, how many processes were killed, and what was seen of second owners."""

    granted: int
    kills: int
    second_owners: list[str]


def contest_for_leases(pool: WorkerPool, url: str, folder: Path, *, seed: int, kills: int) -> LeaseContest:
    """Let four processes loose on the leases of a store, kill and replace one after another, and say what was seen."""
    draw = random.Random(seed)  # noqa: S311 - chooses victims and moments
    workers = [pool.start(_contend, url, folder, seed + n) for n in range(4)]
    killed = 0
    for blow in range(kills):
        time.sleep(draw.uniform(0.0, _BETWEEN_KILLS))
        victim = draw.randrange(len(workers))
        killed += workers[victim].killed()
        workers[victim] = pool.start(_contend, url, folder, seed + 10 + blow)
    (folder / "over").touch()
    for worker in workers:
        worker.end(_PATIENCE).answer()
    ledger = _ledger(folder)
    second_owners = [each.effect for each in ledger.entries() if each.what == "second owner"]
    return LeaseContest(ledger.counts()["granted"], killed, second_owners)


def _ledger(folder: Path) -> Ledger:
    return Ledger(folder / "leases.jsonl")


def _contend(url: str, folder: Path, seed: int) -> None:
    """Take leases and give them back until the contest is over. Two tasks do, so that one process holds two leases."""

    async def take_turns(draw: random.Random) -> None:
        store = open_store(url)
        while not (folder / "over").exists():
            stream = draw.choice(_STREAMS)
            try:
                lease = await store.acquire(stream, owner=f"process {os.getpid()}")
            except SessionBusy:
                await asyncio.sleep(0.0005)
                continue
            with _witness(folder, stream):
                _ledger(folder).write("granted", stream)
                await asyncio.sleep(draw.uniform(0.0, _LONGEST_HELD))
            if draw.random() < 0.02:
                await store.close()
                store = open_store(url)
            else:
                await lease.release()
        await store.close()

    async def both() -> None:
        await asyncio.gather(take_turns(random.Random(seed)), take_turns(random.Random(seed + 1000)))  # noqa: S311

    asyncio.run(both())


@contextmanager
def _witness(folder: Path, stream: str) -> Generator[None]:
    """Stand for the owner of a lease; say so when another one already does."""
    path = folder / f"owner-of-{stream.replace(':', '-')}"
    while True:
        try:
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if other := _still_living(path):
                _ledger(folder).write("second owner", f"{stream}: {os.getpid()} beside {other}")
                yield
                return
            path.unlink(missing_ok=True)
        else:
            break
    os.write(file, str(os.getpid()).encode())
    os.close(file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _still_living(path: Path) -> str:
    """Return the process of a witness if it lives; an empty text if it is dead or the witness has gone.

    A process that is being killed has let go of its locks before it is seen to be dead, so it is given some time.
    """
    until = time.monotonic() + _DYING_SECONDS
    pid = ""
    while time.monotonic() < until:
        try:
            pid = path.read_text()
        except FileNotFoundError:
            return ""
        if not pid or not is_running(int(pid)):
            return ""
        time.sleep(0.002)
    return pid
