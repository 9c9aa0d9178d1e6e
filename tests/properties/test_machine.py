"""What holds for every life of an agent, whatever the model, the tools, the hooks, people and crashes do."""

from hypothesis import given, strategies as st

from steptrail.domain.agent.commands import Resume
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    ExecutionFinished,
    ExecutionStarted,
    StepStarted,
)
from steptrail.domain.agent.evolve import evolve_all, extend, initial
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import TRANSITIONS, Outcome, Phase, Target, Transition, phase_after
from steptrail.domain.kernel.commands import Pause, Stop
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.infrastructure.store.core.codec import decode, encode
from tests.profile import examples
from tests.properties.driving import SESSION, Life, lives

some = examples(80)
AT_REST = {Phase.ABSENT, Phase.IDLE, Phase.PENDING, Phase.PAUSED, Phase.UNPAUSED}
"""The phases in which only somebody else can act."""


@some
@given(lives(forks=True), st.data())
def test_a_fold_of_any_prefix_and_then_the_rest_is_the_fold_of_the_whole(life: Life, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(life.committed)))
    first = evolve_all(initial(SESSION), life.committed[:cut])
    frozen = repr(first), list(first.messages), dict(first.metadata), first.tool_executions
    whole = evolve_all(initial(SESSION), life.committed)
    assert evolve_all(first, life.committed[cut:]) == whole == life.stored
    assert frozen == (repr(first), list(first.messages), dict(first.metadata), first.tool_executions)


@some
@given(lives(forks=True), st.data())
def test_a_state_that_is_used_up_comes_to_the_same_as_one_that_is_kept(life: Life, data: st.DataObject) -> None:
    first, second = sorted(data.draw(st.tuples(*[st.integers(0, len(life.committed))] * 2)))
    kept = evolve_all(initial(SESSION), life.committed[:first])
    before = repr(kept), list(kept.messages), kept.tool_executions
    used_up = evolve_all(kept, life.committed[first:second])
    assert extend(used_up, life.committed[second:]) == life.stored
    assert before == (repr(kept), list(kept.messages), kept.tool_executions)


@some
@given(lives(forks=True))
def test_what_is_stored_and_read_back_folds_to_the_same_state(life: Life) -> None:
    read: list[Recorded[AgentEvent]] = []
    for record in life.committed:
        at, event = decode(record.event.TYPE, encode(record.event, record.at))
        assert isinstance(event, type(record.event))
        read.append(Recorded(record.version, at, event))
    assert [record.event for record in read] == [record.event for record in life.committed]
    assert evolve_all(initial(SESSION), read) == life.stored


@some
@given(lives())
def test_versions_are_contiguous_and_time_never_runs_backwards(life: Life) -> None:
    assert [record.version for record in life.committed] == list(range(1, len(life.committed) + 1))
    instants = [record.at for record in life.committed]
    assert instants == sorted(instants)


@some
@given(lives(forks=True))
def test_the_machine_always_comes_to_an_end_and_says_why(life: Life) -> None:
    assert life.state.phase is Phase.IDLE
    assert life.state.stop_reason is not None
    assert life.state.open_step is None
    assert life.state.execution is not None
    assert life.state.execution.wait is None


@some
@given(lives(forks=True))
def test_something_is_due_wherever_nobody_else_can_act(life: Life) -> None:
    for state in life.states():
        due = next_effects(state, state.as_of)
        assert (due == ()) is (state.phase in AT_REST)


@some
@given(lives(forks=True))
def test_every_step_from_phase_to_phase_stands_in_the_table(life: Life) -> None:
    states = life.states()
    for before, after, record in zip(states, states[1:], life.committed, strict=False):
        returns_to = before.fold.wait_origin if before.phase is Phase.WAITING else before.fold.resume_to
        assert after.phase is phase_after(before.phase, record.event, returns_to)
        written = [target for key, target in TRANSITIONS[before.phase].items() if is_about(key, record.event)]
        allowed: dict[Transition, set[Phase]] = {
            Target.RETURN: {returns_to},
            Target.RESUME: {Phase.BOUNDARY, Phase.RECOVERING},
            **{phase: {phase} for phase in Phase},
        }
        assert after.phase in (allowed[written[0]] if written else {before.phase})


def is_about(key: object, event: AgentEvent) -> bool:
    if isinstance(event, ContinuationEvaluated):
        return key == (ContinuationEvaluated, Outcome.GO if event.should_continue else Outcome.STOP)
    if isinstance(event, ExecutionStarted) and event.worker is None:
        return key == (ExecutionStarted, Outcome.LATER)
    return key is type(event)


@some
@given(lives())
def test_a_run_whose_last_step_failed_is_never_completed(life: Life) -> None:
    for state in life.states():
        step = state.current_step
        if step is not None and step.has_errors:
            assert state.status is not ExecutionStatus.COMPLETED


@some
@given(lives())
def test_no_step_starts_after_a_forbid_and_none_after_a_stop_was_asked_for(life: Life) -> None:
    for state, record in zip(life.states(), life.committed, strict=False):
        if isinstance(record.event, StepStarted):
            assert state.stop_request is None
            outcome = state.last_continuation_outcome
            assert outcome is not None
            assert outcome.should_continue
            assert not outcome.is_forbidden()


@some
@given(lives())
def test_every_execution_ends_once_with_what_was_decided(life: Life) -> None:
    for state, record in zip(life.states(), life.committed, strict=False):
        if isinstance(record.event, ExecutionFinished):
            outcome = state.last_continuation_outcome
            assert outcome is not None
            assert not outcome.should_continue
            assert (record.event.stop_reason, record.event.resolved_by) == (outcome.stop_reason, outcome.resolved_by)


@some
@given(lives())
def test_steps_are_numbered_without_a_gap_and_stay_below_a_limit_that_holds(life: Life) -> None:
    for state in life.states():
        assert [step.number for step in state.steps] == list(range(1, state.step_count + 1))
    for state, record in zip(life.states(), life.committed, strict=False):
        if isinstance(record.event, StepStarted):
            assert state.agent is not None
            limits = state.agent.limits
            assert limits.max_steps is not None
            assert record.event.number <= limits.max_steps or "max_steps" in limits.shadow


@some
@given(lives(forks=True))
def test_every_call_of_a_reply_has_one_result_in_the_transcript_in_its_order(life: Life) -> None:
    asked: list[str] = []
    answered: list[str] = []
    for message in life.state.messages:
        if message.is_tool():
            answered += [part.call_id for part in message.parts if part.kind == "tool_result"]
        else:
            # Everything asked for so far is answered before anybody speaks again.
            assert asked == answered
            asked += [call.id for call in message.tool_calls]
    assert asked == answered


@some
@given(lives())
def test_a_call_that_has_ended_is_never_started_again(life: Life) -> None:
    ended: set[str] = set()
    for state in life.states():
        for call in state.tool_executions:
            has_ended = call.phase in {"completed", "failed"}
            if call.effect_id in ended:
                assert has_ended
            if call.effect_id is not None and has_ended:
                ended.add(call.effect_id)


@some
@given(lives(forks=True))
def test_a_command_that_was_accepted_and_comes_again_changes_nothing(life: Life) -> None:
    for version, command in life.commands:
        before = evolve_all(initial(SESSION), life.committed[:version])
        made = decide(before, command)
        records = [Recorded(before.version + i, before.as_of, event) for i, event in enumerate(made, 1)]
        after = evolve_all(before, records)
        if isinstance(command, Pause | Stop) or getattr(command, "key", None) is not None:
            assert decide(after, command) == ()
        elif isinstance(command, Resume):
            # Not repeated but refused by the version: the second one would open another segment.
            assert after.fold.segment == before.fold.segment + 1
