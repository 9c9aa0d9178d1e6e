"""Whenever rows of runs are pruned, and however the log is cut: they are those of a fresh fold without what is old."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, strategies as st

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.infrastructure.views.generation import Generation, Reached
from steptrail.infrastructure.views.sqlite import SqliteSeries
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.table import Scalar
from steptrail.projections.runs_view.view import RunsView
from steptrail.testing.scenario import SECOND, START
from tests.harness.projecting import joined_log
from tests.profile import examples
from tests.properties.driving import lives

VIEW = RunsView()
Tables = Mapping[str, Sequence[Sequence[Scalar]]]


def fill(generation: Generation, batches: Sequence[Sequence[LogEntry]], prunes: Mapping[int, int]) -> Tables:
    """Apply batches of a log, prune after those that are named, and return the rows of all tables."""
    generation.database.write(lambda statements: generation.prepare(statements, [VIEW]))
    folds, place = {stream: VIEW.begin(stream) for batch in batches for _, stream, _ in batch}, 0
    for number, batch in enumerate(batches):
        changes = Changes()
        for entry in batch:
            folds[entry.stream] = VIEW.apply(folds[entry.stream], entry, changes)
        for stream in {entry.stream for entry in batch}:
            VIEW.end_batch(folds[stream], changes)
        after = batch[-1].position
        generation.write(VIEW, place, Reached(position=after), changes)
        place = after
        if (before := prunes.get(number)) is not None:
            generation.prune(VIEW, before, most=1)
    last = max(prunes.values(), default=0)
    while last and generation.prune(VIEW, last, most=100):
        pass
    return generation.database.read(
        lambda statements: {table.name: [*generation.rows(statements, table)] for table in VIEW.tables}
    )


@examples(25)
@given(st.data())
def test_rows_that_are_pruned_at_any_time_are_those_of_a_fresh_fold(data: st.DataObject) -> None:
    life, other = data.draw(lives()), data.draw(lives())
    log = joined_log({"agent:a": life.committed, "agent:b": other.committed})
    instants = st.integers(START, max(entry.record.at for entry in log) + SECOND)
    batches: list[Sequence[LogEntry]] = []
    left: Sequence[LogEntry] = log
    while left:
        many = data.draw(st.integers(1, 40))
        batches.append(left[:many])
        left = left[many:]
    prunes = data.draw(st.dictionaries(st.integers(0, len(batches) - 1), instants, min_size=1, max_size=3))
    with TemporaryDirectory() as folder:
        series = SqliteSeries(Path(folder), patience=5.0)
        live = fill(series.begin(), batches, prunes)
        fresh = fill(series.begin(), [log], {0: max(prunes.values())})
        series.close()
    assert live == fresh
