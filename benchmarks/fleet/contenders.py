"""Who carries sessions on, and how one pass of it is measured."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.meter import Cost
from benchmarks.peers.catalogue import PEERS
from benchmarks.peers.environments import NotInstalled, installed_versions, python_of
from benchmarks.postgres_place import PostgresPlace, connected

FLOOR = "the rows of Steptrail, written by as many processes"

_ROOT = Path(__file__).parents[2]
_LOOK_SECONDS = 0.01
_LONGEST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Condition:
    """So many workers on so many sessions of so many steps each, with commits that last `commit_ms` longer."""

    workers: int
    sessions: int
    steps: int
    commit_ms: int

    @property
    def total(self) -> int:
        """The steps of all sessions."""
        return self.sessions * self.steps


@dataclass(slots=True)
class Contender:
    """One line of the table. `done` asks the database how many sessions have ended; empty for the floor."""

    name: str
    script: tuple[str, ...] = ()
    done: str = ""
    version: str = ""
    python: Path = Path(sys.executable)
    failed: str | None = None
    found: dict[Condition, list[Cost]] = field(default_factory=dict[Condition, list[Cost]])


def contenders(environments: Path | None) -> list[Contender]:
    """Return the floor, Steptrail, and DBOS, which is installed below `environments`; with None there is no DBOS."""
    done = "SELECT count(*) FROM steptrail.streams WHERE status = 'completed'"
    ours = [Contender(FLOOR), Contender("Steptrail, work", ("benchmarks.fleet.run_steptrail", "work"), done)]
    return ours if environments is None else [*ours, _queue(environments)]


def _queue(environments: Path) -> Contender:
    dbos = next(peer for peer in PEERS if peer.name == "dbos")
    done = "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"
    queue = Contender("DBOS, a queue", ("benchmarks.fleet.run_dbos", "queue"), done)
    try:
        queue.python = python_of(dbos, environments)
        queue.version = installed_versions(dbos, queue.python)
    except NotInstalled as error:
        queue.failed = f"does not install: {error}"
    return queue


def carry_on(contender: Contender, condition: Condition, place: PostgresPlace) -> Cost:
    """Fill the database with sessions, and let workers carry them on.

    The time begins when all workers are told to begin, and ends when the database says that the last session has ended.
    Processor time is that of the workers. Raises `RuntimeError` when one of them fails or it takes too long.
    """
    filling = _command(contender, "fill", condition, place, 0)
    if subprocess.run(filling, cwd=_ROOT, env=_environment(contender)).returncode:
        msg = f"{contender.name}: the sessions could not be started"
        raise RuntimeError(msg)
    with working(contender, condition, place) as workers, connected(place.url) as database:
        began = time.perf_counter()
        while database.execute(contender.done).fetchone()[0] < condition.sessions:
            if time.perf_counter() - began > _LONGEST_SECONDS or any(worker.poll() is not None for worker in workers):
                msg = f"{contender.name}: a worker has died, or it took more than {_LONGEST_SECONDS:.0f} s"
                raise RuntimeError(msg)
            time.sleep(_LOOK_SECONDS)
        wall = time.perf_counter() - began
        for worker in workers:
            _tell(worker)
        return Cost(wall, sum(json.loads(_said(contender, worker))["cpu"] for worker in workers))


@contextmanager
def working(
    contender: Contender, condition: Condition, place: PostgresPlace
) -> Generator[Sequence["subprocess.Popen[str]"], None, None]:
    """Yield the workers of a contender, which have just begun. Raises `RuntimeError` when one of them dies."""
    workers = [
        subprocess.Popen(
            _command(contender, "work", condition, place, number),
            cwd=_ROOT,
            env=_environment(contender),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(condition.workers)
    ]
    try:
        for worker in workers:
            _said(contender, worker)
        for worker in workers:
            _tell(worker)
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


def _command(contender: Contender, what: str, condition: Condition, place: PostgresPlace, number: int) -> list[str]:
    sizes = (str(condition.sessions), str(condition.steps), str(number))
    return [str(contender.python), "-m", *contender.script, what, place.url, *sizes]


def _environment(contender: Contender) -> dict[str, str]:
    # What leads to our own code must not lead into the environment of another library.
    is_ours = contender.python == Path(sys.executable)
    return {name: value for name, value in os.environ.items() if is_ours or name != "PYTHONPATH"}


def _tell(worker: "subprocess.Popen[str]") -> None:
    assert worker.stdin is not None
    worker.stdin.write("\n")
    worker.stdin.flush()


def _said(contender: Contender, worker: "subprocess.Popen[str]") -> str:
    assert worker.stdout is not None
    if line := worker.stdout.readline():
        return line
    msg = f"{contender.name}: a worker has died"
    raise RuntimeError(msg)
