"""Neighbouring calls of one reply whose tools allow it run side by side; everything else keeps its turn."""

import pytest
from msgspec import structs

from steptrail.domain.agent.effects import AskPeople, Record, RunCalls, RunHooks
from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalRequested,
    StopRequested,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolExecutionStarted,
    ToolRetryScheduled,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.hooks.types import HookType
from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolRetry, ToolSpec
from steptrail.testing.scenario import SECOND, AgentScenario, given
from tests.unit.agent.story import (
    agent,
    asked,
    broke,
    cut_off,
    decided,
    hooks_ran,
    opened,
    pause_asked,
    resumed,
    returned,
    running,
    step,
    wants,
)

LOOK, BUY = ToolSpec(name="look", effect=ToolEffect.READ), ToolSpec(name="buy")
ASK = ToolSpec(name="ask", effect=ToolEffect.READ, approval=ApprovalRule())


def asking_for(*tools: str, limits: Limits | None = None, hooks: tuple[HookType, ...] = ()) -> AgentScenario:
    return given(*opened(agent(LOOK, BUY, ASK, limits=limits, hooks=hooks)), *step(), asked(), wants(*tools))


def looking(position: int, *, attempt: int = 1) -> ToolExecutionStarted:
    return running(position, "look", ToolEffect.READ, attempt=attempt)


def test_neighbours_that_read_start_together_and_then_run_until_each_has_ended() -> None:
    scenario = asking_for("look", "look", "look").next().is_(RunCalls((0, 1, 2)))
    scenario = scenario.and_(looking(0), looking(1), looking(2)).next().is_(RunCalls(running=(0, 1, 2)))
    scenario = scenario.and_(returned(1)).next().is_(RunCalls(running=(0, 2)))
    scenario = scenario.and_(broke(0)).next().is_(RunCalls(running=(2,)))
    answers = scenario.and_(returned(2)).state.tool_executions
    assert [call.status for call in answers] == ["failed", "completed", "completed"]


@pytest.mark.parametrize(("tool", "may"), [("look", True), ("buy", False), ("ask", False), ("nobody", False)])
def test_what_has_effects_or_needs_a_yes_or_is_not_there_waits_until_those_before_it_have_ended(
    tool: str, may: bool
) -> None:
    both = asking_for("look", tool).next().is_(RunCalls((0, 1) if may else (0,)))
    both.and_(looking(0)).next().is_(RunCalls((1,) if may else (), (0,)))


def test_nothing_runs_beside_a_call_with_effects() -> None:
    scenario = asking_for("buy", "look", "look").and_(running(0, "buy")).next().is_(RunCalls(running=(0,)))
    scenario.and_(returned(0)).next().is_(RunCalls((1, 2)))


def test_a_tool_may_say_otherwise_of_itself() -> None:
    post = ToolSpec(name="post", effect=ToolEffect.KEYED, concurrent=True)
    tail = ToolSpec(name="tail", effect=ToolEffect.READ, concurrent=False)
    scenario = given(*opened(agent(post, tail)), *step(), asked(), wants("post", "post", "tail"))
    scenario = scenario.next().is_(RunCalls((0, 1))).and_(running(0, "post", ToolEffect.KEYED))
    scenario = scenario.next().is_(RunCalls((1,), (0,)))
    scenario.and_(running(1, "post", ToolEffect.KEYED)).next().is_(RunCalls(running=(0, 1)))


def test_no_more_run_at_once_than_the_limit_says_and_the_next_starts_when_one_has_ended() -> None:
    scenario = asking_for("look", "look", "look", limits=Limits(max_concurrent_tools=2))
    scenario = scenario.next().is_(RunCalls((0, 1))).and_(looking(0), looking(1))
    scenario = scenario.next().is_(RunCalls(running=(0, 1)))
    scenario.and_(returned(1)).next().is_(RunCalls((2,), (0,)))


def test_a_limit_of_one_runs_them_one_after_the_other() -> None:
    scenario = asking_for("look", "look", limits=Limits(max_concurrent_tools=1)).and_(looking(0))
    scenario = scenario.next().is_(RunCalls(running=(0,)))
    scenario.and_(returned(0)).next().is_(RunCalls((1,)))


def test_the_hooks_about_all_of_them_run_before_the_first_starts_and_after_the_last_has_ended() -> None:
    before, after = HookType.PRE_TOOL_USE, HookType.POST_TOOL_USE
    scenario = asking_for("look", "look", hooks=(before, after)).next().is_(RunHooks(before, 1, 0))
    scenario = scenario.and_(hooks_ran(before, 1, 0)).next().is_(RunHooks(before, 1, 1))
    scenario = scenario.and_(hooks_ran(before, 1, 1), looking(0), looking(1), returned(0))
    scenario = scenario.next().is_(RunCalls(running=(1,)))
    scenario = scenario.and_(returned(1)).next().is_(RunHooks(after, 1, 0))
    scenario.and_(hooks_ran(after, 1, 0)).next().is_(RunHooks(after, 1, 1))


def test_after_a_crash_too_the_hooks_come_after_the_last_end() -> None:
    after, lost = HookType.POST_TOOL_USE, cut_off(1, Then.RERUN)
    scenario = asking_for("look", "look", hooks=(after,)).and_(looking(0), looking(1), returned(0))
    scenario = scenario.and_(resumed(), decided(0, phase=DecisionPhase.RESUME), lost).next().is_(RunCalls((1,)))
    scenario.and_(looking(1, attempt=2), returned(1)).next().is_(RunHooks(after, 1, 0))


def test_a_call_that_a_hook_blocks_keeps_no_other_from_running_beside_its_neighbours() -> None:
    no = ToolCallBlocked(position=1, reason="no", hook="guard")
    scenario = asking_for("look", "look", "look").and_(no).next().is_(RunCalls((0, 2)))
    scenario.and_(looking(0), looking(2)).next().is_(RunCalls(running=(0, 2)))


def test_a_call_that_needs_a_yes_is_asked_for_when_the_calls_before_it_have_ended() -> None:
    scenario = asking_for("look", "ask").and_(looking(0), returned(0))
    (effect,) = scenario.next().effects
    assert isinstance(effect, AskPeople)
    assert isinstance(effect.events[0], ApprovalRequested)


@pytest.mark.parametrize("command", [pause_asked(), StopRequested(by="ops")])
def test_nothing_starts_beside_a_running_call_after_a_pause_or_a_stop_was_asked_for(command: AgentEvent) -> None:
    asking_for("look", "look").and_(looking(0), command).next().is_(RunCalls(running=(0,)))


def test_those_that_have_not_started_are_cancelled_when_a_stop_has_let_the_others_end() -> None:
    stopped = asking_for("look", "look").and_(looking(0), StopRequested(by="ops"), returned(0))
    stopped.next().is_(Record((ToolCallCancelled(position=1, reason="ops stopped the run"),)))


def test_those_that_a_crash_cut_off_are_closed_together_and_start_again_together() -> None:
    lost = [cut_off(i, Then.RERUN) for i in (0, 2)]
    scenario = asking_for("look", "look", "look").and_(looking(0), looking(1), looking(2), returned(1))
    scenario = scenario.and_(resumed(), decided(0, phase=DecisionPhase.RESUME)).next().is_(Record(tuple(lost)))
    scenario = scenario.and_(*lost).next().is_(RunCalls((0, 2)))
    scenario.and_(looking(0, attempt=2), looking(2, attempt=2)).next().is_(RunCalls(running=(0, 2)))


PARKS = ToolSpec(name="pay", on_unknown=OnUnknown.PARK, concurrent=True, retry=ToolRetry(attempts=2))
FAILED = structs.replace(broke(1), may_retry=True)
ASKED_ABOUT = WaitStarted(kind="unknown_outcome", position=0)


def parked_beside(*others: str, limits: Limits | None = None) -> AgentScenario:
    """Return a reply whose first call is parked, beside other calls of its group."""
    calls = given(*opened(agent(PARKS, LOOK, BUY, limits=limits)), *step(), asked(), wants("pay", *others))
    return calls.and_(running(0, "pay"))


def test_calls_beside_one_that_a_person_is_asked_about_go_on_before_the_question() -> None:
    one_at_a_time = parked_beside("look", "buy", limits=Limits(max_concurrent_tools=2))
    again = one_at_a_time.and_(running(1, "look", ToolEffect.READ), resumed(), cut_off(0, Then.PARK))
    again = again.and_(cut_off(1, Then.RERUN), decided(0, phase=DecisionPhase.RESUME))
    again = again.next().is_(RunCalls(starts=(1,)))
    ended = again.and_(running(1, "look", ToolEffect.READ, attempt=2), returned(1))
    ended.next().is_(Record((ASKED_ABOUT,)))  # the next call is of another group, and has its turn after the answer


def test_the_retry_of_a_call_beside_one_that_a_person_is_asked_about_is_not_held_up() -> None:
    failed = parked_beside("pay").and_(running(1, "pay"), cut_off(0, Then.PARK), FAILED)
    due_at = failed.clock + SECOND
    again = ToolRetryScheduled(position=1, failures=1, delay_seconds=1.0, due_at=due_at, draw=0.5)
    waits = WaitStarted(kind="tool_retry", until=due_at, position=1)
    retrying = failed.and_(again).next().is_(Record((waits,)))
    due = retrying.and_(waits).at(due_at, WaitEnded(reason="due"), decided(0, phase=DecisionPhase.RESUME))
    due = due.next().is_(RunCalls(starts=(1,)))
    due.and_(running(1, "pay", attempt=2), returned(1)).next().is_(Record((ASKED_ABOUT,)))
    stopped = failed.and_(again, StopRequested(by="ana")).next()
    stopped.is_(Record((ASKED_ABOUT,)))
