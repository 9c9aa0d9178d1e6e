"""The contract of projections, as a pytest class: the same rows however the log is cut, delivered and forgotten.

It needs no database: derive from it and give it the projection and a sample log with several streams.

    class TestMine(ProjectionContract):
        @pytest.fixture
        def projection(self):
            return Mine()

        @pytest.fixture
        def log(self):
            return sample_log({"agent:a": [first, second], "agent:b": [third]})
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise, zip_longest
from typing import Any

import pytest

from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.record import Recorded
from steptrail.infrastructure.views.database import Unfit
from steptrail.infrastructure.views.fitting import check_tables, keys_to_drop, rows_to_put, sums_to_add
from steptrail.infrastructure.views.fold_memory import FoldMemory
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Key, Scalar, Table
from steptrail.testing.store_samples import AT


class TablesInMemory:
    """The rows of all tables of a projection, as a database would have them."""

    def __init__(self, projection: Projection[Any]) -> None:
        self.rows: dict[str, dict[Key, dict[str, Scalar]]] = {table.name: {} for table in projection.tables}
        self._projection = projection

    def write(self, changes: Changes) -> None:
        """Apply what a batch changes. Fails for what no database would take."""
        try:
            self._check(changes)
        except Unfit as error:
            raise AssertionError(str(error)) from error
        for table, rows in changes.rows.items():
            for key, row in rows.items():
                if row is None:
                    self.rows[table.name].pop(key, None)
                else:
                    self.rows[table.name][key] = _with_room(
                        table, {each.name: row[each.name] for each in table.columns}
                    )
        for table, sums in changes.sums.items():
            for key, amounts in sums.items():
                whole = self.rows[table.name].get(key) or dict.fromkeys([each.name for each in table.amounts], 0)
                added = {name: int(whole[name] or 0) + amount for name, amount in amounts.items()}
                self.rows[table.name][key] = _with_room(table, {**whole, **added})

    def _check(self, changes: Changes) -> None:
        """Raise `Unfit` for what the runner refuses."""
        check_tables(self._projection, changes.rows, changes.sums)
        for table, rows in changes.rows.items():
            keys_to_drop(table, [key for key, row in rows.items() if row is None])
            rows_to_put(table, [row for row in rows.values() if row is not None], with_none=True)
        for table, sums in changes.sums.items():
            sums_to_add(table, sums)


def sample_log(streams: Mapping[str, Sequence[Event]]) -> list[LogEntry]:
    """Return a log in which the streams take turns, a second apart."""
    turns = zip_longest(*([(stream, event) for event in events] for stream, events in streams.items()))
    versions = dict.fromkeys(streams, 0)
    log: list[LogEntry] = []
    for stream, event in (each for turn in turns for each in turn if each is not None):
        versions[stream] += 1
        position = len(log) + 1
        log.append(LogEntry(position, stream, Recorded(versions[stream], AT + position * 1_000_000, event)))
    return log


def project(
    projection: Projection[Any],
    log: Sequence[LogEntry],
    *,
    batch: int = 1_000_000,
    forget_every: int = 0,
    again: int = 0,
) -> TablesInMemory:
    """Return what a projection makes of a log, by the rules of the runner.

    It gets batches of so many entries, and each begins with so many that it had before, which the place that is kept
    with the rows leaves out. Its memory is lost after every so many batches, as when the process is killed.
    """
    tables = TablesInMemory(projection)
    for _ in _batches(projection, log, tables, batch=batch, forget_every=forget_every, again=again):
        pass
    return tables


def _batches(
    projection: Projection[Any],
    log: Sequence[LogEntry],
    tables: TablesInMemory,
    *,
    batch: int,
    first: int | None = None,
    forget_every: int = 0,
    again: int = 0,
) -> Iterator[int]:
    """Write batch after batch into the tables, and yield after each how many entries they hold.

    `first` is the size of the first batch, for cuts that fall at other places; None makes it as large as the others.
    """
    memory, place = FoldMemory(projection), 0
    wanted = [each for each in log if _is_for(projection, each)]
    starts = [0, *range(batch if first is None else first, len(wanted), batch)] if wanted else []
    for number, (start, end) in enumerate(pairwise([*starts, len(wanted)]), 1):
        delivered = wanted[max(0, start - again) : end]
        changes, left = Changes(), iter([each for each in delivered if each.position > place])
        place = delivered[-1].position
        while (entry := memory.fold(left, changes)) is not None:
            past = [each for each in wanted if each.stream == entry.stream and each.position < entry.position]
            memory.refold(entry.stream, past)
            left = chain((entry,), left)
        memory.end_batch(changes)
        tables.write(changes)
        yield end
        if forget_every and number % forget_every == 0:
            memory.forget()


class ProjectionContract:
    """Every projection keeps it. `log` is a sample of at least two streams and ten entries of its types."""

    @pytest.fixture
    def projection(self) -> Projection[Any]:
        """The projection to try."""
        raise NotImplementedError

    @pytest.fixture
    def log(self) -> Sequence[LogEntry]:
        """A sample of what it reads."""
        raise NotImplementedError

    def test_the_sample_says_something(self, projection: Projection[Any], log: Sequence[LogEntry]) -> None:
        assert len([each for each in log if _is_for(projection, each)]) >= 10
        assert len({each.stream for each in log}) >= 2
        assert any(project(projection, log).rows.values())

    def test_what_it_writes_fits_its_tables_after_each_entry(
        self, projection: Projection[Any], log: Sequence[LogEntry]
    ) -> None:
        project(projection, log, batch=1)

    def test_it_makes_the_same_rows_again(self, projection: Projection[Any], log: Sequence[LogEntry]) -> None:
        assert project(projection, log).rows == project(projection, log).rows

    @pytest.mark.parametrize("batch", [2, 3, 7])
    def test_the_cuts_of_batches_change_nothing(
        self, projection: Projection[Any], log: Sequence[LogEntry], batch: int
    ) -> None:
        # At every place: what the end of a batch writes must not tell where that was, and the next may put it right.
        # First batches of each size move the cuts over all places, in one pass each.
        singly = TablesInMemory(projection)
        rows: dict[int, Mapping[str, Mapping[Key, object]]] = {0: {table.name: {} for table in projection.tables}}
        for place in _batches(projection, log, singly, batch=1):
            rows[place] = {table: dict(each) for table, each in singly.rows.items()}
        for first in range(1, min(batch + 1, len(rows))):
            cut = TablesInMemory(projection)
            for place in _batches(projection, log, cut, batch=batch, first=first):
                assert cut.rows == rows[place], f"the rows after {place} entries, with batches of {first}, then {batch}"
        assert project(projection, log).rows == rows[max(rows)]

    @pytest.mark.parametrize("batch", [1, 3])
    def test_a_memory_that_is_lost_changes_nothing(
        self, projection: Projection[Any], log: Sequence[LogEntry], batch: int
    ) -> None:
        assert project(projection, log, batch=batch, forget_every=1).rows == project(projection, log).rows

    @pytest.mark.parametrize("batch", [1, 3])
    def test_what_is_delivered_twice_changes_nothing(
        self, projection: Projection[Any], log: Sequence[LogEntry], batch: int
    ) -> None:
        twice = project(projection, log, batch=batch, forget_every=2, again=5)
        assert twice.rows == project(projection, log).rows


def _is_for(projection: Projection[Any], entry: LogEntry) -> bool:
    is_of_kind = not projection.prefixes or entry.stream.startswith(tuple(projection.prefixes))
    return is_of_kind and (not projection.types or entry.record.event.TYPE in projection.types)


def _with_room(table: Table, row: dict[str, Scalar]) -> dict[str, Scalar]:
    for name, value in row.items():
        assert not isinstance(value, int) or -(2**63) <= value < 2**63, f"{table.name}.{name} has no room for {value}"
    return row
