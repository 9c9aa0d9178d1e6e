"""A call whose session waits is made again at the next resume, or when its time has come; its bill is counted once."""

import pytest
from msgspec import structs

from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import Effect, KeepWaiting, Record, RunCalls
from steptrail.domain.agent.events import (
    ExecutionPaused,
    StopRequested,
    ToolCallCancelled,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    UsageRecorded,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.tools import ToolEffect, ToolSpec
from steptrail.domain.usage import BilledUsage, Usage
from steptrail.testing.scenario import SECOND, START, AgentScenario, given
from tests.unit.agent.story import (
    BOOM,
    agent,
    asked,
    decided,
    opened,
    pause_asked,
    resume,
    resumed,
    returned,
    running,
    step,
    wants,
)

DESK = ToolSpec(name="desk", effect=ToolEffect.IDEMPOTENT, concurrent=True, runs_children="agent")
LATER = START + 3600 * SECOND
OWN = Usage(input=10, output=5)


def asking_for(calls: int) -> AgentScenario:
    return given(*opened(agent(DESK)), *step(), asked(), wants(*["desk"] * calls))


def begun(position: int = 0, *, attempt: int = 1) -> ToolExecutionStarted:
    return running(position, "desk", ToolEffect.IDEMPOTENT, attempt=attempt)


def rests(position: int = 0, *, until: int | None = None, tokens: int = 3) -> ToolExecutionSuspended:
    usage = BilledUsage(output=tokens)
    return ToolExecutionSuspended(
        position=position, session="child", reason="is waiting", until=until, usage=usage, duration_seconds=0.0
    )


def child_wait(position: int = 0, until: int | None = None) -> WaitStarted:
    return WaitStarted(kind="child", position=position, until=until)


def waiting_for_a_child() -> AgentScenario:
    return asking_for(1).and_(begun(), rests(), child_wait())


def test_a_call_that_rests_makes_the_run_wait_for_whoever_brings_its_session_on() -> None:
    scenario = asking_for(1).and_(begun(), rests()).next().is_(Record((child_wait(),)))
    scenario.and_(child_wait()).next().is_(KeepWaiting("child", None))


def test_the_calls_beside_it_run_on_and_those_that_have_not_begun_begin_first() -> None:
    scenario = asking_for(3).and_(begun(0), begun(1), rests(0)).next().is_(RunCalls((2,), (1,)))
    scenario = scenario.and_(begun(2)).next().is_(RunCalls(running=(1, 2)))
    scenario.and_(returned(1), returned(2)).next().is_(Record((child_wait(0),)))


def test_a_resume_makes_the_call_again() -> None:
    scenario = waiting_for_a_child().and_(resumed(ended_by=SegmentEnd.WAIT), decided(0, phase=DecisionPhase.RESUME))
    scenario = scenario.next().is_(Record((WaitEnded(reason="settled"),)))
    scenario = scenario.and_(WaitEnded(reason="settled")).next().is_(RunCalls((0,)))
    scenario.and_(begun(attempt=2)).next().is_(RunCalls(running=(0,)))


def test_a_resume_makes_those_calls_again_alone_whose_sessions_have_moved() -> None:
    rest = (begun(0), begun(1), begun(2), rests(0), rests(1), rests(2), child_wait(0))
    waiting = asking_for(3).and_(*rest)
    streams = [call.below for call in waiting.state.tool_executions]
    back = decided(0, phase=DecisionPhase.RESUME)
    for moved in ([1], [0, 2], [0, 1, 2]):
        again = structs.replace(resumed(ended_by=SegmentEnd.WAIT), moved=tuple(streams[place] for place in moved))
        scenario = waiting.and_(again, back).next().is_(Record((WaitEnded(reason="settled"),)))
        scenario.and_(WaitEnded(reason="settled")).next().is_(RunCalls(tuple(moved)))
    none = structs.replace(resumed(ended_by=SegmentEnd.WAIT), moved=())
    waiting.and_(none, back).next().is_(KeepWaiting("child", None))


def test_the_first_of_several_times_ends_the_wait_and_only_that_call_is_made_again() -> None:
    rest = (begun(0), begun(1), begun(2), rests(0), rests(1, until=LATER + SECOND), rests(2, until=LATER))
    scenario = asking_for(3).and_(*rest).next().is_(Record((child_wait(2, LATER),)))
    scenario = scenario.and_(child_wait(2, LATER)).at(LATER).next().is_(Record((WaitEnded(reason="due"),)))
    scenario = scenario.and_(WaitEnded(reason="due")).next().is_(RunCalls((2,)))
    scenario = scenario.and_(begun(2, attempt=2), returned(2))
    scenario.next().is_(Record((child_wait(1, LATER + SECOND),)))


def test_a_stop_ends_the_wait_and_the_call() -> None:
    stopped = waiting_for_a_child().and_(StopRequested(by="ana"))
    stopped = stopped.next().is_(Record((WaitEnded(reason="stop", by="ana"),)))
    stopped = stopped.and_(WaitEnded(reason="stop", by="ana"))
    stopped.next().is_(Record((ToolCallCancelled(position=0, reason="ana stopped the run"),)))


def test_a_pause_while_it_rests_is_a_pause_and_the_wait_goes_on_after_it() -> None:
    (effect,) = waiting_for_a_child().and_(pause_asked()).next().effects
    assert isinstance(effect, Record)
    (paused,) = effect.events
    assert isinstance(paused, ExecutionPaused)
    again = waiting_for_a_child().and_(pause_asked(), paused, resumed(ended_by=SegmentEnd.PAUSE))
    again.and_(decided(0, phase=DecisionPhase.RESUME)).next().is_(Record((WaitEnded(reason="settled"),)))


@pytest.mark.parametrize(
    "end",
    [
        ToolExecutionCompleted(position=0, usage=BilledUsage(output=7), duration_seconds=0.0),
        ToolExecutionFailed(position=0, error=BOOM, usage=BilledUsage(output=7), duration_seconds=0.0),
        ToolExecutionInterrupted(
            position=0, reason="deadline", then=Then.TELL, usage=BilledUsage(output=7), duration_seconds=0.0
        ),
        rests(tokens=7),
    ],
)
def test_each_end_says_the_whole_bill_and_only_what_is_new_is_counted(end: ToolExecutionCompleted) -> None:
    state = waiting_for_a_child().and_(resumed(), WaitEnded(reason="settled"), begun(attempt=2), end).state
    assert (state.usage, state.own_usage) == (OWN + Usage(output=7), OWN)
    assert state.total_usage == OWN + Usage(output=7)


def test_a_report_that_comes_late_is_billed_when_it_closes_the_call_and_not_when_it_is_evidence() -> None:
    late = ToolExecutionSettledLate(
        effect_id="session:1:1:0", attempt=1, segment=1, result="late", usage=BilledUsage(output=7)
    )
    in_doubt = asking_for(1).and_(begun(), resumed(), late).state
    assert (in_doubt.tool_executions[0].status, in_doubt.usage) == ("completed", OWN + Usage(output=7))
    settled = asking_for(1).and_(begun(), returned(), late).state
    assert settled.usage == OWN


def test_a_bill_that_says_less_than_before_takes_nothing_back() -> None:
    state = waiting_for_a_child().and_(resumed(), begun(attempt=2), rests(tokens=1)).state
    assert state.usage == OWN + Usage(output=3)


def test_what_a_hook_was_billed_is_the_sessions_own() -> None:
    state = asking_for(1).and_(UsageRecorded(hook="critic", usage=BilledUsage(cache_read=2))).state
    assert (state.usage, state.own_usage) == (OWN + Usage(cache_read=2),) * 2


def test_a_segment_that_died_in_a_call_that_runs_an_agent_is_none_that_got_nowhere() -> None:
    below, plain = asking_for(1).and_(begun()), given(*opened(), *step(), asked(), wants("look"), running())
    for _ in range(7):
        below, plain = (each.and_(*decide(each.state, resume(each.state.agent or agent()))) for each in (below, plain))
    assert (below.state.unproductive_segments, plain.state.unproductive_segments) == (0, 6)


def test_a_session_below_another_knows_the_top_of_its_tree() -> None:
    first = ParentRef(kind="agent", session="top", execution="top:1", effect="top:1:1:0")
    second = ParentRef(
        kind="agent", session="middle", execution="middle:1", effect="middle:1:1:0", root="agent:top", depth=2
    )
    assert [(each.root_stream, each.depth) for each in (first, second)] == [("agent:top", 1), ("agent:top", 2)]


def test_nothing_of_a_call_is_done_while_its_session_rests() -> None:
    effects: tuple[Effect, ...] = waiting_for_a_child().next(LATER).effects
    assert effects == (KeepWaiting("child", None),)
