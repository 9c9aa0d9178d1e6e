"""Costs, and how two of them are compared.

A pass measures ours and the floor one right after the other, so whatever else loads the machine loads both. The ratio
is the median of the ratios of the passes, not the ratio of two medians.
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

__all__ = [
    "Compared",
    "Cost",
    "Pair",
    "Stopwatch",
    "compared",
    "keeping_bytecode",
    "progress",
    "run_process",
    "stopwatch",
]


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds by the clock, and seconds of the processor in all threads of the process."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One pass: what ours cost, and what the least that does the same work cost right after it."""

    ours: Cost
    floor: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Medians over the passes, in milliseconds for one unit of work, and the medians of the passes' ratios."""

    wall_ms: float
    cpu_ms: float
    floor_wall_ms: float
    floor_cpu_ms: float
    wall_ratio: float
    cpu_ratio: float


@dataclass(slots=True)
class Stopwatch:
    """Holds the cost once its block has ended."""

    cost: Cost = field(default_factory=lambda: Cost(0.0, 0.0))


@contextmanager
def stopwatch() -> Generator[Stopwatch, None, None]:
    """Measure the block. What was garbage before it is collected before the clock starts."""
    gc.collect()
    watch = Stopwatch()
    cpu, wall = time.process_time(), time.perf_counter()
    yield watch
    watch.cost = Cost(time.perf_counter() - wall, time.process_time() - cpu)


def compared(pairs: Sequence[Pair], units: int = 1) -> Compared:
    """Return the medians of the passes for one of `units` units of work. Raises `ValueError` without a pass."""
    if not pairs:
        msg = "there is no pass to compare"
        raise ValueError(msg)
    per_unit = 1000 / units
    return Compared(
        wall_ms=median(pair.ours.wall for pair in pairs) * per_unit,
        cpu_ms=median(pair.ours.cpu for pair in pairs) * per_unit,
        floor_wall_ms=median(pair.floor.wall for pair in pairs) * per_unit,
        floor_cpu_ms=median(pair.floor.cpu for pair in pairs) * per_unit,
        wall_ratio=median(pair.ours.wall / pair.floor.wall for pair in pairs),
        cpu_ratio=median(pair.ours.cpu / pair.floor.cpu for pair in pairs),
    )


def progress(what: str) -> None:
    """Tell whoever waits what is measured now."""
    print(f"measuring {what}", file=sys.stderr, flush=True)


@contextmanager
def keeping_bytecode() -> Generator[dict[str, str], None, None]:
    """Yield an environment for Python processes that compile each module once, as they do where it is installed.

    What they compile is kept in a folder that goes when the block ends, whatever this process keeps.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
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
