"""Read models say what the machine says, at every version of every life."""

import math

from hypothesis import given, strategies as st

from steptrail.domain.agent.events import ExecutionFinished, SessionScored
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.standing import standing, summary
from steptrail.projections import (
    explain,
    project_agent_state,
    project_execution_time,
    project_stop_reasons,
)
from steptrail.projections.runs_view.tables import EXECUTIONS
from steptrail.projections.runs_view.view import RunsView
from tests.harness.projecting import entries, projected
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives

some = examples(80)


@some
@given(lives(), st.data())
def test_the_state_at_any_version_is_the_state_of_the_machine_there(life: Life, data: st.DataObject) -> None:
    version = data.draw(st.integers(0, len(life.committed)))
    running = evolve_all(initial(SESSION), life.committed[:version])
    assert project_agent_state(SESSION, life.committed, at=version) == running
    assert project_agent_state(SESSION, life.committed) == life.stored


@some
@given(lives())
def test_the_active_time_is_the_one_that_the_machine_counts(life: Life) -> None:
    for state in life.states()[1:]:
        times = project_execution_time(life.committed[: state.version])
        if state.execution_id is not None:
            counted = times[state.execution_id].cumulative_seconds
            assert math.isclose(counted, state.cumulative_execution_seconds, abs_tol=1e-4), state.version


@some
@given(lives())
def test_the_stop_reasons_are_those_of_the_machine(life: Life) -> None:
    stops = project_stop_reasons(life.committed)
    versions = [record.version for record in life.committed if isinstance(record.event, ExecutionFinished)]
    assert [stop.version for stop in stops] == versions
    for stop in stops:
        state = project_agent_state(SESSION, life.committed, at=stop.version)
        outcome = state.last_continuation_outcome
        assert outcome is not None
        assert stop.execution_id == state.execution_id
        assert (stop.status, stop.stop_reason) == (state.status, state.stop_reason)
        assert stop.resolved_by == outcome.resolved_by


@some
@given(lives())
def test_a_row_that_is_written_when_the_standing_changes_is_never_late(life: Life) -> None:
    row, before = summary(initial(SESSION)), standing(initial(SESSION))
    for state in life.states()[1:]:
        stands = standing(state)
        if stands != before:
            row, before = summary(state), stands
        now = summary(state)
        assert not row.differences(now)
        assert (now.name, now.status, now.executions) == (state.name, state.status, state.fold.executions)
        assert (now.steps, now.cost) == (state.step_count, state.cost)
        assert now.stop_reason == (state.stop_reason.value if state.stop_reason else None)
        if not state.is_open:
            assert row == now or not row.is_open


@some
@given(lives(), st.data())
def test_why_says_of_an_execution_what_its_row_says(life: Life, data: st.DataObject) -> None:
    records = life.committed[: data.draw(st.integers(2, len(life.committed)))]
    rows = projected(RunsView(), entries(f"agent:{SESSION}", records)).of(EXECUTIONS)
    # A score moves no row, so it is asked as of the event before.
    now = next(record.at for record in reversed(records) if not isinstance(record.event, SessionScored))
    said = explain(SESSION, records, now=now)
    if rows:
        told, spent, row = said.to_dict(), said.spent, rows[-1]
        named = (told["status"], told["stopReason"], told["answered"])
        assert named == (row["status"], row["stop_reason"], row["answered"])
        assert row["ended_at"] is None or told["resolvedBy"] == row["resolved_by"]
        counted = (spent.steps, spent.failed_steps, spent.tool_calls, spent.tokens, round(spent.wall_seconds * 1e6))
        assert counted == tuple(row[name] for name in ("steps", "errors", "tool_calls", "tree_tokens", "wall_us"))
