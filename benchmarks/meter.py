"""Costs, and how two of them are compared.

Processor time is what is compared. Time by the clock says more about the disk than about the code: the same code took
1.9 times as long as the floor on a disk that syncs in 2 ms, and 5 times as long on one that syncs in 0.15 ms.

A pass measures ours between two floors, so whatever else loads the machine loads both, and what changes slowly cancels
out. The ratio is the median of the ratios of the passes, not the ratio of two medians.
"""

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by the clock, and seconds of the processor in all threads of the process."""

    wall: float
    cpu: float

    def __sub__(self, earlier: "Cost") -> "Cost":
        return Cost(self.wall - earlier.wall, self.cpu - earlier.cpu)


@dataclass(frozen=True, slots=True)
class Pair:
    """One pass: what ours cost, and what the least that does the same work cost before and after it, on average."""

    ours: Cost
    floor: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Medians over the passes, in milliseconds for one unit of work, and the ratios of processor time.

    `cpu_ratio` is the median of the ratios of the passes, `cpu_range` the lowest and the highest of them.
    """

    wall_ms: float
    cpu_ms: float
    floor_wall_ms: float
    floor_cpu_ms: float
    cpu_ratio: float
    cpu_range: tuple[float, float]


@dataclass(slots=True)
class Stopwatch:
    """Holds the cost once its block has ended."""

    cost: Cost = field(default_factory=lambda: Cost(0.0, 0.0))


@contextmanager
def stopwatch() -> Generator[Stopwatch, None, None]:
    """Measure the block. What was garbage before it is collected before the clock starts."""
    gc.collect()
    watch = Stopwatch()
    began = now()
    yield watch
    watch.cost = now() - began


def now() -> Cost:
    """Return the readings of both clocks, of which only differences mean something."""
    return Cost(time.perf_counter(), time.process_time())


def between(before: Cost, after: Cost) -> Cost:
    """Return the mean of a floor that ran before ours and one that ran after it."""
    return Cost((before.wall + after.wall) / 2, (before.cpu + after.cpu) / 2)


def compared(pairs: Sequence[Pair], units: int = 1) -> Compared:
    """Return the medians of the passes for one of `units` units of work. Raises `ValueError` without a pass."""
    if not pairs:
        msg = "there is no pass to compare"
        raise ValueError(msg)
    per_unit = 1000 / units
    ratios = [pair.ours.cpu / pair.floor.cpu for pair in pairs]
    return Compared(
        wall_ms=median(pair.ours.wall for pair in pairs) * per_unit,
        cpu_ms=median(pair.ours.cpu for pair in pairs) * per_unit,
        floor_wall_ms=median(pair.floor.wall for pair in pairs) * per_unit,
        floor_cpu_ms=median(pair.floor.cpu for pair in pairs) * per_unit,
        cpu_ratio=median(ratios),
        cpu_range=(min(ratios), max(ratios)),
    )


def progress(what: str) -> None:
    """Say on stderr what is measured now."""
    print(f"measuring {what}", file=sys.stderr, flush=True)


@contextmanager
def keeping_bytecode(*, afresh: bool = True) -> Generator[dict[str, str], None, None]:
    """Yield an environment for Python processes that compile each module once, as they do where it is installed.

    What they compile is kept in a folder that goes when the block ends, whatever this process keeps; or, unless it is
    to be compiled `afresh`, where this process keeps it.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if not afresh and "PYTHONPYCACHEPREFIX" in environment:
        yield environment
        return
    with tempfile.TemporaryDirectory() as folder:
        yield {**environment, "PYTHONPYCACHEPREFIX": folder}


def run_process(
    command: Sequence[str], *, accept: Sequence[int] = (0,), environment: Mapping[str, str] | None = None
) -> tuple[Cost, str]:
    """Run a command to its end; return what it cost from its start, its own processor time, and what it printed.

    Raises `RuntimeError` with what it said on stderr when its exit status is not one of `accept`.
    """
    with tempfile.TemporaryFile("w+") as errors:
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as process:
            assert process.stdout is not None
            printed = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            wall = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read()
    if process.returncode not in accept:
        msg = f"{' '.join(command)} ended with {process.returncode}: {said.strip()[-2000:]}"
        raise RuntimeError(msg)
    return Cost(wall, used.ru_utime + used.ru_stime), printed
