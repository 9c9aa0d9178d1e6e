"""Every way a tool call can stand has a form of its own, from the asking to the end."""

from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolExecutionInterrupted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
    WaitStarted,
)
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.tools import OnUnknown, ToolEffect, ToolRetry, ToolSpec
from steptrail.testing.scenario import SECOND, START, AgentScenario, given
from steptrail.ui import UiConfig, UiMetadata
from tests.unit.agent.story import a_tool, agent, asked, broke, cut_off, ended, opened, running, step
from tests.unit.ui.kit import SHOW_NOTHING, about, look, message, seen

CALL = "session:1:1:0"
DUE = START + 3600 * SECOND
DUE_TEXT = "2026-01-01T01:00:00.000Z"
REQUESTED = ApprovalRequested(
    approval_id=CALL, position=0, tool="look", arguments_digest="d1", expires_at=DUE, asked_by="look", reason="costs"
)


def asking(*more: AgentEvent, snapshot: AgentSnapshot | None = None) -> AgentScenario:
    return given(*opened(snapshot or agent()), *step(), asked(), look(query="dbplus"), *more)


def standing(scenario: AgentScenario) -> UiMetadata:
    shown = about(scenario, CALL)
    assert (shown.tool_call_id, shown.tool_name) == ("c1", "look")
    return shown


def test_a_call_that_nobody_has_started_is_pending_and_one_that_runs_is_running() -> None:
    assert standing(asking()).tool_status == "pending"
    assert standing(asking(running())).tool_status == "running"
    assert message(asking(running()), CALL).content == ""


def test_a_call_that_a_hook_blocks_is_blocked_for_its_reason() -> None:
    blocked = asking(ToolCallBlocked(position=0, reason="not today", hook="guard"))
    for scenario in (blocked, blocked.and_(ended(errors=1))):
        assert (standing(scenario).tool_status, standing(scenario).tool_error) == ("blocked", "not today")


def test_a_call_that_will_not_run_is_cancelled_and_says_why() -> None:
    shown = standing(asking(ToolCallCancelled(position=0, reason="ana stopped the run")))
    assert (shown.tool_status, shown.tool_error) == ("cancelled", "This call was not run: ana stopped the run.")
    assert shown.tool_duration_ms is None


def test_a_call_whose_outcome_is_unknown_is_interrupted() -> None:
    shown = standing(
        asking(
            running(), ToolExecutionInterrupted(position=0, reason="deadline", then=Then.TELL, duration_seconds=75.0)
        )
    )
    assert (shown.tool_status, shown.tool_duration_ms) == ("interrupted", 75_000)
    assert (shown.tool_error or "").startswith("The outcome of this call is unknown")


def test_a_call_that_a_person_must_settle_is_parked_and_its_id_is_what_they_settle() -> None:
    parked = agent(a_tool("look", on_unknown=OnUnknown.PARK))
    scenario = asking(running(), cut_off(0, Then.PARK), snapshot=parked)
    assert (standing(scenario).tool_status, standing(scenario).tool_error) == ("parked", None)
    assert scenario.state.tool_executions[0].effect_id == CALL


def test_a_call_whose_session_waits_is_suspended_until_it_goes_on() -> None:
    shown = standing(
        asking(
            running(), ToolExecutionSuspended(position=0, session="s2", reason="waits", until=DUE, duration_seconds=0.0)
        )
    )
    assert (shown.tool_status, shown.waits_until) == ("suspended", DUE_TEXT)


def test_a_call_that_is_tried_again_says_the_try_and_when() -> None:
    patient = agent(ToolSpec(name="look", effect=ToolEffect.READ, retry=ToolRetry(attempts=3)))
    retryable = structs.replace(broke(), may_retry=True)
    assert standing(asking(running(), snapshot=patient)).retry is None
    failed = asking(running(), retryable, snapshot=patient)
    assert standing(failed).to_dict() == {
        "tool_call_id": "c1",
        "tool_name": "look",
        "tool_status": "retrying",
        "retry": {"attempt": 2, "of": 3},
    }
    waiting = failed.and_(ToolRetryScheduled(position=0, failures=1, delay_seconds=1.0, due_at=DUE, draw=0.5))
    assert (standing(waiting).tool_status, standing(waiting).waits_until) == ("retrying", DUE_TEXT)
    again = standing(waiting.and_(running(attempt=2)))
    assert again.tool_status == "running"
    assert again.retry is not None
    assert again.retry.to_dict() == {"attempt": 2, "of": 3}
    last = waiting.and_(running(attempt=2), broke())
    assert (standing(last).tool_status, standing(last).tool_error, standing(last).retry) == ("failed", "boom", None)


def test_a_call_that_waits_for_a_yes_is_an_open_question() -> None:
    scenario = asking(REQUESTED, WaitStarted(kind="approval", position=0, until=DUE))
    assert (standing(scenario).tool_status, standing(scenario).waits_until) == ("awaiting_approval", DUE_TEXT)
    conversation = seen(scenario)
    assert conversation.status == "waiting"
    assert [approval.to_dict() for approval in conversation.approvals] == [
        {
            "id": CALL,
            "tool": "look",
            "digest": "d1",
            "expires_at": DUE_TEXT,
            "asked_by": "look",
            "reason": "costs",
            "args_summary": "query: 'dbplus'",
        }
    ]
    (whole,) = seen(scenario, UiConfig(include_tool_args=True)).approvals
    assert whole.args == {"query": "dbplus"}
    (bare,) = seen(scenario, SHOW_NOTHING).approvals
    assert (bare.args, bare.args_summary) == (None, None)


def test_a_question_that_was_answered_or_has_expired_is_not_open() -> None:
    yes, no = ApprovalGranted(approval_id=CALL, by="ana"), ApprovalDenied(approval_id=CALL, by="ana", reason="dear")
    granted, denied = asking(REQUESTED, yes), asking(REQUESTED, no)
    expired = asking(REQUESTED, ApprovalExpired(approval_id=CALL))
    assert [seen(each).approvals for each in (granted, denied, expired)] == [(), (), ()]
    assert standing(granted).tool_status == "pending"
    assert (standing(denied).tool_status, standing(denied).tool_error) == (
        "denied",
        "This call was not run: ana denied it: dear.",
    )
    assert standing(expired).tool_status == "denied"


def test_an_approved_call_that_is_parked_is_no_question_any_more() -> None:
    parked = agent(a_tool("look", on_unknown=OnUnknown.PARK))
    yes = ApprovalGranted(approval_id=CALL, by="ana")
    cut = cut_off(0, Then.PARK)
    scenario = asking(REQUESTED, yes, running(), cut, snapshot=parked)
    assert (standing(scenario).tool_status, seen(scenario).approvals) == ("parked", ())
