"""What is told of any life of a workflow, in rows, spans, lifecycle events and words, agrees with its state."""

from collections import Counter

from hypothesis import given, strategies as st
from pydantic_core import to_json

from steptrail.domain.flow.events import FlowForked
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.waits import kind_of
from steptrail.lifecycle import FlowAttemptEnded, FlowAttemptStarted, FlowExecutionEnded, FlowExecutionStarted
from steptrail.projections.flow_explanation import FlowExplainer
from steptrail.projections.lifecycle.flow_fold import FlowLifecycleFold
from steptrail.projections.runs_view.tables import EXECUTIONS, RESTS
from steptrail.projections.runs_view.view import RunsView
from steptrail.projections.telemetry.fold import SpanFold
from steptrail.workflow import flow_lifecycle_events
from tests.harness.projecting import entries, projected, projected_in_pieces
from tests.harness.runs_view_audit import (
    agrees_with_the_flow,
    fits_its_tables,
    is_the_sum_of_its_rows,
    refers_to_what_is_there,
)
from tests.harness.spans import hold_together, spans_of
from tests.profile import examples
from tests.properties.flow_driving import FLOW_ID, FlowLife, forked_lives, worked_lives

STREAM = f"flow:{FLOW_ID}"
WAIT = "steptrail.wait"
NO_WAITS = {"pause", "crash", "worker"}
"""The kinds of rests that are no waits."""


@examples(80)
@given(worked_lives(), st.data())
def test_rows_are_what_the_machine_says_at_every_place_of_the_log(life: FlowLife, data: st.DataObject) -> None:
    records = life.committed[: data.draw(st.integers(0, len(life.committed)))]
    log = entries(STREAM, records)
    tables = projected(RunsView(), log)
    agrees_with_the_flow(FLOW_ID, records, tables)
    fits_its_tables(tables)
    refers_to_what_is_there(tables)
    is_the_sum_of_its_rows(tables, {(STREAM, record.version): record.at for record in records})
    assert projected_in_pieces(RunsView(), log, data).whole() == tables.whole()


@examples(60)
@given(worked_lives(), st.data())
def test_a_listener_that_begins_anywhere_hears_what_the_whole_log_tells(life: FlowLife, data: st.DataObject) -> None:
    whole = flow_lifecycle_events(FLOW_ID, life.committed)
    cut = data.draw(st.integers(0, len(life.committed)))
    fold = FlowLifecycleFold(FLOW.evolve_all(FLOW.initial(FLOW_ID), life.committed[:cut]))
    heard = [event for record in life.committed[cut:] for event in fold.apply(record)]
    assert heard == [event for event in whole if event.version > cut]
    ends = sum(isinstance(event, FlowExecutionEnded) for event in whole)
    assert ends == sum(isinstance(event, FlowExecutionStarted) for event in whole)
    tries = Counter[object]()
    for event in whole:
        if isinstance(event, FlowAttemptStarted | FlowAttemptEnded):
            place = (event.execution_id, event.node, event.visit, event.item, event.attempt)
            tries[place] += 1 if isinstance(event, FlowAttemptStarted) else -1
            assert tries[place] in {0, 1}


@examples(60)
@given(worked_lives(), st.data())
def test_spans_hold_together_however_the_log_is_cut(life: FlowLife, data: st.DataObject) -> None:
    whole = spans_of(STREAM, life.committed)
    hold_together(whole)
    cut = data.draw(st.integers(0, len(life.committed)))
    fold = SpanFold(STREAM)
    assert (*fold.apply(life.committed[:cut]), *fold.apply(life.committed[cut:])) == whole
    tables = projected(RunsView(), entries(STREAM, life.committed))
    # A run that nobody took up has a segment without length.
    assert sum(span.name.startswith("invoke_workflow ") for span in whole) == sum(
        max(1, each) for row in tables.of(EXECUTIONS) if isinstance(each := row["segments"], int)
    )
    waits = [(about[WAIT], span.start, span.end) for span in whole if WAIT in (about := span.attributes)]
    rests = [(row["kind"], row["started_at"], row["ended_at"]) for row in tables.of(RESTS)]
    assert sorted(waits, key=str) == sorted((rest for rest in rests if rest[0] not in NO_WAITS), key=str)


@examples(40)
@given(forked_lives(), st.data())
def test_the_rows_and_spans_of_a_fork_hold_together_without_its_past(life: FlowLife, data: st.DataObject) -> None:
    begins = [place for place, record in enumerate(life.committed) if isinstance(record.event, FlowForked)]
    own = life.committed[max(begins, default=0) :]
    log = entries("flow:fork", own)
    tables = projected(RunsView(), log)
    fits_its_tables(tables)
    refers_to_what_is_there(tables)
    is_the_sum_of_its_rows(tables, {("flow:fork", record.version): record.at for record in own})
    assert projected_in_pieces(RunsView(), log, data).whole() == tables.whole()
    hold_together(spans_of("flow:fork", own))


@examples(60)
@given(worked_lives() | forked_lives())
def test_at_every_moment_of_a_life_it_can_be_said_why_it_is_where_it_is(life: FlowLife) -> None:
    explainer, state = FlowExplainer(FLOW_ID), FLOW.initial(FLOW_ID)
    for record in life.committed:
        explainer.add([record])
        state = FLOW.evolve_all(state, [record])
        said = explainer.explanation(now=record.at, owned=False)
        assert said.verdict
        assert to_json(said.to_dict())
        # A process may also have died as it sat out a wait.
        assert said.is_crashed is ("no process runs it" in said.verdict)
        # What was waited for may be over before the end of the wait is stored, after an answer or in a new segment.
        if state.phase is RunPhase.WAITING and any(kind_of(task) for task in state.tasks):
            assert said.waits_for
