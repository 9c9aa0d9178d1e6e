"""The rows of runs say what the machine says of any life, however the log is cut, delivered or forgotten."""

from hypothesis import given, strategies as st

from steptrail.projections.runs_view import RunsView
from tests.harness.projecting import entries, joined_log, projected
from tests.harness.runs_view_audit import (
    agrees_with_the_agent,
    fits_its_tables,
    is_the_sum_of_its_rows,
    refers_to_what_is_there,
)
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives

STREAM = f"agent:{SESSION}"


@examples(150)
@given(lives())
def test_the_rows_of_an_agent_are_what_the_machine_says(life: Life) -> None:
    agrees_with_the_agent(SESSION, life.committed, projected(RunsView(), entries(STREAM, life.committed)))


@examples(60)
@given(lives(), st.data())
def test_the_rows_are_right_at_every_place_of_the_log(life: Life, data: st.DataObject) -> None:
    records = life.committed[: data.draw(st.integers(0, len(life.committed)))]
    agrees_with_the_agent(SESSION, records, projected(RunsView(), entries(STREAM, records)))


@examples(80)
@given(lives(forks=True), lives())
def test_rows_fit_their_tables_and_sums_are_those_of_the_rows(life: Life, other: Life) -> None:
    log = joined_log({STREAM: life.committed, "agent:other": other.committed})
    tables = projected(RunsView(), log)
    fits_its_tables(tables)
    refers_to_what_is_there(tables)
    # A fork is counted from version 1 again, so its instants are those of its own events.
    is_the_sum_of_its_rows(tables, {(entry.stream, entry.record.version): entry.record.at for entry in log})


@examples(80)
@given(lives(forks=True), lives(), st.data())
def test_cuts_lost_memories_and_repeats_change_nothing(life: Life, other: Life, data: st.DataObject) -> None:
    turns = iter(data.draw(st.lists(st.sampled_from([STREAM, "agent:other"]), max_size=200)))
    log = joined_log({STREAM: life.committed, "agent:other": other.committed}, turns)
    whole = projected(RunsView(), log)
    broken = projected(
        RunsView(),
        log,
        batches=lambda: data.draw(st.integers(1, 30)),
        goes_back=lambda place: data.draw(st.integers(0, place)),
        forgets=lambda stream: data.draw(st.integers(0, 9)) == 0,
    )
    assert broken.whole() == whole.whole()
