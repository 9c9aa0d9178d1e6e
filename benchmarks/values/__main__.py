"""`python -m benchmarks.values`: measures the three forms and prints the tables."""

import argparse
import platform
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.meter import progress
from benchmarks.tables import table
from benchmarks.values.forms import FORMS, Sample, samples
from benchmarks.values.measures import OPERATIONS, Ratio, checks, imports, memory, times
from benchmarks.values.traps import BAD_JSON, BAD_VALUES, complaint, fate

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.values", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="measure next to nothing, to see that it works")
    smoke: bool = parser.parse_args(arguments).smoke
    with tempfile.TemporaryDirectory() as scratch:
        found = samples(Path(scratch))
    for section in _sections(found, passes=1 if smoke else 41, starts=1 if smoke else 21, held=10 if smoke else 2_000):
        print(section + "\n")


def _sections(found: Sequence[Sample], *, passes: int, starts: int, held: int) -> Iterator[str]:
    versions = ", ".join(f"{name} {version(name)}" for name in ("pydantic", "pydantic-core", "msgspec", "orjson"))
    yield f"Python {platform.python_version()}, {versions}; medians of {passes} passes, quartiles in brackets."
    head = ["", *(form.name for form in FORMS)]
    for operation in OPERATIONS:
        progress(operation)
        lines = [[sample.type, *map(_told, times(sample, operation, passes))] for sample in found]
        yield f"## {operation}: microseconds, and part of the first form's time\n\n" + table([head, *lines])
    progress("memory")
    lines = [[sample.type, *(f"{taken:,.0f}" for taken in memory(sample, held))] for sample in found]
    yield "## memory: bytes a decoded event\n\n" + table([head, *lines])
    progress("checks")
    lines = [[name, _told(ratio)] for name, (ratio,) in checks(passes).items()]
    yield "## checks of a constructor: microseconds\n\n" + table([["", "msgspec"], *lines])
    progress("imports")
    lines = [[name, f"{mid:.1f} ({low:.1f}-{high:.1f})"] for name, (mid, low, high) in imports(starts).items()]
    yield "## import: milliseconds of processor time beyond `pass`\n\n" + table([["", "ms"], *lines])
    lines = [[label, *(fate(form, value) for form in FORMS)] for label, value in BAD_VALUES.items()]
    yield "## what a tool may return\n\n" + table([head, *lines])
    lines = [[label, *(complaint(form, *bad) for form in FORMS)] for label, bad in BAD_JSON.items()]
    yield "## what a row may hold\n\n" + table([head, *lines])


def _told(ratio: Ratio) -> str:
    low, high = ratio.quartiles
    return f"{ratio.microseconds:.2f} = {ratio.ratio:.2f} ({low:.2f}-{high:.2f})"


if __name__ == "__main__":
    main()
