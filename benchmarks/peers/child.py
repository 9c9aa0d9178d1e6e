"""What every script here shares: its command line, the clocks, and the one line of JSON with which it ends.

Standard library only: each script runs in the environment of its peer.
"""

import argparse
import ctypes
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.meter import Cost, stopwatch
from benchmarks.texts import warm


class Task(argparse.Namespace):
    """What a script is asked for: a variant, steps in each session, sessions at once, an empty folder for its files.

    For a workflow, steps are runs one after another, and sessions are how many such chains of runs there are at once.
    """

    variant: str
    steps: int
    sessions: int
    folder: Path


@dataclass(slots=True)
class Figures:
    """What a run cost, how often it synced (None where nobody counts), and the bytes that it left on the disk."""

    cost: Cost = field(default_factory=lambda: Cost(0.0, 0.0))
    syncs: int | None = None
    bytes: int = 0


def script(measure: Callable[[Task], Figures]) -> None:
    """Do what the command line asks for with `measure`, and print its figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("variant")
    parser.add_argument("steps", type=int)
    parser.add_argument("sessions", type=int)
    parser.add_argument("folder", type=Path)
    task = parser.parse_args(namespace=Task())
    warm(task.steps)
    found = measure(task)
    print(json.dumps({"wall": found.cost.wall, "cpu": found.cost.cpu, "syncs": found.syncs, "bytes": found.bytes}))


@contextmanager
def watched() -> Generator[Figures, None, None]:
    """Measure the block. Its figures have no bytes: files are counted when they are closed."""
    figures, before = Figures(), _syncs()
    with stopwatch() as watch:
        yield figures
    after = _syncs()
    figures.cost = watch.cost
    figures.syncs = None if before is None or after is None else after - before


def file_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _syncs() -> int | None:
    """Return how often this process and those that it started have synced; None without `slow_sync.c` in it."""
    try:
        count = ctypes.CDLL(None).steptrail_syncs
    except AttributeError:
        return None
    count.restype = ctypes.c_long
    found: int = count()
    return found
