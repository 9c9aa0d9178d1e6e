"""Pause and stop, in every phase an execution can be in."""

import pytest
from msgspec import structs

from steptrail.domain.agent.effects import (
    CallModel,
    Effect,
    Record,
    RunCalls,
    TakeDecision,
)
from steptrail.domain.agent.events import (
    AgentEvent,
    StepCompleted,
    ToolCallCancelled,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.shared.run import CutBy, ExecutionStatus, SegmentEnd
from steptrail.domain.tools import OnUnknown
from steptrail.testing.scenario import SECOND, START, given
from tests.unit.agent.story import (
    a_tool,
    agent,
    answered,
    asked,
    cut_off,
    decided,
    done,
    ended,
    failed,
    finished,
    forbidden,
    lost_reply,
    opened,
    pause_asked,
    paused,
    resume,
    resumed,
    returned,
    running,
    said,
    step,
    stop_asked,
    unanswered,
    wants,
)

PARKING = agent(a_tool("look", on_unknown=OnUnknown.PARK))
LOST = cut_off(0, Then.PARK, "deadline", CutBy.TOOL_TIMEOUT)
DUE = START + 1000 * SECOND

OPEN: dict[str, tuple[AgentEvent, ...]] = {
    "boundary": opened(),
    "continuing": (*opened(), decided(0)),
    "step": (*opened(), *step()),
    "inferring": (*opened(), *step(), asked()),
    "settling a call that is due": (*opened(), *step(), asked(), wants("look", "look")),
    "settling a running call": (*opened(), *step(), asked(), wants("look", "look"), running()),
    "settling nothing any more": (*opened(), *step(), asked(), said("done")),
    "stopping": (*opened(), *answered(), done(1)),
    "waiting for a time": (*opened(), *failed(), decided(1), WaitStarted(kind="retry", until=DUE)),
    "waiting for a person": (
        *opened(PARKING),
        *step(),
        asked(),
        wants("look", "look"),
        running(),
        LOST,
        WaitStarted(kind="unknown_outcome", position=0),
    ),
    "recovering": (*opened(), *step(), resumed()),
}
PAUSE = Record((paused(),))
CANCELLED = ToolCallCancelled(position=0, reason="ana stopped the run")
"""Both calls, before any ran."""
SECOND_CANCELLED = ToolCallCancelled(position=1, reason="ana stopped the run")


def in_step(seconds: float) -> Record:
    return Record((paused(seconds),))


PAUSED_BY: dict[str, Effect] = {
    "boundary": PAUSE,
    "continuing": PAUSE,
    "step": in_step(2.0),
    "inferring": CallModel(1),
    "settling a call that is due": in_step(4.0),
    "settling a running call": RunCalls(running=(0,)),
    "settling nothing any more": Record((ended(seconds=4.0),)),
    "stopping": Record((finished(),)),
    "waiting for a time": PAUSE,
    "waiting for a person": PAUSE,
    "recovering": TakeDecision(0, DecisionPhase.RESUME),
}


@pytest.mark.parametrize("where", OPEN)
def test_a_pause_starts_nothing_new_and_lets_what_runs_end(where: str) -> None:
    given(*OPEN[where]).and_(pause_asked()).next().is_(PAUSED_BY[where])


@pytest.mark.parametrize("where", OPEN)
def test_every_phase_can_be_paused_and_is_gone_back_to(where: str) -> None:
    before = given(*OPEN[where])
    scenario = before.and_(pause_asked(), paused())
    assert scenario.state.phase is Phase.PAUSED
    assert scenario.state.status is ExecutionStatus.PAUSED
    assert scenario.state.pause_request is None
    scenario = scenario.next().is_nothing()
    scenario = scenario.when(resume(before.state.agent or PARKING)).then(
        resumed(before.state.fold.segment + 1, SegmentEnd.PAUSE)
    )
    if where == "boundary":
        # Everybody votes there anyway, the guards among them.
        assert scenario.state.phase is Phase.BOUNDARY
        scenario.next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))
        return
    assert scenario.state.phase is Phase.RECOVERING
    # Where only hooks are left, no limit is asked before them.
    spares = where in {"settling nothing any more", "stopping"}
    scenario = scenario.next().is_(TakeDecision(before.state.step_count, DecisionPhase.RESUME, spares_limits=spares))
    back = scenario.and_(decided(before.state.step_count, phase=DecisionPhase.RESUME)).state.phase
    assert back is (Phase.STEP if where == "recovering" else before.state.phase)


def test_the_part_of_a_step_before_a_pause_is_active_time_and_the_pause_is_not() -> None:
    scenario = given(*opened(), *step(), pause_asked(), paused(5.0))
    assert scenario.state.at(DUE).cumulative_execution_seconds == 5.0
    scenario = scenario.at(DUE, resumed(ended_by=SegmentEnd.PAUSE), decided(0, phase=DecisionPhase.RESUME), asked())
    scenario = scenario.and_(said("done"))
    scenario.next(DUE + 3 * SECOND).is_(Record((ended(seconds=8.0),)))


def test_a_resume_clears_a_pause_that_was_not_obeyed_yet() -> None:
    scenario = given(*opened(), *step(), pause_asked(), resumed())
    assert scenario.state.pause_request is None
    assert scenario.and_(decided(0, phase=DecisionPhase.RESUME)).state.phase is Phase.STEP


def test_a_stop_goes_before_a_pause() -> None:
    given(*opened(), pause_asked(), stop_asked()).next().is_(TakeDecision(0, DecisionPhase.BOUNDARY))


STOPPED_BY: dict[str, Effect] = {
    "boundary": TakeDecision(0, DecisionPhase.BOUNDARY),
    "continuing": TakeDecision(0, DecisionPhase.BOUNDARY),
    "step": Record((ended(seconds=2.0),)),
    "inferring": CallModel(1),
    "settling a call that is due": Record((CANCELLED, SECOND_CANCELLED)),
    "settling a running call": RunCalls(running=(0,)),
    "settling nothing any more": Record((ended(seconds=4.0),)),
    "stopping": Record((finished(),)),
    "waiting for a time": Record((WaitEnded(reason="stop", by="ana"),)),
    "waiting for a person": Record((WaitEnded(reason="stop", by="ana"),)),
    "recovering": TakeDecision(0, DecisionPhase.RESUME),
}


@pytest.mark.parametrize("where", OPEN)
def test_a_stop_starts_nothing_new_and_closes_what_is_open(where: str) -> None:
    given(*OPEN[where]).and_(stop_asked()).next().is_(STOPPED_BY[where])


def test_a_stop_while_the_model_answers_keeps_the_reply_and_starts_no_tool() -> None:
    scenario = given(*opened(), *step(), asked(), stop_asked(), wants("look", "look"))
    scenario = scenario.next().is_(Record((CANCELLED, SECOND_CANCELLED))).and_(CANCELLED, SECOND_CANCELLED)
    scenario = scenario.and_(ended())
    assert scenario.state.usage.total == 15
    assert scenario.state.total_failures == 0
    scenario.next().is_(TakeDecision(1, DecisionPhase.BOUNDARY))


def test_a_stop_while_a_tool_runs_cancels_the_rest_once_that_has_ended() -> None:
    scenario = given(*OPEN["settling a running call"]).and_(stop_asked(), returned(0))
    scenario.next().is_(Record((SECOND_CANCELLED,)))


def test_a_tool_that_a_stop_cut_off_is_unknown_and_never_parked() -> None:
    cut = cut_off(reason="stop")
    scenario = given(*opened(PARKING), *step(), asked(), wants("look"), running(), stop_asked(), cut)
    assert scenario.state.tool_executions[0].status is CallStatus.INTERRUPTED
    scenario.next().is_(Record((ended(seconds=6.0),)))


def test_a_stop_of_a_parked_call_leaves_its_outcome_unknown_and_cancels_the_rest() -> None:
    scenario = given(*OPEN["waiting for a person"]).and_(stop_asked(), WaitEnded(reason="stop", by="ana"))
    scenario = scenario.next().is_(Record((SECOND_CANCELLED,))).and_(SECOND_CANCELLED, ended())
    assert [call.status for call in scenario.state.steps[0].tool_executions] == ["interrupted", "cancelled"]
    assert scenario.state.total_failures == 0


def test_an_input_after_a_stop_does_not_carry_the_stop_on() -> None:
    scenario = given(*opened(), stop_asked(), forbidden(0, "UserStop"), finished())
    assert scenario.and_(opened()[1]).state.stop_request is None


@pytest.mark.parametrize(
    ("where", "closing"),
    [
        ("step", (ended(seconds=3.0),)),
        ("inferring", (lost_reply(), ended(seconds=4.0))),
        (
            "settling a call that is due",
            (
                ToolCallCancelled(position=0, reason="the run stops (steps_limit)"),
                ToolCallCancelled(position=1, reason="the run stops (steps_limit)"),
                ended(seconds=5.0),
            ),
        ),
        (
            "settling a running call",
            (
                cut_off(reason="stop"),
                ToolCallCancelled(position=1, reason="the run stops (steps_limit)"),
                ended(seconds=6.0),
            ),
        ),
        ("settling nothing any more", (ended(seconds=5.0),)),
    ],
)
def test_a_guard_that_forbids_on_resume_closes_the_step_and_finishes(
    where: str, closing: tuple[AgentEvent, ...]
) -> None:
    stopped = given(*OPEN[where])
    seconds = (stopped.clock - START) / SECOND - 3
    scenario = stopped.and_(resumed(interrupted=seconds), forbidden(0, phase=DecisionPhase.RESUME))
    # Resumed one second after the crash, decided one second later.
    last = closing[-1]
    assert isinstance(last, StepCompleted)
    closing = (*closing[:-1], structs.replace(last, duration_seconds=seconds + 2.0))
    scenario = scenario.next().is_(Record(closing)).and_(*closing)
    assert scenario.state.open_step is None
    scenario = scenario.next().is_(Record((finished(reason=forbidden(0).stop_reason, by="StepsLimit"),)))
    assert all(call.is_settled for call in scenario.state.steps[0].tool_executions)


def test_a_step_that_had_failed_already_fails_the_execution_that_a_guard_ends() -> None:
    scenario = given(
        *opened(), *step(), asked(), unanswered(), resumed(), forbidden(0, phase=DecisionPhase.RESUME), ended()
    )
    ending = finished(ExecutionStatus.FAILED, forbidden(0).stop_reason, "StepsLimit")
    scenario.next().is_(Record((ending,)))


def test_a_crash_while_stopping_goes_on_stopping() -> None:
    scenario = given(*OPEN["stopping"]).and_(resumed(), decided(1, phase=DecisionPhase.RESUME))
    assert scenario.state.phase is Phase.STOPPING
    scenario.next().is_(Record((finished(),)))


def test_a_second_crash_while_recovering_still_remembers_where_it_was() -> None:
    scenario = given(*OPEN["inferring"]).and_(resumed(2), resumed(3), decided(0, phase=DecisionPhase.RESUME))
    assert scenario.state.phase is Phase.INFERRING
    scenario.next().is_(Record((lost_reply(),)))
