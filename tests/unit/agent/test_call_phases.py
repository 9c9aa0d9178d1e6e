"""Each row of the table of a call's life, and what is due in each of its phases."""

from typing import get_args

import pytest
from msgspec import structs

from steptrail.domain.agent.call_phases import CALL_TRANSITIONS, CallKey, CallPhase, Said, key_of
from steptrail.domain.agent.effects import AskPeople, Effect, JudgeAnswer, Record, RunCalls, ScheduleToolRetry
from steptrail.domain.agent.events import (
    AgentEvent,
    AnswerAccepted,
    AnswerRejected,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ExecutionResumed,
    HooksRan,
    StepCompleted,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallDeferred,
    ToolCallHeld,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.output import OutputMode
from steptrail.domain.tools import ApprovalRule, ToolRetry
from steptrail.testing.scenario import SECOND, START, AgentScenario, given
from tests.unit.agent.story import (
    BOOM,
    TYPED,
    a_tool,
    agent,
    asked,
    broke,
    cut_off,
    decided,
    opened,
    rejected,
    resumed,
    returned,
    running,
    step,
    stop_asked,
    wants,
)

EFFECT_ID = "session:1:1:0"
HELD = ToolCallHeld(position=0, rule=ApprovalRule(), hook="h")
FORBIDDEN = HooksRan(hook_type="pre_tool_use", step=1, position=0, hooks=("h",), forbidden_by="h")
QUESTION = ApprovalRequested(
    approval_id=EFFECT_ID, position=0, tool="look", arguments_digest="d", expires_at=START + 3600 * SECOND, asked_by="h"
)
YES, NO = ApprovalGranted(approval_id=EFFECT_ID, by="ana"), ApprovalDenied(approval_id=EFFECT_ID, by="ana")
RETRYABLE = ToolExecutionFailed(position=0, error=BOOM, may_retry=True, duration_seconds=0.0)
SCHEDULED = ToolRetryScheduled(position=0, failures=1, delay_seconds=60.0, due_at=START + 3600 * SECOND, draw=0.5)
RESTS = ToolExecutionSuspended(position=0, session="child", reason="is waiting", duration_seconds=0.0)
LATE = ToolExecutionSettledLate(effect_id=EFFECT_ID, attempt=1, segment=1, result="late")
CANCELLED = ToolCallCancelled(position=0, reason="stopped")
REFUSED = rejected(position=0)
DEFERRED = ToolCallDeferred(
    position=0, call_id="c", tool="look", effect_id=EFFECT_ID, arguments_digest="d", expires_at=START + 3600 * SECOND
)
BLOCKED = ToolCallBlocked(position=0, reason="no", hook="h")

WAY_TO: dict[CallPhase, tuple[AgentEvent, ...]] = {
    CallPhase.NEW: (),
    CallPhase.HELD: (HELD,),
    CallPhase.FORBIDDEN: (FORBIDDEN,),
    CallPhase.ASKING: (QUESTION,),
    CallPhase.APPROVED: (QUESTION, YES),
    CallPhase.DEFERRED: (DEFERRED,),
    CallPhase.RUNNING: (running(),),
    CallPhase.IN_DOUBT: (running(), resumed()),
    CallPhase.AGAIN: (running(), cut_off(0, Then.RERUN)),
    CallPhase.RETRYABLE: (running(), RETRYABLE),
    CallPhase.RETRYING: (running(), RETRYABLE, SCHEDULED),
    CallPhase.SUSPENDED: (running(), RESTS),
    CallPhase.PARKED: (running(), cut_off(0, Then.PARK)),
    CallPhase.COMPLETED: (running(), returned()),
    CallPhase.FAILED: (running(), broke()),
    CallPhase.BLOCKED: (BLOCKED,),
    CallPhase.DENIED: (QUESTION, NO),
    CallPhase.CANCELLED: (CANCELLED,),
    CallPhase.INTERRUPTED: (running(), cut_off()),
    CallPhase.ANSWER: (),
    CallPhase.REJECTED: (REFUSED,),
}
ANSWERS = {CallPhase.ANSWER, CallPhase.REJECTED}
"""The phases of a call that is no call of a tool."""
SAMPLES: tuple[AgentEvent, ...] = (
    structs.replace(HELD, hook="another"),
    FORBIDDEN,
    BLOCKED,
    ToolCallAmended(position=0, arguments={"n": 2}, hook="h"),
    QUESTION,
    YES,
    NO,
    ApprovalExpired(approval_id=EFFECT_ID),
    running(attempt=2),
    structs.replace(DEFERRED, arguments_digest="other"),
    returned(),
    broke(),
    RETRYABLE,
    SCHEDULED,
    *(cut_off(0, then) for then in Then),
    RESTS,
    LATE,
    structs.replace(LATE, result=None, error=BOOM),
    CANCELLED,
    resumed(3),
    WaitEnded(reason="settled"),
    WaitEnded(reason="due"),
    WaitEnded(reason="rerun", by="ana"),
    AnswerAccepted(step=1, position=0),
    REFUSED,
)
EVENTS: dict[CallKey, AgentEvent] = {key_of(event): event for event in SAMPLES}
# What is expected stands here once more, event by event: a row that is missing would drop an event without a word.
LATE_TO = "in_doubt again parked interrupted"
EXPECTED: dict[CallKey, dict[str, str]] = {
    ToolCallAmended: {"new": "new", "held": "held", "asking": "asking"},
    ToolCallHeld: {"new held": "held"},
    ToolCallBlocked: {"new held asking approved": "blocked"},
    (HooksRan, Said.FORBIDDEN): {"new held asking approved": "forbidden"},
    ApprovalRequested: {"new held": "asking"},
    ApprovalGranted: {"asking": "approved"},
    ApprovalDenied: {"asking": "denied"},
    ApprovalExpired: {"asking": "denied"},
    ToolCallCancelled: {
        "new held forbidden asking approved answer": "cancelled",
        "deferred again suspended": "interrupted",
        "retrying": "failed",
    },
    ToolExecutionStarted: {"new approved again retrying": "running"},
    ToolCallDeferred: {"new approved again retrying": "deferred"},
    ToolExecutionCompleted: {"running parked deferred": "completed"},
    ToolExecutionFailed: {"new held approved again retrying running parked deferred": "failed"},
    (ToolExecutionFailed, Said.MAY_RETRY): {"running": "retryable"},
    ToolRetryScheduled: {"retryable": "retrying"},
    (ToolExecutionInterrupted, Then.RERUN): {"running in_doubt": "again"},
    (ToolExecutionInterrupted, Then.TELL): {"running in_doubt": "interrupted"},
    (ToolExecutionInterrupted, Then.FAIL): {"running in_doubt": "interrupted"},
    (ToolExecutionInterrupted, Then.PARK): {"running in_doubt": "parked"},
    ToolExecutionSuspended: {"running": "suspended"},
    ToolExecutionSettledLate: {LATE_TO: "completed"},
    (ToolExecutionSettledLate, Said.ERROR): {LATE_TO: "failed"},
    ExecutionResumed: {"running": "in_doubt", "suspended": "again"},
    WaitEnded: {"parked": "interrupted"},
    (WaitEnded, Said.DUE): {"suspended": "again"},
    (WaitEnded, Said.RERUN): {"parked": "again"},
    AnswerAccepted: {"answer": "completed"},
    AnswerRejected: {"answer": "rejected"},
}
ENDS = {
    CallPhase(name) for name in ["completed", "failed", "blocked", "denied", "cancelled", "interrupted", "rejected"]
}
BUSY = {CallPhase.RUNNING, CallPhase.IN_DOUBT, CallPhase.PARKED}


def expected(phase: CallPhase, key: CallKey) -> str | None:
    """Return the phase that follows, None where the event is not for a call in this one."""
    return next((target for phases, target in EXPECTED[key].items() if phase in phases.split()), None)


def calling(*events: AgentEvent) -> AgentScenario:
    tried_again = structs.replace(a_tool("look"), retry=ToolRetry(attempts=3))
    return given(*opened(agent(tried_again)), *step(), asked(), wants("look"), *events)


def in_phase(phase: CallPhase, *events: AgentEvent) -> AgentScenario:
    if phase not in ANSWERS:
        return calling(*WAY_TO[phase], *events)
    asked_for = asked(output_mode=OutputMode.TOOL)
    return given(*opened(agent(output=TYPED)), *step(), asked_for, wants("final_result"), *WAY_TO[phase], *events)


def phase_of(scenario: AgentScenario) -> CallPhase:
    (call,) = scenario.state.tool_executions
    return call.phase


@pytest.mark.parametrize("phase", CallPhase)
@pytest.mark.parametrize("key", EVENTS)
def test_an_event_moves_a_call_as_the_table_says_and_leaves_it_whole_where_the_table_says_nothing(
    phase: CallPhase, key: CallKey
) -> None:
    before = in_phase(phase)
    if isinstance(EVENTS[key], WaitEnded):
        before = before.and_(WaitStarted(kind="child", position=0))
    assert phase_of(before) is phase
    after = before.and_(EVENTS[key])
    target = expected(phase, key)
    if target is None:
        assert after.state.tool_executions == before.state.tool_executions
    else:
        assert phase_of(after) == target
        assert after.state.tool_executions != before.state.tool_executions


def test_every_row_of_the_table_is_tried_above() -> None:
    assert set(CALL_TRANSITIONS) == set(WAY_TO) == set(CallPhase)
    assert {key for keys in CALL_TRANSITIONS.values() for key in keys} == set(EVENTS) == set(EXPECTED)


def test_every_event_about_a_call_has_a_row() -> None:
    about = {
        kind for kind in get_args(AgentEvent) if {"position", "approval_id", "effect_id"} & set(kind.__struct_fields__)
    }
    with_rows = {key[0] if isinstance(key, tuple) else key for keys in CALL_TRANSITIONS.values() for key in keys}
    # A wait is the session's, and names the call that it is for.
    assert about - with_rows == {WaitStarted}


def test_every_word_of_an_event_that_a_row_looks_at_is_in_the_table() -> None:
    words = {key[1] for keys in CALL_TRANSITIONS.values() for key in keys if isinstance(key, tuple)}
    assert words == {*Said, *Then}


def test_every_phase_can_be_reached_and_one_that_is_no_end_can_be_left() -> None:
    reached = {target for keys in CALL_TRANSITIONS.values() for target in keys.values()}
    assert set(CallPhase) - reached == {CallPhase.ANSWER}  # that is what it is from the beginning
    assert {phase for phase in CallPhase if in_phase(phase).state.tool_executions[0].is_over} == ENDS


FIRST_DUE: dict[CallPhase, type[Effect] | type[AgentEvent]] = {
    CallPhase.NEW: RunCalls,
    CallPhase.HELD: ApprovalRequested,
    CallPhase.FORBIDDEN: ToolCallCancelled,
    CallPhase.ASKING: WaitStarted,
    CallPhase.APPROVED: RunCalls,
    CallPhase.DEFERRED: WaitStarted,
    CallPhase.RUNNING: RunCalls,
    CallPhase.IN_DOUBT: ToolExecutionInterrupted,
    CallPhase.AGAIN: RunCalls,
    CallPhase.RETRYABLE: ScheduleToolRetry,
    CallPhase.RETRYING: WaitStarted,
    CallPhase.SUSPENDED: WaitStarted,
    CallPhase.PARKED: WaitStarted,
    CallPhase.ANSWER: JudgeAnswer,
    **dict.fromkeys(ENDS, StepCompleted),
}


def first_due(scenario: AgentScenario) -> type[Effect] | type[AgentEvent]:
    (effect,) = scenario.next().effects
    return type(effect.events[0]) if isinstance(effect, Record | AskPeople) else type(effect)


@pytest.mark.parametrize("phase", CallPhase)
def test_what_is_due_for_a_call_follows_from_its_phase(phase: CallPhase) -> None:
    go_on = (decided(0, phase=DecisionPhase.RESUME),) if phase is CallPhase.IN_DOUBT else ()
    assert first_due(in_phase(phase, *go_on)) is FIRST_DUE[phase]


@pytest.mark.parametrize("phase", [phase for phase in CallPhase if phase not in BUSY])
def test_a_stop_cancels_a_call_that_has_not_ended_and_leaves_one_that_has_as_it_is(phase: CallPhase) -> None:
    due = first_due(in_phase(phase, stop_asked()))
    assert due is (StepCompleted if phase in {*ENDS, CallPhase.RETRYABLE} else ToolCallCancelled)
