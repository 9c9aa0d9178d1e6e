"""Runs a projection over a log in memory, by the rules of a runner of one: batches, a place, a memory that is lost."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Key, Row, Table


class Tables:
    """What has been written: the rows of each table by key."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[Key, Row]] = {}

    def write(self, changes: Changes) -> None:
        """Write the changes of one batch."""
        for table, rows in changes.rows.items():
            kept = self.rows.setdefault(table.name, {})
            for key, row in rows.items():
                if row is None:
                    kept.pop(key, None)
                else:
                    kept[key] = dict(row)
        for table, sums in changes.sums.items():
            kept = self.rows.setdefault(table.name, {})
            for key, amounts in sums.items():
                zeros = dict.fromkeys((column.name for column in table.amounts), 0)
                before = kept.get(key, {**dict(zip(table.key, key, strict=True)), **zeros})
                kept[key] = {**before, **{name: _int(before[name]) + amount for name, amount in amounts.items()}}

    def of(self, table: Table) -> list[Row]:
        """Return the rows of a table, in the order of their keys."""
        return [row for _, row in sorted(self.rows.get(table.name, {}).items())]

    def whole(self) -> Mapping[str, Mapping[Key, Row]]:
        """Return all rows, without tables that are empty."""
        return {name: rows for name, rows in self.rows.items() if rows}


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def entries(stream: str, records: Iterable[Recorded[Any]], first: int = 1) -> list[LogEntry]:
    """Return the records of one stream as a log that holds nothing else."""
    return [LogEntry(first + place, stream, record) for place, record in enumerate(records)]


def joined_log(streams: Mapping[str, Sequence[Recorded[Any]]], turns: Iterator[str] | None = None) -> list[LogEntry]:
    """Return a log of several streams: in turn, or as `turns` names them until it ends."""
    left = {stream: list(records) for stream, records in streams.items()}
    order = turns if turns is not None else iter(())
    log: list[LogEntry] = []
    while any(left.values()):
        name = next(order, None)
        stream = name if name is not None and left.get(name) else next(each for each, rest in left.items() if rest)
        log.append(LogEntry(len(log) + 1, stream, left[stream].pop(0)))
    return log


def projected_in_pieces(view: Projection[Any], log: Sequence[LogEntry], data: st.DataObject) -> Tables:
    """Return what a projection writes of a log that comes in pieces, partly twice, with memories that are lost."""
    return projected(
        view,
        log,
        batches=lambda: data.draw(st.integers(1, 30)),
        goes_back=lambda place: data.draw(st.integers(0, place)),
        forgets=lambda _: data.draw(st.integers(0, 9)) == 0,
    )


def projected(
    view: Projection[Any],
    log: Sequence[LogEntry],
    *,
    batches: Callable[[], int] = lambda: 1_000_000,
    goes_back: Callable[[int], int] = lambda place: 0,
    forgets: Callable[[str], bool] = lambda stream: False,
) -> Tables:
    """Return what a projection writes.

    `batches` gives the length of the next batch, and `goes_back` by how many entries it begins too early. `forgets`
    tells before each entry whether the memory of its stream is lost: then it is made again, and what that writes is
    thrown away.
    """
    tables, folds, place = Tables(), dict[str, Any](), 0
    while place < len(log):
        start = max(0, place - goes_back(place))
        changes = Changes()
        end = min(len(log), place + max(1, batches()))
        for entry in log[start:end]:
            if entry.position <= place:
                continue
            if forgets(entry.stream):
                folds.pop(entry.stream, None)
            if entry.stream not in folds:
                folds[entry.stream] = _again(view, log, entry)
            folds[entry.stream] = view.apply(folds[entry.stream], entry, changes)
        for stream in {entry.stream for entry in log[start:end] if entry.position > place}:
            view.end_batch(folds[stream], changes)
        tables.write(changes)
        place = end
    return tables


def _again(view: Projection[Any], log: Sequence[LogEntry], until: LogEntry) -> Any:
    fold = view.begin(until.stream)
    for entry in log:
        if entry.position >= until.position:
            break
        if entry.stream == until.stream:
            fold = view.apply(fold, entry, Changes())
    return fold
