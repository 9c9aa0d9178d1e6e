"""Whoever listens to a life, from wherever and in whatever pieces, hears what a later reader of its log hears."""

from collections import Counter

from hypothesis import given, strategies as st

from steptrail.domain.agent.events import (
    ContinuationEvaluated,
    EvaluationsRecorded,
    ExecutionFinished,
    ExecutionResumed,
    StepCompleted,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallDeferred,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
)
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.instants import seconds_between
from steptrail.lifecycle import (
    AgentExecutionEnded,
    AgentStepCompleted,
    CallBlocked,
    CallCancelled,
    DecisionTaken,
    LifecycleFold,
    RunEvent,
    ToolCallCompleted,
    ToolCallStarted,
    lifecycle_events,
)
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives

some = examples(80)


@some
@given(lives(), st.data())
def test_pieces_of_a_life_tell_what_the_whole_tells(life: Life, data: st.DataObject) -> None:
    whole = lifecycle_events(SESSION, life.committed)
    states = life.states()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(life.committed)), max_size=4)) | {0})
    told: list[RunEvent] = []
    for begin, end in zip(cuts, [*cuts[1:], len(life.committed)], strict=True):
        before, fold = states[begin], LifecycleFold(states[begin])
        for record in life.committed[begin:end]:
            told += fold.apply(record)
        assert states[begin] == before
        assert fold.version == end
    assert tuple(told) == whole


@some
@given(lives())
def test_each_is_named_once_and_stands_in_the_order_of_the_session(life: Life) -> None:
    told = lifecycle_events(SESSION, life.committed)
    names = [(event.version, event.index) for event in told]
    assert names == sorted(set(names))
    records = {record.version: record for record in life.committed}
    assert all(event.at == records[event.version].at for event in told)


@some
@given(lives())
def test_everything_that_ends_is_told_of_as_often_as_it_ended(life: Life) -> None:
    told = lifecycle_events(SESSION, life.committed)
    happened = Counter(type(record.event) for record in life.committed)
    heard = Counter(type(event) for event in told)
    assert sum(isinstance(event, AgentExecutionEnded) for event in told) == happened[ExecutionFinished]
    assert heard[AgentStepCompleted] == happened[StepCompleted]
    assert heard[ToolCallStarted] == happened[ToolExecutionStarted] + happened[ToolCallDeferred]
    assert heard[CallCancelled] == happened[ToolCallCancelled]
    assert heard[CallBlocked] == happened[ToolCallBlocked]
    for event in told:
        assert str(event)
        assert event.to_dict()["agentId"] == SESSION


@some
@given(lives())
def test_durations_and_outcomes_are_those_that_were_recorded(life: Life) -> None:
    records = {record.version: record.event for record in life.committed}
    states = life.states()
    for event in lifecycle_events(SESSION, life.committed):
        stored = records[event.version]
        if isinstance(event, AgentStepCompleted) and isinstance(stored, StepCompleted):
            assert event.duration_ms == round(stored.duration_seconds * 1000)
        if isinstance(event, ToolCallCompleted):
            assert round(seconds_between(event.started, event.ended) * 1000) == event.duration_ms
        if isinstance(event, DecisionTaken) and event.phase != "resume":
            assert event.outcome == states[event.version].last_continuation_outcome


@examples(200)
@given(lives())
def test_a_call_is_told_to_have_ended_where_it_did_and_not_where_a_late_word_changed_nothing(life: Life) -> None:
    ended = Counter(e.version for e in lifecycle_events(SESSION, life.committed) if isinstance(e, ToolCallCompleted))
    states = life.states()
    for record in life.committed:
        before, after = (states[version].tool_executions for version in (record.version - 1, record.version))
        match record.event:
            case ToolExecutionSettledLate():
                assert ended[record.version] == sum(a != b for a, b in zip(before, after, strict=True))
            case ToolExecutionInterrupted(position=position):
                assert ended[record.version] == (before[position].status is CallStatus.RUNNING)
            case ToolExecutionCompleted() | ToolExecutionFailed():
                assert ended[record.version] == 1
            case _:
                assert ended[record.version] == 0


@some
@given(lives())
def test_a_decision_about_going_on_after_a_rest_holds_the_votes_of_its_guards(life: Life) -> None:
    outcomes = {
        event.version: event.outcome
        for event in lifecycle_events(SESSION, life.committed)
        if isinstance(event, DecisionTaken)
    }
    votes: list[ContinuationEvaluation] = []
    for record in life.committed:
        match record.event:
            case ExecutionResumed():
                votes.clear()
            case EvaluationsRecorded(phase="resume", votes=cast):
                votes += cast
            case ContinuationEvaluated(phase="resume"):
                assert list(outcomes[record.version].evaluations) == votes
                votes.clear()
            case _:
                pass
