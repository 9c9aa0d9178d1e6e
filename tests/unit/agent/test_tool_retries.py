"""A tool's own rule has a failed call tried again; the model and the error policy hear of the last failure only."""

import pytest
from msgspec import structs

from steptrail.domain.agent.call_starts import start_calls
from steptrail.domain.agent.effects import KeepWaiting, Record, RunCalls, ScheduleToolRetry, TakeDecision
from steptrail.domain.agent.events import (
    AgentEvent,
    StopRequested,
    ToolCallCancelled,
    ToolExecutionFailed,
    ToolRetryScheduled,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.interruptions import has_tries_left
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.tools import ToolEffect, ToolRetry, ToolSpec
from steptrail.testing.scenario import SECOND, AgentScenario, given
from tests.unit.agent.story import (
    BOOM,
    agent,
    asked,
    decided,
    ended,
    opened,
    paused,
    resumed,
    returned,
    running,
    step,
    wants,
)

CALL = ToolSpec(name="call", retry=ToolRetry(attempts=3))
PLAIN = ToolSpec(name="plain")
LOOK = ToolSpec(name="look", effect=ToolEffect.READ, retry=ToolRetry(attempts=2))
FAILED = ToolExecutionFailed(position=0, error=BOOM, may_retry=True, duration_seconds=0.0)
FINAL = ToolExecutionFailed(position=0, error=BOOM, duration_seconds=0.0)


def asking_for(*tools: str, limits: Limits | None = None) -> AgentScenario:
    return given(*opened(agent(CALL, LOOK, PLAIN, limits=limits)), *step(), asked(), wants(*tools))


def scheduled(scenario: AgentScenario, seconds: int, *, position: int = 0, failures: int = 1) -> ToolRetryScheduled:
    due_at = scenario.clock + seconds * SECOND
    return ToolRetryScheduled(
        position=position, failures=failures, delay_seconds=float(seconds), due_at=due_at, draw=0.5
    )


def starts_of(scenario: AgentScenario, *positions: int) -> tuple[AgentEvent, ...]:
    return start_calls(scenario.state, positions, cut_by=None, now=int, unfit=lambda _: None)


def test_a_failure_that_its_rule_covers_is_given_a_time_waited_for_and_tried_again() -> None:
    scenario = asking_for("call").and_(running(0, "call"), FAILED).next().is_(ScheduleToolRetry(0))
    again = scheduled(scenario, 5)
    scenario = scenario.and_(again)
    wait = WaitStarted(kind="tool_retry", until=again.due_at, position=0)
    scenario = scenario.next().is_(Record((wait,))).and_(wait)
    scenario = scenario.next().is_(KeepWaiting("tool_retry", again.due_at))
    scenario = scenario.next(now=again.due_at).is_(Record((WaitEnded(reason="due"),)))
    scenario = scenario.at(again.due_at, WaitEnded(reason="due")).next().is_(TakeDecision(0, DecisionPhase.RESUME))
    scenario = scenario.and_(decided(0, phase=DecisionPhase.RESUME)).next().is_(RunCalls((0,)))
    scenario = scenario.and_(running(0, "call", attempt=2), returned(0))
    (call,) = scenario.state.tool_executions
    assert (call.status, call.attempt, call.failures, call.error) == ("completed", 2, 1, None)


def test_the_tries_are_counted_with_the_first_and_the_last_failure_is_the_calls() -> None:
    scenario = asking_for("call").and_(running(0, "call"), FAILED)
    scenario = scenario.and_(scheduled(scenario, 0), running(0, "call", attempt=2), FAILED)
    scenario = scenario.next().is_(ScheduleToolRetry(0))
    scenario = scenario.and_(scheduled(scenario, 0, failures=2), running(0, "call", attempt=3), FINAL)
    scenario.next().is_(Record((ended(seconds=11.0, errors=1),)))
    (call,) = scenario.state.tool_executions
    assert (call.phase, call.failures, call.error) == ("failed", 3, BOOM)


@pytest.mark.parametrize(("tool", "tries"), [("call", 3), ("look", 2), ("plain", 1), ("nobody", 1)])
def test_a_call_has_as_many_tries_as_the_rule_of_its_recorded_tool_gives_it(tool: str, tries: int) -> None:
    scenario = asking_for(tool)
    for attempt in range(1, tries + 1):
        scenario = scenario.and_(running(0, tool, attempt=attempt))
        execution, (call,) = scenario.state.execution, scenario.state.tool_executions
        assert execution is not None
        assert has_tries_left(execution, call.name, call.failures + 1) is (attempt < tries)
        scenario = scenario.and_(FAILED)
        scenario = scenario.and_(scheduled(scenario, 0, failures=attempt))


def test_a_failure_of_which_the_log_says_that_it_is_final_is_not_tried_again_whatever_the_rule_says() -> None:
    scenario = asking_for("call").and_(running(0, "call"), FINAL)
    scenario.next().is_(Record((ended(seconds=5.0, errors=1),)))


def test_a_time_that_has_come_is_not_waited_for() -> None:
    scenario = asking_for("call").and_(running(0, "call"), FAILED)
    scenario.and_(scheduled(scenario, 0)).next().is_(RunCalls((0,)))


@pytest.mark.parametrize(("tried", "others"), [(0, (1, 2)), (1, (0, 2)), (2, (0, 1))])
def test_the_calls_beside_it_run_on_and_it_starts_again_in_their_midst(tried: int, others: tuple[int, int]) -> None:
    look = [running(i, "look", ToolEffect.READ) for i in range(3)]
    failed = ToolExecutionFailed(position=tried, error=BOOM, may_retry=True, duration_seconds=0.0)
    scenario = asking_for("look", "look", "look").and_(*look, failed).next().is_(ScheduleToolRetry(tried))
    again = scheduled(scenario, 5, position=tried)
    scenario = scenario.and_(again).next().is_(RunCalls((), others, again.due_at))
    scenario = scenario.next(now=again.due_at).is_(RunCalls((tried,), others))
    # Nothing else runs any more: now its time is waited for.
    scenario = scenario.and_(*map(returned, others))
    scenario.next().is_(Record((WaitStarted(kind="tool_retry", until=again.due_at, position=tried),)))


def test_a_stop_leaves_the_failure_as_it_is_and_a_try_that_has_a_time_is_not_made() -> None:
    stop = StopRequested(by="ops")
    scenario = asking_for("call").and_(running(0, "call"), FAILED)
    failed = scenario.and_(stop)
    failed.next().is_(Record((ended(seconds=6.0, errors=1),)))
    waiting = scenario.and_(scheduled(scenario, 5))
    waiting = waiting.and_(stop).next().is_(Record((ToolCallCancelled(position=0, reason="ops stopped the run"),)))


def test_a_crash_before_the_time_was_chosen_chooses_it_again() -> None:
    scenario = asking_for("call").and_(running(0, "call"), FAILED, resumed(), decided(0, phase=DecisionPhase.RESUME))
    scenario.next().is_(ScheduleToolRetry(0))


def test_a_run_makes_no_more_calls_than_the_tool_allows_and_another_try_is_not_another_call() -> None:
    once = ToolSpec(name="once", max_calls=1, retry=ToolRetry(attempts=2))
    scenario = given(*opened(agent(once)), *step(), asked(), wants("once", "once"))
    scenario = scenario.and_(running(0, "once"), FAILED)
    scenario = scenario.and_(scheduled(scenario, 0)).next().is_(RunCalls((0,)))
    scenario = scenario.and_(running(0, "once", attempt=2), returned(0))
    reason = "the run has made all of its 1 calls of once"
    scenario = scenario.next().is_(RunCalls((1,)))
    assert starts_of(scenario, 1) == (ToolCallCancelled(position=1, reason=reason),)


def test_a_run_makes_no_more_calls_than_it_may_and_notes_which_were_too_many() -> None:
    scenario = asking_for("call", "look", limits=Limits(max_tool_calls=1)).and_(running(0, "call"), returned(0))
    reason = "the run has made all of its 1 tool calls"
    refused = ToolCallCancelled(position=1, reason=reason, over_the_limit=True)
    assert starts_of(scenario.next().is_(RunCalls((1,))), 1) == (refused,)
    scenario = scenario.and_(refused)
    assert (scenario.state.tool_call_count, scenario.state.tool_calls_refused) == (1, 1)


@pytest.mark.parametrize("now", [PLAIN, ToolSpec(name="call"), ToolSpec(name="call", retry=ToolRetry(attempts=1))])
def test_a_failure_whose_tool_has_no_tries_left_after_a_deploy_is_the_last_one(now: ToolSpec) -> None:
    scenario = asking_for("call").and_(running(0, "call"), FAILED, paused())
    again = structs.replace(resumed(2, SegmentEnd.PAUSE), agent=agent(now, fingerprint="f2"))
    scenario = scenario.and_(again, decided(0, phase=DecisionPhase.RESUME))
    scenario.next().is_(Record((ended(seconds=2.0, errors=1),)))
