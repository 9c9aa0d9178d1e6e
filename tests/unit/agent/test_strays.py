"""An event about a call that there is not changes no call, wherever it comes: the fold is total."""

from typing import get_args

import pytest
from msgspec import structs

from steptrail.domain.agent.events import (
    AgentEvent,
    AnswerAccepted,
    ApprovalRequested,
    HooksRan,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallDeferred,
    ToolCallHeld,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.tools import ApprovalRule, ToolEffect
from steptrail.domain.usage import BilledUsage, ModelUsage, Usage
from steptrail.testing.scenario import START, AgentScenario, given
from tests.unit.agent.story import agent, asked, opened, rejected, running, step, wants

COUNT = 2
BILL = BilledUsage.of(Usage(input=1), [ModelUsage(asked_for="m", usage=Usage(input=1))])
ERROR = ErrorInfo(type=ErrorType.TOOL, error_class="tests:Error", message="it failed")


def about(position: int) -> list[AgentEvent]:
    return [
        ToolExecutionStarted(
            position=position, call_id="c", tool="look", effect_id="e", effect=ToolEffect.READ, arguments_digest="d"
        ),
        ToolCallDeferred(
            position=position, call_id="c", tool="look", effect_id="e", arguments_digest="d", expires_at=START
        ),
        ToolExecutionCompleted(position=position, result="ok", usage=BILL, duration_seconds=0.0),
        ToolExecutionFailed(position=position, error=ERROR, usage=BILL, duration_seconds=0.0),
        ToolExecutionInterrupted(position=position, reason="crash", then=Then.TELL, usage=BILL, duration_seconds=0.0),
        ToolExecutionSuspended(position=position, session="child", reason="waits", usage=BILL, duration_seconds=0.0),
        ToolRetryScheduled(position=position, failures=1, delay_seconds=1.0, due_at=START, draw=0.5),
        ToolCallAmended(position=position, arguments={}, hook="h"),
        ToolCallBlocked(position=position, reason="no", hook="h"),
        ToolCallCancelled(position=position, reason="stopped"),
        ToolCallHeld(position=position, rule=ApprovalRule(), hook="h"),
        ApprovalRequested(
            approval_id="a", position=position, tool="look", arguments_digest="d", expires_at=START, asked_by="look"
        ),
        HooksRan(hook_type="pre_tool_use", step=1, position=position, hooks=("h",)),
        WaitStarted(kind="approval", position=position),
        AnswerAccepted(step=1, position=position),
        rejected(position=position),
    ]


def test_every_event_that_has_a_position_is_tried_below() -> None:
    positioned = {kind for kind in get_args(AgentEvent) if "position" in kind.__struct_fields__}
    assert {type(event) for event in about(COUNT)} == positioned


@pytest.mark.parametrize("position", [COUNT, COUNT + 5])
@pytest.mark.parametrize("event", about(COUNT), ids=lambda event: type(event).__name__)
def test_a_call_that_there_is_not_is_nobodys(event: AgentEvent, position: int) -> None:
    stray = structs.replace(event, position=position)
    for before in (given(*opened(agent())), calling()):
        after = before.and_(stray, WaitEnded(reason="rerun", by="ana"))
        assert after.state.tool_executions == before.state.tool_executions
        assert after.state.version == before.state.version + 2
        assert after.state.open_approvals == ()


def calling() -> AgentScenario:
    """A step with two calls, of which the first one runs."""
    return given(*opened(agent()), *step(), asked(), wants("look", "look"), running())
