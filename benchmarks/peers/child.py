"""What every script here shares: its command line, and the one line of JSON with which it ends.

Standard library only: each script runs in the environment of its peer.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from benchmarks.meter import Cost
from benchmarks.texts import warm

__all__ = ["Task", "file_bytes", "script"]


class Task(argparse.Namespace):
    """What a script is asked for: a variant, how many steps, and an empty folder for its files."""

    variant: str
    steps: int
    folder: Path


def script(measure: Callable[[Task], tuple[Cost, int]]) -> None:
    """Run `measure`, which returns the cost of the run and the bytes that it left on the disk, and print both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("variant")
    parser.add_argument("steps", type=int)
    parser.add_argument("folder", type=Path)
    task = parser.parse_args(namespace=Task())
    warm(task.steps)
    cost, size = measure(task)
    print(json.dumps({"wall": cost.wall, "cpu": cost.cpu, "bytes": size}))


def file_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
