"""What holds for the questions of every reply, in whatever order they are answered."""

from collections import Counter

from hypothesis import given, strategies as st

from steptrail.domain.agent.asking import is_asked
from steptrail.domain.agent.commands import AnswerCall, Approve, Deny
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import KeepWaiting, Record
from steptrail.domain.agent.events import (
    ApprovalExpired,
    ApprovalRequested,
    ToolCallDeferred,
    ToolExecutionFailed,
    WaitEnded,
)
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
    wait = state.execution.wait if state.execution is not None else None
    is_for_answers = wait is not None and wait.kind in {"approval", "external"}
    is_open = any(map(is_asked, state.tool_executions))
    asked = (state.stop_request, state.pause_request)
    return state.phase is Phase.WAITING and is_for_answers and is_open and asked == (None, None)


@some
@given(eventful_lives())
def test_each_call_is_asked_about_once_and_none_of_a_reply_runs_while_a_question_of_it_is_open(life: Life) -> None:
    events = [record.event for record in life.committed]
    asked = Counter(event.approval_id for event in events if isinstance(event, ApprovalRequested))
    deferred = Counter(event.effect_id for event in events if isinstance(event, ToolCallDeferred))
    assert {*asked.values(), *deferred.values()} <= {1}
    for state, record in zip(life.states(), life.committed, strict=False):
        is_open = any(call.open_approval is not None for call in state.tool_executions)
        assert not is_open or all(call.status is not CallStatus.RUNNING for call in state.tool_executions)
        if isinstance(record.event, WaitEnded) and record.event.reason != "stop":
            assert not is_open
            wait = state.execution.wait if state.execution is not None else None
            is_for_answers = wait is not None and wait.kind in {"approval", "external"}
            assert not (is_for_answers and any(map(is_asked, state.tool_executions)))


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
            kinds = {type(event) for event in expired}
            assert isinstance(waits, KeepWaiting) or kinds <= {ApprovalExpired, ToolExecutionFailed}


@some
@given(eventful_lives(), st.data())
def test_the_order_of_the_answers_makes_no_difference_to_what_becomes_of_the_calls(
    life: Life, data: st.DataObject
) -> None:
    for state in filter(is_asking, life.states()):
        answers: list[Approve | Deny | AnswerCall] = [
            (Approve if data.draw(st.booleans()) else Deny)(approval_id=each.id, by="ana", at=state.as_of)
            for each in state.open_approvals
        ]
        answers += [AnswerCall(effect_id=each.id, by="ana", at=state.as_of, result=1) for each in state.open_calls]
        if len(answers) < 2:
            continue
        in_order, turned = (answered(state, order) for order in (answers, data.draw(st.permutations(answers))))
        assert in_order.tool_executions == turned.tool_executions
        assert (in_order.phase, standing(in_order)) == (turned.phase, standing(turned))


def answered(state: AgentState, answers: list[Approve | Deny | AnswerCall]) -> AgentState:
    for answer in answers:
        events = decide(state, answer)
        records = [Recorded(state.version + n, state.as_of, event) for n, event in enumerate(events, 1)]
        state = evolve_all(state, records)
    return state
