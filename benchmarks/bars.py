"""The bars that Steptrail sets itself, beside what was measured: held, missed, or not measured."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.results import Results, StoreResults

__all__ = ["Bar", "bars", "bars_table"]


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise: `measured` must not be above `limit`. `measured` is nothing where it could not be measured."""

    what: str
    unit: str
    limit: float
    measured: float | None

    @property
    def held(self) -> bool | None:
        """Whether it was held; nothing when it was not measured."""
        return None if self.measured is None else self.measured <= self.limit


def bars(results: Results) -> list[Bar]:
    """Return every bar with what was measured for it."""
    importing = results.importing
    sqlite, postgres = results.store("SQLite"), results.store("PostgreSQL")
    return [
        *(_of_sqlite(sqlite) if sqlite is not None else ()),
        Bar(
            "a durable step on PostgreSQL, against the same rows in the same order",
            "x",
            2.5,
            None if postgres is None else postgres.at(1_000).time.wall_ratio,
        ),
        Bar("`import steptrail`, beyond starting Python", "ms", 200, importing.import_ms),
        Bar("drivers, servers and databases that the import loads", "modules", 0, len(importing.heavy)),
        Bar("a dashboard's question over 100,000 executions (there is no read model for it yet)", "ms", 50, None),
    ]


def bars_table(found: list[Bar]) -> list[list[str]]:
    """Return the lines of the table, its head first."""
    words = {True: "yes", False: "NO", None: "not measured"}
    lines = [["bar", "limit", "measured", "held?"]]
    for bar in found:
        measured = "-" if bar.measured is None else _figure(bar.measured, bar.unit)
        lines.append([bar.what, f"<= {_figure(bar.limit, bar.unit)}", measured, words[bar.held]])
    return lines


def _of_sqlite(store: StoreResults) -> Iterator[Bar]:
    usual, longest, growth = store.at(1_000), store.longest, store.growth
    kept = (usual.file_bytes - usual.content_bytes) / 1000
    run = f"runs of {usual.steps:,} steps"
    yield Bar(f"processor time of a durable step, {run}", "ms", 0.3, usual.time.cpu_ms)
    yield Bar(f"time of a durable step against plain sqlite3, {run}", "x", 2.0, usual.time.wall_ratio)
    late = f"late steps against early ones in a run of {longest.steps:,}"
    yield Bar(f"time: {late}", "x", 1.2, None if growth is None else growth.wall_ratio)
    yield Bar(f"processor time: {late}", "x", 1.2, None if growth is None else growth.cpu_ratio)
    yield Bar(f"bytes: {late}", "x", 1.05, None if growth is None else growth.bytes_ratio)
    yield Bar(f"file for a step beyond its content, {run}", "KB", 2.5, kept)
    yield Bar("syncs for a step with one tool", "syncs", 2.1, None if store.syncs is None else store.syncs.a_step)
    yield Bar(
        f"fold of {longest.steps:,} steps against reading and parsing the rows", "x", 5.0, longest.folding.wall_ratio
    )
    yield Bar(
        f"processor time to fold an event: {longest.steps:,} steps against {usual.steps:,}",
        "x",
        1.2,
        longest.folding.cpu_ms / usual.folding.cpu_ms,
    )
    resumed = f"a killed run of {store.resume.steps:,} steps goes on"
    yield Bar(f"{resumed}, once everything is imported", "ms", 30, store.resume.after_import_ms)
    yield Bar(f"{resumed}, from the start of a process", "ms", 400, store.resume.process.wall_ms)


def _figure(value: float, unit: str) -> str:
    exact = unit in {"modules"} or value >= 100
    text = f"{value:.0f}" if exact else f"{value:.2f}"
    return f"{text}x" if unit == "x" else f"{text} {unit}"
