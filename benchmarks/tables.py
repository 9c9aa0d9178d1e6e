"""The results as Markdown that also reads well in a terminal."""

from collections.abc import Iterator, Sequence

from benchmarks.bars import bars, bars_table
from benchmarks.meter import Compared
from benchmarks.results import Results, StoreResults

__all__ = ["markdown", "table"]

Line = Sequence[str]


def table(lines: Sequence[Line]) -> str:
    """Return lines as a table, the first one its head; every column is as wide as its widest cell."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    head, *rest = (
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
    return "\n".join([head, "| " + " | ".join("-" * width for width in widths) + " |", *rest])


def markdown(results: Results, *, plot: str | None = None) -> str:
    """Return the whole report; `plot` is the name of the picture beside it."""
    return "\n\n".join(_sections(results, plot)) + "\n"


def _sections(results: Results, plot: str | None) -> Iterator[str]:
    yield "# What a durable step costs"
    yield (
        f"Medians of {results.plan.passes} passes. A ratio is the median of the ratios of the passes: in each, the "
        "floor ran right after ours. How to read this, and what is not measured: [README](../README.md)."
    )
    yield table([["machine", ""], *([name, value] for name, value in results.machine.items())])
    if plot is not None:
        yield f"![What a step costs over the length of a run]({plot})"
    for store in results.stores:
        yield from _of_store(store)
    for name, why in results.absent.items():
        yield f"## {name}"
        yield f"Not measured: {why}"
    yield from _importing(results)
    yield "## Bars"
    yield table(bars_table(bars(results)))


def _of_store(store: StoreResults) -> Iterator[str]:
    yield f"## {store.name}"
    yield "Settings: " + ", ".join(f"{name} {value}" for name, value in store.settings.items()) + "."
    yield "A step, with all votes:"
    head = ["steps in a run", *_HEAD, "votes at a decision", "events", "commits"]
    yield table(
        [
            head,
            *(
                [f"{f.steps:,}", *_compared(f.time), str(f.votes), f"{f.events:.2f}", f"{f.commits:.2f}"]
                for f in store.steps
            ),
        ]
    )
    yield "Bytes a step:"
    yield table(
        [
            ["steps in a run", "content", "stored events", "on the disk", "on the disk beyond the content"],
            *(
                [
                    f"{f.steps:,}",
                    f"{f.content_bytes:.0f}",
                    f"{f.state_bytes:.0f}",
                    f"{f.file_bytes:.0f}",
                    f"{f.file_bytes - f.content_bytes:.0f}",
                ]
                for f in store.steps
            ),
        ]
    )
    if store.growth is not None:
        grown = store.growth
        yield (
            f"Growth in a run of {grown.steps:,} steps, late against early: time {grown.wall_ratio:.2f}x, "
            f"processor time {grown.cpu_ratio:.2f}x, bytes {grown.bytes_ratio:.3f}x."
        )
    if store.syncs is not None:
        yield f"Syncs a step: {store.syncs.a_step:.2f} ({store.syncs.how}, {store.syncs.steps:,} steps)."
    yield "Folding one event, against reading its row and parsing it:"
    yield table([["steps in the session", *_HEAD], *([f"{f.steps:,}", *_compared(f.folding)] for f in store.steps)])
    resume = store.resume
    yield f"A new process takes up a killed run of {resume.steps:,} steps, against one that reads and parses its rows:"
    yield table(
        [[*_HEAD, "after the import, ms"], [*_compared(resume.process), f"{resume.after_import_ms:.0f}"]],
    )
    yield "Sessions at once in one process, for one step:"
    yield table(
        [
            ["sessions", "steps in each", *_HEAD, "steps a second", "commits a sync"],
            *(
                [
                    str(f.sessions),
                    f"{f.steps:,}",
                    *_compared(f.time),
                    f"{f.steps_a_second:,.0f}",
                    "-" if f.commits_a_sync is None else f"{f.commits_a_sync:.1f}",
                ]
                for f in store.sessions
            ),
        ]
    )


def _importing(results: Results) -> Iterator[str]:
    importing = results.importing
    yield "## Importing"
    yield "`import steptrail` in a fresh process, against `python -c pass`:"
    yield table([[*_HEAD, "the import, ms"], [*_compared(importing.process), f"{importing.import_ms:.0f}"]])
    packages = ", ".join(f"{name} {count}" for name, count in importing.packages.items())
    heavy = ", ".join(importing.heavy) or "none"
    yield f"Modules it loads: {packages}. Drivers, servers and databases among them: {heavy}."


_HEAD = ("time, ms", "floor, ms", "ratio", "processor, ms", "floor's processor, ms", "ratio of processor")


def _compared(figures: Compared) -> Line:
    return [
        _ms(figures.wall_ms),
        _ms(figures.floor_wall_ms),
        f"{figures.wall_ratio:.2f}x",
        _ms(figures.cpu_ms),
        _ms(figures.floor_cpu_ms),
        f"{figures.cpu_ratio:.2f}x",
    ]


def _ms(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3f}"
