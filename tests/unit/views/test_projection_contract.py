"""The contract of projections holds for one that keeps it, and notices those that do not."""

from collections.abc import Sequence
from typing import Any

import pytest

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.runs_view.view import RunsView
from steptrail.testing.projection_contract import ProjectionContract, project, sample_log
from steptrail.testing.store_samples import Noted
from tests.golden import flows, streams
from tests.views.counting import NOTES, TOTALS, Counting, Seen

AGENTS = sorted(streams.FOLDER.glob("*.jsonl"))[:12]
FLOWS = sorted(flows.FOLDER.glob("*.jsonl"))[:8]


def sample() -> list[LogEntry]:
    return sample_log(
        {
            "agent:a": [Noted(number=number) for number in (1, 2, 0, 1, 0, 5, 6)],
            "agent:b": [Noted(number=number, text="x") for number in (7, 1, 0, 9)],
            "flow:c": [Noted(number=1)],
        }
    )


class TestCounting(ProjectionContract):
    @pytest.fixture
    def projection(self) -> Counting:
        return Counting()

    @pytest.fixture
    def log(self) -> Sequence[LogEntry]:
        return sample()


class CountsAcrossStreams(Counting):
    """Remembers beside its folds."""

    seen = 0

    def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
        self.seen += 1
        fold.notes = self.seen
        return super().apply(fold, entry, changes)


class WrongKind(Counting):
    """Writes a text where a number belongs, or what it does not list."""

    def __init__(self, row: Any) -> None:
        super().__init__()
        self._row = row

    def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
        changes.put(NOTES, self._row)
        return fold


class CountsBatches(Counting):
    """Makes a row at the end of a batch that tells how many batches there were."""

    def end_batch(self, fold: Seen, changes: Changes) -> None:
        fold.notes += 1
        super().end_batch(fold, changes)


CHECKS = ProjectionContract()


def test_a_row_that_tells_where_batches_end_is_noticed() -> None:
    with pytest.raises(AssertionError):
        CHECKS.test_the_cuts_of_batches_change_nothing(CountsBatches(), sample(), 2)


def test_what_is_remembered_beside_the_folds_is_noticed() -> None:
    with pytest.raises(AssertionError):
        CHECKS.test_a_memory_that_is_lost_changes_nothing(CountsAcrossStreams(), sample(), 1)


@pytest.mark.parametrize(
    "row",
    [
        {"stream": "a", "number": "1", "version": 1},
        {"stream": "a", "number": True, "version": 1},
        {"stream": "a", "number": None, "version": 1},
        {"stream": "a", "number": 2**63, "version": 1},
        {"stream": "a", "number": 1, "version": 1, "more": 1},
    ],
)
def test_a_row_that_does_not_fit_is_noticed(row: Any) -> None:
    with pytest.raises(AssertionError):
        CHECKS.test_what_it_writes_fits_its_tables_after_each_entry(WrongKind(row), sample())


@pytest.mark.parametrize(
    ("key", "amounts"),
    [
        (("odd",), {"notes": 1, "sum": 1.5}),
        (("odd",), {"notes": True, "sum": 1}),
        (("odd",), {"sum": 2**62}),
        ((7,), {"sum": 1}),
        ((None,), {"sum": 1}),
        (("odd", "even"), {"sum": 1}),
    ],
)
def test_what_is_added_and_does_not_fit_is_noticed(key: Any, amounts: Any) -> None:
    class Adds(Counting):
        def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
            changes.add(TOTALS, key, amounts)
            return fold

    with pytest.raises(AssertionError):
        CHECKS.test_what_it_writes_fits_its_tables_after_each_entry(Adds(), sample())


@pytest.mark.parametrize("key", [("a", "1"), ("a",), ("a", None)])
def test_a_key_to_drop_that_does_not_fit_is_noticed(key: Any) -> None:
    class Drops(Counting):
        def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
            changes.drop(NOTES, key)
            return fold

    with pytest.raises(AssertionError):
        CHECKS.test_what_it_writes_fits_its_tables_after_each_entry(Drops(), sample())


def test_tables_that_are_not_listed_and_rows_of_sums_are_noticed() -> None:
    class Elsewhere(Counting):
        tables = (TOTALS,)

    class PutsSums(Counting):
        def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
            changes.put(TOTALS, {"parity": "odd", "notes": 1, "sum": 1})
            return fold

    for wrong in (Elsewhere(), PutsSums()):
        with pytest.raises(AssertionError):
            project(wrong, sample())


class TestRunsView(ProjectionContract):
    """The read model of runs keeps it, over the golden streams."""

    @pytest.fixture
    def projection(self) -> RunsView:
        return RunsView()

    @pytest.fixture
    def log(self) -> Sequence[LogEntry]:
        agents = {f"agent:{path.stem}": [each.event for each in streams.read(path)] for path in AGENTS}
        runs = {f"flow:{path.stem}": [each.event for each in flows.read(path)] for path in FLOWS}
        return sample_log({**agents, **runs})
