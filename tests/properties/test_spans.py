"""The spans of any life are the same however its log is cut, repeated or forgotten, and hold together."""

from typing import Any

from hypothesis import given, strategies as st

from steptrail.domain.agent.events import (
    ExecutionFinished,
    ExecutionResumed,
    ExecutionStarted,
    InferenceStarted,
    ToolCallDeferred,
    ToolExecutionStarted,
)
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.runs_view.tables import RESTS
from steptrail.projections.runs_view.view import RunsView
from steptrail.projections.telemetry.fold import SpanFold
from steptrail.projections.telemetry.span import Span
from steptrail.testing.scenario import SECOND, START
from tests.golden import flows
from tests.harness.canaries import CANARY, NUMBER, with_canaries
from tests.harness.projecting import entries, projected
from tests.harness.spans import hold_together, spans_of
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives
from tests.properties.stored_values import EVENTS

STREAM = f"agent:{SESSION}"
WAIT = "steptrail.wait"
NO_WAITS = {"pause", "crash", "worker"}
"""The kinds of rests that are no waits."""
RUNS = [(f"flow:{path.stem}", flows.read(path)) for path in sorted(flows.FOLDER.glob("*.jsonl"))]


def in_pieces(stream: str, records: list[Recorded[Any]], data: st.DataObject) -> list[Span]:
    """Give the log in pieces that overlap, to a fold that is lost at times and made again from the beginning."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(records)), max_size=6)) | {len(records)})
    fold, spans, begin = SpanFold(stream), list[Span](), 0
    for end in cuts:
        if data.draw(st.integers(0, 3)) == 0:
            fold, begin = SpanFold(stream), 0
        spans += fold.apply(records[data.draw(st.integers(0, begin)) : end])
        begin = end
    return spans


def told(spans: list[Span]) -> dict[str, Span]:
    """Return the spans by id, and see that a repeat is the same span."""
    by_id: dict[str, Span] = {}
    for span in spans:
        assert by_id.setdefault(span.span_id, span) == span
    return by_id


def hidden(record: Recorded[Any]) -> Recorded[Event]:
    """Return a record with a canary in place of all content."""
    return Recorded(record.version, record.at, with_canaries(record.event))


@examples(80)
@given(lives(), st.data())
def test_an_agent_has_the_same_spans_however_its_log_is_cut_repeated_or_forgotten(
    life: Life, data: st.DataObject
) -> None:
    assert told(in_pieces(STREAM, life.committed, data)) == told(list(spans_of(STREAM, life.committed)))


@examples(60)
@given(st.sampled_from(RUNS), st.data())
def test_a_workflow_has_the_same_spans_however_its_log_is_cut_repeated_or_forgotten(
    run: tuple[str, list[Recorded[Any]]], data: st.DataObject
) -> None:
    stream, records = run
    assert told(in_pieces(stream, list(records), data)) == told(list(spans_of(stream, records)))


@examples(100)
@given(lives())
def test_every_span_is_told_once_and_begins_where_the_log_says(life: Life) -> None:
    spans = spans_of(STREAM, life.committed)
    hold_together(spans)
    begun = {"chat": InferenceStarted, "execute_tool": ToolExecutionStarted | ToolCallDeferred}
    for word, kind in begun.items():
        starts = [record.at for record in life.committed if isinstance(record.event, kind)]
        assert sorted(span.start for span in spans if span.name.split()[0] == word) == sorted(starts)
    waits = [(about[WAIT], span.start, span.end) for span in spans if WAIT in (about := span.attributes)]
    tables = projected(RunsView(), entries(STREAM, life.committed))
    rests = [(row["kind"], row["started_at"], row["ended_at"]) for row in tables.of(RESTS)]
    over = [rest for rest in rests if rest[0] not in NO_WAITS and rest[2] is not None]
    assert sorted(waits, key=str) == sorted(over, key=str)
    segments = [span for span in spans if span.name.startswith("invoke_agent ")]
    opened = [each.event for each in life.committed if isinstance(each.event, ExecutionStarted | ExecutionResumed)]
    assert len(segments) >= sum(isinstance(event, ExecutionResumed) or event.worker is not None for event in opened)
    ends = [record.event for record in life.committed if isinstance(record.event, ExecutionFinished)]
    finished = [span for span in segments if "steptrail.stop_reason" in span.attributes]
    assert [span.attributes["steptrail.stop_reason"] for span in finished] == [event.stop_reason for event in ends]


@examples(60)
@given(lives(forks=True))
def test_no_content_of_any_event_is_in_any_span(life: Life) -> None:
    records = [hidden(record) for record in life.committed]
    assert CANARY in str(records)
    told_of = repr(spans_of(STREAM, records))
    assert CANARY not in told_of
    assert str(NUMBER) not in told_of


def test_no_content_of_a_run_of_a_workflow_is_in_any_span() -> None:
    replaced = {stream: [hidden(record) for record in records] for stream, records in RUNS}
    assert CANARY in str(replaced)
    told_of = repr([spans_of(stream, records) for stream, records in replaced.items()])
    assert CANARY not in told_of
    assert str(NUMBER) not in told_of


@examples(150)
@given(st.lists(st.one_of(*EVENTS.values()), max_size=30))
def test_events_of_any_kind_and_in_any_order_make_spans_that_do_not_end_before_they_begin(events: list[Any]) -> None:
    records = [Recorded(version, START - version * SECOND, event) for version, event in enumerate(events, 1)]
    for span in spans_of("agent:a", records):
        assert span.end >= span.start
        for value in (span.name, *span.attributes.values()):
            if isinstance(value, str):
                assert len(value.encode()) <= 4 * 256
