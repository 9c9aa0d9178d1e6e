"""Task 2.3: the decision as an event."""

import pytest

from steptrail import RunResult
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.lifecycle import DecisionTaken
from steptrail.testing import call
from tests.runner.kit import NOON, agent_of, trail_of

GOING_ON = ContinuationOutcome(
    decision=ContinuationDecision.REQUEST,
    should_continue=True,
    resolved_by="ToolCallPresenceCheck",
    stop_reason=StopReason.COMPLETED,
)
STOPPED = ContinuationOutcome(
    decision=ContinuationDecision.FORBID,
    should_continue=False,
    resolved_by="StepsLimit",
    stop_reason=StopReason.STEPS_LIMIT,
)


def decided(outcome: ContinuationOutcome, step: int, session_id: str, parent: str | None = None) -> DecisionTaken:
    return DecisionTaken(
        session_id=session_id,
        parent_session_id=parent,
        execution_id=f"{session_id}:1",
        version=9,
        at=NOON,
        session_status=ExecutionStatus.IN_PROGRESS,
        step=step,
        phase=DecisionPhase.BOUNDARY,
        outcome=outcome,
    )


async def subscribed() -> tuple[RunResult, list[DecisionTaken]]:
    """Two steps with tools against a limit of two, and what a subscriber was told."""
    received: list[DecisionTaken] = []
    agent = agent_of([call("add", a=1, b=2), call("add", a=3, b=4), "never said"]).with_max_steps(2).build()
    async with trail_of() as trail:
        trail.on(DecisionTaken, received.append)
        return await trail.run(agent, "go", session="s"), received


@pytest.mark.acceptance("2.3-1")
async def test_a_subscriber_receives_one_decision_after_each_step() -> None:
    result, received = await subscribed()
    assert result.state.step_count == 2
    assert [event.step for event in received] == [0, 1, 2]


@pytest.mark.acceptance("2.3-2")
async def test_the_decision_is_the_whole_outcome() -> None:
    result, received = await subscribed()
    whole = received[-1].outcome
    assert whole == result.outcome == ContinuationOutcome.from_evaluations(whole.evaluations)
    assert (whole.stop_reason, whole.resolved_by) == (StopReason.STEPS_LIMIT, "StepsLimit")
    assert len(whole.evaluations) > 5


@pytest.mark.acceptance("2.3-3")
@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            decided(GOING_ON, 1, "triage-2026-11"),
            "Agent [triage-2] step 1: CONTINUE (requested by ToolCallPresenceCheck)",
        ),
        (decided(STOPPED, 2, "triage-2026-11"), "Agent [triage-2] step 2: STOP (steps_limit)"),
        (decided(STOPPED, 2, "ana"), "Agent [ana] step 2: STOP (steps_limit)"),
        (decided(STOPPED, 2, "ana", "parent-1234"), "Agent [ana] [parent=parent-1] step 2: STOP (steps_limit)"),
    ],
)
def test_the_decision_as_text(event: DecisionTaken, line: str) -> None:
    assert str(event) == line


@pytest.mark.acceptance("2.3-4")
def test_the_payload_of_the_decision() -> None:
    assert decided(STOPPED, 2, "child", "parent").to_dict() == {
        "agentId": "child",
        "parentAgentId": "parent",
        "executionId": "child:1",
        "step": 2,
        "shouldContinue": False,
        "stopReason": "steps_limit",
        "resolvedBy": "StepsLimit",
    }
    assert decided(GOING_ON, 1, "root").to_dict()["parentAgentId"] is None
