"""What holds for every life of a run of a workflow, whatever its nodes, people, commands and crashes do."""

from hypothesis import given, strategies as st

from steptrail.domain.flow.events import FlowEvent, NodeAttemptInterrupted, NodeAttemptStarted, NodeThen
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.snapshot import SNAPSHOTS
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.kernel.standing import StandingState
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.tools import ToolEffect
from steptrail.infrastructure.store.core.codec import decode, encode
from tests.profile import examples
from tests.properties.flow_driving import FLOW_ID, FlowLife, forked_lives, worked_lives

some = examples(80)
lives = worked_lives() | forked_lives()
_AT_REST = {RunPhase.ABSENT, RunPhase.IDLE, RunPhase.PENDING, RunPhase.PAUSED, RunPhase.UNPAUSED, RunPhase.DONE}
"""The phases in which only somebody else can act."""


@some
@given(lives)
def test_the_machine_always_comes_to_an_end_and_says_why(life: FlowLife) -> None:
    assert life.state.phase is RunPhase.DONE
    assert life.state.stop_reason is not None
    assert life.state.status in {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.STOPPED}
    if life.state.status is ExecutionStatus.COMPLETED:
        assert not life.state.open_visits
        assert not life.state.tasks


@some
@given(lives, st.data())
def test_a_fold_of_any_prefix_and_then_the_rest_is_the_fold_of_the_whole(life: FlowLife, data: st.DataObject) -> None:
    first, second = sorted(data.draw(st.tuples(*[st.integers(0, len(life.committed))] * 2)))
    kept = FLOW.evolve_all(FLOW.initial(FLOW_ID), life.committed[:first])
    before = repr(kept.fold)
    used_up = FLOW.evolve_all(kept, life.committed[first:second])
    assert FLOW.extend(used_up, life.committed[second:]) == life.stored
    assert FLOW.evolve_all(kept, life.committed[first:]) == life.stored
    assert repr(kept.fold) == before


@some
@given(lives, st.data())
def test_what_is_stored_and_read_back_folds_to_the_same_from_a_snapshot_too(
    life: FlowLife, data: st.DataObject
) -> None:
    read: list[Recorded[FlowEvent]] = []
    for record in life.committed:
        at, event = decode(record.event.TYPE, encode(record.event, record.at))
        read.append(Recorded(record.version, at, event))  # type: ignore[arg-type]
    assert [each.event for each in read] == [each.event for each in life.committed]
    cut = data.draw(st.integers(1, len(read)))
    kept = SNAPSHOTS.load(SNAPSHOTS.dump(FLOW.evolve_all(FLOW.initial(FLOW_ID), read[:cut])))
    assert FLOW.evolve_all(kept, read[cut:]) == life.stored


@some
@given(lives)
def test_something_is_due_wherever_nobody_else_can_act_and_the_row_of_the_index_says_so(life: FlowLife) -> None:
    state = FLOW.initial(FLOW_ID)
    for record in life.committed:
        state = FLOW.evolve_all(state, [record])
        due = FLOW.next_effects(state, state.as_of)
        assert (due == ()) is (state.phase in _AT_REST)
        row = FLOW.control.summary(state)
        assert (row.standing is StandingState.DONE) is (state.run is not None and not state.is_open)
        assert row.version == record.version


@some
@given(lives)
def test_what_may_take_effect_only_once_is_tried_again_only_after_a_failure_or_a_persons_word(life: FlowLife) -> None:
    unsafe = dict[str, bool]()
    tries = dict[tuple[str, int, int | None], str]()
    for record in life.committed:
        event = record.event
        match event:
            case NodeAttemptStarted():
                key = (event.node, event.visit, event.item)
                assert not unsafe.get(event.effect_id), f"{event.effect_id} runs again"
                tries[key] = event.effect_id
                unsafe[event.effect_id] = event.effect is ToolEffect.UNSAFE
            case NodeAttemptInterrupted():
                # Only a person may say so of what may take effect only once.
                if event.then is NodeThen.RERUN:
                    unsafe[tries[event.node, event.visit, event.item]] = False
            case _:
                ended = tries.get(
                    (getattr(event, "node", ""), getattr(event, "visit", 0), getattr(event, "item", None))
                )
                if ended is not None and event.TYPE in {"node.attempt.failed.v1", "node.attempt.suspended.v1"}:
                    unsafe[ended] = False
