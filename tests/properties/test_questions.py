"""What holds for the questions of every reply, in whatever order they are answered."""

from collections import Counter

from hypothesis import given, strategies as st

from steptrail.domain.agent.commands import Approve, Deny
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import KeepWaiting, Record
from steptrail.domain.agent.events import ApprovalExpired, ApprovalRequested, WaitEnded
from steptrail.domain.agent.evolve import evolve_all
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.standing import standing
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.kernel.record import Recorded
from tests.profile import examples
from tests.properties.driving import Life, eventful_lives

some = examples(60)


def is_asking(state: AgentState) -> bool:
    """Tell whether the run waits for answers and nobody has asked it for anything else."""
    is_open = any(call.open_approval is not None for call in state.tool_executions)
    return state.phase is Phase.WAITING and is_open and (state.stop_request, state.pause_request) == (None, None)


@some
@given(eventful_lives())
def test_each_call_is_asked_about_once_and_none_of_a_reply_runs_while_a_question_of_it_is_open(life: Life) -> None:
    asked = Counter(each.event.approval_id for each in life.committed if isinstance(each.event, ApprovalRequested))
    assert set(asked.values()) <= {1}
    for state, record in zip(life.states(), life.committed, strict=False):
        is_open = any(call.open_approval is not None for call in state.tool_executions)
        assert not is_open or all(call.status is not CallStatus.RUNNING for call in state.tool_executions)
        if isinstance(record.event, WaitEnded) and record.event.reason != "stop":
            assert not is_open


@some
@given(eventful_lives())
def test_a_session_is_due_at_the_very_instant_at_which_its_wait_for_answers_is_over(life: Life) -> None:
    for state in filter(is_asking, life.states()):
        due = standing(state).due_at
        assert due is not None
        (over,) = next_effects(state.at(due), due)
        assert isinstance(over, Record)
        assert isinstance(over.events[-1], WaitEnded)
        if due - 1 >= state.as_of:
            (waits,) = next_effects(state.at(due - 1), due - 1)
            expired = waits.events if isinstance(waits, Record) else ()
            assert isinstance(waits, KeepWaiting) or {type(event) for event in expired} == {ApprovalExpired}


@some
@given(eventful_lives(), st.data())
def test_the_order_of_the_answers_makes_no_difference_to_what_becomes_of_the_calls(
    life: Life, data: st.DataObject
) -> None:
    for state in filter(is_asking, life.states()):
        answers = [
            (Approve if data.draw(st.booleans()) else Deny)(approval_id=each.id, by="ana", at=state.as_of)
            for each in state.open_approvals
        ]
        if len(answers) < 2:
            continue
        in_order, turned = (answered(state, order) for order in (answers, data.draw(st.permutations(answers))))
        assert in_order.tool_executions == turned.tool_executions
        assert (in_order.phase, standing(in_order)) == (turned.phase, standing(turned))


def answered(state: AgentState, answers: list[Approve | Deny]) -> AgentState:
    for answer in answers:
        events = decide(state, answer)
        records = [Recorded(state.version + n, state.as_of, event) for n, event in enumerate(events, 1)]
        state = evolve_all(state, records)
    return state
