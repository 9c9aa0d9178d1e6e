"""The bars that Steptrail sets itself, beside what was measured: held, missed, or not measured and why.

They are said as processor time against the floor of the same pass. A ratio of times by the clock measures the disk, and
milliseconds measure the machine; where a bar is in milliseconds, it is because a person waits for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.importing import ImportFigures
from benchmarks.meter import Compared
from benchmarks.results import Results, StoreResults


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise: `measured` must not be above `limit`.

    `measured` is None where it could not be measured, and `absent` then says why. `spread` is the lowest and the
    highest of the passes.
    """

    what: str
    unit: str
    limit: float
    measured: float | None = None
    spread: tuple[float, float] | None = None
    absent: str | None = None

    @property
    def held(self) -> bool | None:
        """Whether it was held; None when it was not measured."""
        return None if self.measured is None else self.measured <= self.limit


def bars(results: Results) -> list[Bar]:
    """Return every bar with what was measured for it."""
    return [
        *_of_sqlite(results.store("SQLite")),
        *_of_postgres(results.store("PostgreSQL"), results.absent.get("PostgreSQL")),
        *(bar for store in results.stores for bar in (*_of_lists(store), *_of_views(store), *_of_what_ifs(store))),
        *_of_imports(results.importing),
    ]


def bars_table(found: Sequence[Bar]) -> list[list[str]]:
    """Return the lines of the table, its head first."""
    lines = [["bar", "limit", "measured", "passes", "holds?"]]
    for bar in found:
        measured = "-" if bar.measured is None else _figure(bar.measured, bar.unit)
        spread = "" if bar.spread is None else f"{bar.spread[0]:.2f} to {_figure(bar.spread[1], bar.unit)}"
        lines.append([bar.what, f"<= {_figure(bar.limit, bar.unit)}", measured, spread, held_or_not(bar)])
    return lines


def held_or_not(bar: Bar) -> str:
    """Return the word for the table: `yes`, `NO`, or that it was not measured and why."""
    if bar.held is None:
        return f"not measured: {bar.absent}" if bar.absent else "not measured"
    return "yes" if bar.held else "NO"


def _of_sqlite(store: StoreResults | None) -> Iterator[Bar]:
    if store is None:
        return
    usual, longest, growth = store.at(1_000), store.longest, store.growth
    yield _ratio(f"a durable step, runs of {usual.steps:,} steps", 3.0, usual.time)
    at_once = min((figures for figures in store.sessions if figures.sessions > 1), key=lambda figures: figures.sessions)
    yield _ratio(f"a durable step, {at_once.sessions} sessions at once", 1.5, at_once.time)
    too_short = None if growth else "the longest run is too short"
    late = f"step {longest.steps:,} against step 10"
    yield Bar(f"processor time: {late}", "x", 1.2, growth.cpu_ratio if growth else None, absent=too_short)
    yield Bar(f"bytes: {late}", "x", 1.05, growth.bytes_ratio if growth else None, absent=too_short)
    kept = (usual.file_bytes - usual.content_bytes) / 1000
    yield Bar(f"file for a step beyond its content, runs of {usual.steps:,} steps", "KB", 2.5, kept)
    uncounted = None if store.syncs else "syncs cannot be counted here"
    syncs = store.syncs.a_step if store.syncs else None
    yield Bar("syncs for a step with one tool", "syncs", 2.1, syncs, absent=uncounted)
    yield _ratio(f"fold of {longest.steps:,} steps against reading and parsing the rows", 3.0, longest.folding)
    grown = longest.folding.cpu_ms / usual.folding.cpu_ms
    yield Bar(f"processor time to fold an event, of {longest.steps:,} steps against {usual.steps:,}", "x", 1.1, grown)
    resumed = f"a killed run of {store.resume.steps:,} steps goes on: processor time"
    yield Bar(f"{resumed} once everything is imported", "ms", 20, store.resume.after_import_cpu_ms)
    yield Bar(f"{resumed} from the start of a process", "ms", 250, store.resume.process.cpu_ms)
    most = max(store.waiting, key=lambda figures: figures.sessions)
    yield Bar(f"{most.sessions} sessions that wait in a model call: of one core", "%", 0.5, most.core_percent)
    yield from _of_workflows(store)
    yield _ratio(f"a run beside {store.followers.followers} idle followers, against without", 1.1, store.followers.time)


def _of_workflows(store: StoreResults) -> Iterator[Bar]:
    short, half, long = sorted(store.chains, key=lambda figures: figures.nodes)
    of = f"of a chain of {long.nodes:,} against {short.nodes:,}"
    yield Bar(f"processor time of a node {of}", "x", 1.3, long.time.cpu_ms / short.time.cpu_ms)
    yield Bar(f"bytes of a node {of}", "x", 1.05, long.file_bytes / short.file_bytes)
    yield Bar(f"fold of {long.nodes:,} nodes against {half.nodes:,}", "x", 2.2, long.fold_ms / half.fold_ms)
    fans, size = store.fans, store.fans[0].size
    memory = max(fan.memory_ratio for fan in fans if fan.memory_ratio is not None)
    yield Bar(f"memory of a fan-out of {2 * size:,} against {size:,}", "x", 2.2, memory)
    yield Bar(f"a fan-out of {size:,} over a concurrency of 8: at once", "nodes", 8, max(fan.at_most for fan in fans))


def _of_postgres(store: StoreResults | None, absent: str | None) -> Iterator[Bar]:
    what = "a durable step on PostgreSQL, the client"
    yield Bar(what, "x", 3.5, absent=absent) if store is None else _ratio(what, 3.5, store.at(1_000).time)


def _of_imports(importing: Sequence[ImportFigures]) -> Iterator[Bar]:
    for figures in importing:
        if figures.what == "import steptrail":
            yield Bar("`import steptrail`, beyond asyncio, sqlite3 and json", "ms", 100, figures.beyond_ms)
            yield Bar("pydantic, drivers, servers and databases that it loads", "modules", 0, len(figures.heavy))


def _of_lists(store: StoreResults) -> Iterator[Bar]:
    slowest = max(store.lists, key=lambda figures: figures.wall_ms)
    what = f"`runs`, `due` and `inbox` over {slowest.sessions:,} sessions, {store.name}: the slowest"
    yield Bar(what, "ms", 50, slowest.wall_ms)


def _of_views(store: StoreResults) -> Iterator[Bar]:
    slowest = max(store.answers, key=lambda figures: figures.wall_ms)
    coldest = max(store.answers, key=lambda figures: figures.first_ms)
    over = f"a dashboard's question over {slowest.runs:,} runs, {store.name}"
    yield Bar(f"{over}: the slowest ({slowest.what})", "ms", 50, slowest.wall_ms)
    yield Bar(f"{over}: the slowest first call ({coldest.what})", "ms", 50, coldest.first_ms)
    yield _ratio(
        f"the projector against parsing the log and plain inserts of the same rows, {store.name}",
        3.0,
        store.projector.time,
    )


def _of_what_ifs(store: StoreResults) -> Iterator[Bar]:
    slowest = max(store.what_ifs, key=lambda figures: figures.wall_s)
    over = f"{slowest.runs:,} runs of {slowest.steps} steps, {store.name}"
    yield Bar(f"what-if of limits and policies over {over}: the slowest", "s", 60, slowest.wall_s)


def _ratio(what: str, limit: float, figures: Compared) -> Bar:
    return Bar(what, "x", limit, figures.cpu_ratio, figures.cpu_range)


def _figure(value: float, unit: str) -> str:
    exact = unit in {"modules", "nodes"} or value >= 100
    text = f"{value:.0f}" if exact else f"{value:.2f}"
    return f"{text}{unit}" if unit in {"x", "%"} else f"{text} {unit}"
