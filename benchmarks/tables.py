"""The results as Markdown that also reads well in a terminal."""

from collections.abc import Iterator, Sequence

from benchmarks.bars import bars, bars_table
from benchmarks.importing import ImportFigures
from benchmarks.meter import Compared
from benchmarks.results import Results, StoreResults

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
    code = ", ".join(f"{name} {value}" for name, value in results.code.items())
    yield (
        f"Figures of {code}. Medians of {results.plan.passes} passes. A ratio is of processor time, and the median of "
        "the ratios of the passes: in each, ours ran between two floors. How to read this, and what is not measured: "
        "[README](../README.md)."
    )
    yield "## Bars"
    yield table(bars_table(bars(results)))
    yield "## Machine"
    yield table([["machine", ""], *([name, value] for name, value in results.machine.items())])
    if plot is not None:
        yield f"![What a step costs over the length of a run]({plot})"
    for store in results.stores:
        yield from _of_store(store)
    for name, why in results.absent.items():
        yield f"## {name}"
        yield f"Not measured: {why}"
    yield from _importing(results.importing)


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
            f"Growth in a run of {grown.steps:,} steps, late against early: processor time {grown.cpu_ratio:.2f}x, "
            f"time {grown.wall_ratio:.2f}x, bytes {grown.bytes_ratio:.3f}x."
        )
    if store.syncs is not None:
        yield f"Syncs a step: {store.syncs.a_step:.2f} ({store.syncs.how}, {store.syncs.steps:,} steps)."
    yield "Folding one event, against reading its row and parsing it:"
    yield table([["steps in the session", *_HEAD], *([f"{f.steps:,}", *_compared(f.folding)] for f in store.steps)])
    resume = store.resume
    yield f"A new process takes up a killed run of {resume.steps:,} steps, against one that reads and parses its rows:"
    yield table(
        [
            [*_HEAD, "after the import: processor, ms", "time, ms"],
            [*_compared(resume.process), f"{resume.after_import_cpu_ms:.1f}", f"{resume.after_import_ms:.1f}"],
        ],
    )
    yield "Sessions at once in one process, for one step; the floor writes their commits one after another:"
    yield table(
        [
            ["sessions", "steps in each", *_HEAD, _RATE, "commits a sync"],
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

    yield "Sessions that wait in a model call, in one process:"
    yield table(
        [
            ["sessions", "steps in each", "of one core", "memory of one, KB"],
            *(
                [
                    str(f.sessions),
                    str(f.steps),
                    f"{f.core_percent:.2f}%",
                    "-" if f.kilobytes is None else f"{f.kilobytes:.0f}",
                ]
                for f in store.waiting
            ),
        ]
    )
    beside = store.followers
    yield f"A step beside {beside.followers} followers of sessions at rest, against a step without them:"
    yield table([_HEAD, _compared(beside.time)])
    audience = store.audience
    yield (
        f"A step beside {audience.followers} followers of the run's own session, each of which is handed every event, "
        f"against a step without them ({audience.delivery_us:.1f} µs of the processor for an event to one of them):"
    )
    yield table([_HEAD, _compared(audience.time)])
    yield "Lists, asked of a store that is open:"
    yield table(
        [
            ["list", "sessions in the store", "rows", "processor, ms", "time, ms"],
            *([f.what, f"{f.sessions:,}", str(f.rows), f"{f.cpu_ms:.2f}", f"{f.wall_ms:.2f}"] for f in store.lists),
        ]
    )
    first = store.what_ifs[0]
    yield f"A what-if over {first.runs:,} runs of {first.steps} steps, in one process:"
    yield table(
        [
            ["other settings", "processor, s", "time, s"],
            *([f.what, f"{f.cpu_s:.2f}", f"{f.wall_s:.2f}"] for f in store.what_ifs),
        ]
    )
    yield "A step with its row in the index of streams, against a step without:"
    yield table([_HEAD, _compared(store.index.time)])
    yield from _of_views(store)
    yield from _of_workflows(store)
    if store.several:
        yield (
            "Several processes on one database, for one step; processor time is that of all clients together. The "
            "floor takes no lock, so it promises no order:"
        )
        yield table([["processes", "sessions in each", "commit", *_HEAD, _RATE, f"floor, {_RATE}"], *_fleets(store)])


def _of_views(store: StoreResults) -> Iterator[str]:
    many = store.answers[0].runs
    yield f"Questions over the views of {many:,} runs, the {_SLOWEST} slowest of {len(store.answers)}:"
    slowest = sorted(store.answers, key=lambda figures: -max(figures.wall_ms, figures.first_ms))[:_SLOWEST]
    yield table(
        [
            ["question", "rows", "first call, ms", "time, ms"],
            *([f.what, f"{f.rows:,}", _ms(f.first_ms), _ms(f.wall_ms)] for f in slowest),
        ]
    )
    made = store.projector
    yield (
        f"The projector, for one event of {made.events:,}, against reading the log, parsing it as JSON, and plain "
        f"inserts of the {made.rows:,} rows that it leaves; and against the inserts alone:"
    )
    yield table([_HEAD, _compared(made.time), _compared(made.inserts)])
    beside = store.beside
    yield "An append, while another process builds the views at full speed, and while none does; ms by the clock:"
    yield table(
        [
            ["appends", "alone, half", "alone, 99 %", "beside, half", "beside, 99 %"],
            [
                f"{beside.appends:,}",
                _ms(beside.alone_median_ms),
                _ms(beside.alone_p99_ms),
                _ms(beside.beside_median_ms),
                _ms(beside.beside_p99_ms),
            ],
        ]
    )


def _of_workflows(store: StoreResults) -> Iterator[str]:
    step = store.at(1_000).time.cpu_ms
    yield "A node of a workflow, in a chain of functions that answer at once; a step is that of an agent:"
    head = ["nodes in a chain", *_HEAD, "of a step", "bytes on the disk", "events", "commits", "fold of all, ms"]
    yield table(
        [
            head,
            *(
                [
                    f"{f.nodes:,}",
                    *_compared(f.time),
                    f"{f.time.cpu_ms / step:.2f}x",
                    f"{f.file_bytes:.0f}",
                    f"{f.events:.2f}",
                    f"{f.commits:.2f}",
                    _ms(f.fold_ms),
                ]
                for f in store.chains
            ),
        ]
    )
    yield "A fan-out over a concurrency of 8; memory is the peak of one of twice the size against this one:"
    yield table(
        [
            [
                "fan-out",
                "of",
                "what happens",
                "it ends",
                "failures",
                "at once at most",
                "processor for each, ms",
                "memory",
            ],
            *(
                [
                    f"{f.size:,}",
                    f.shape,
                    f.what,
                    f.status,
                    str(f.recorded),
                    str(f.at_most),
                    _ms(f.cpu_ms),
                    "-" if f.memory_ratio is None else f"{f.memory_ratio:.2f}x",
                ]
                for f in store.fans
            ),
        ]
    )


def _fleets(store: StoreResults) -> Iterator[Line]:
    for f in store.several:
        yield [
            str(f.fleet.processes),
            str(f.fleet.sessions),
            f"{f.commit_ms} ms longer" if f.commit_ms else "as it is",
            *_compared(f.time),
            f"{f.steps_a_second:,.0f}",
            f"{f.floor_steps_a_second:,.0f}",
        ]


def _importing(importing: Sequence[ImportFigures]) -> Iterator[str]:
    yield "## Importing"
    yield "Fresh processes, against `python -c 'import asyncio, sqlite3, json'`:"
    yield table(
        [
            ["program", "beyond the floor: processor, ms", *_HEAD, "modules", "of them pydantic, drivers, servers"],
            *(
                [
                    f"`{f.what}`",
                    f"{f.beyond_ms:.0f}",
                    *_compared(f.process),
                    str(len(f.modules)),
                    ", ".join(f.heavy) or "none",
                ]
                for f in importing
            ),
        ]
    )
    for f in importing:
        packages = ", ".join(f"{name} {count}" for name, count in f.packages.items())
        yield f"Modules that `{f.what}` loads: {packages}."


_HEAD = ("processor, ms", "floor's processor, ms", "ratio", "of the passes", "time, ms", "floor's time, ms")
_RATE = "steps a second"
_SLOWEST = 20


def _compared(figures: Compared) -> Line:
    lowest, highest = figures.cpu_range
    return [
        _ms(figures.cpu_ms),
        _ms(figures.floor_cpu_ms),
        f"{figures.cpu_ratio:.2f}x",
        f"{lowest:.2f} to {highest:.2f}",
        _ms(figures.wall_ms),
        _ms(figures.floor_wall_ms),
    ]


def _ms(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3f}"
