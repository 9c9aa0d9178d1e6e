"""Task 2.3: the decision as an event."""

import asyncio
from collections.abc import Sequence

import pytest

from steptrail import RunResult
from steptrail.domain.agent.describe import continuation_payload, continuation_text
from steptrail.domain.agent.events import AgentEvent, ContinuationEvaluated, EvaluationsRecorded
from steptrail.domain.continuation.decision import ContinuationDecision, StopReason
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.record import Recorded
from steptrail.testing import call
from tests.runner.kit import agent_of, trail_of

GOING_ON = ContinuationEvaluated(
    step=1,
    decision=ContinuationDecision.REQUEST,
    should_continue=True,
    resolved_by="ToolCallPresenceCheck",
)
STOPPED = ContinuationEvaluated(
    step=2,
    decision=ContinuationDecision.FORBID,
    should_continue=False,
    resolved_by="StepsLimit",
    stop_reason=StopReason.STEPS_LIMIT,
)


def subscribed() -> tuple[RunResult, list[AgentEvent]]:
    """Two steps with tools against a limit of two, and what a subscriber was told."""
    received: list[AgentEvent] = []

    def listen(records: Sequence[Recorded[AgentEvent]]) -> None:
        received.extend(record.event for record in records)

    async def run() -> RunResult:
        agent = agent_of([call("add", a=1, b=2), call("add", a=3, b=4), "never said"]).with_max_steps(2).build()
        async with trail_of() as trail:
            return await trail.run(agent, "go", session="s", on_commit=listen)

    return asyncio.run(run()), received


@pytest.mark.acceptance("2.3-1")
def test_a_subscriber_receives_one_decision_after_each_step() -> None:
    result, received = subscribed()
    assert result.state.step_count == 2
    assert [event.step for event in received if isinstance(event, ContinuationEvaluated)] == [0, 1, 2]


@pytest.mark.acceptance("2.3-2")
def test_the_decision_and_the_votes_beside_it_are_the_whole_outcome() -> None:
    result, received = subscribed()
    votes, decision = received[-3:-1]
    assert isinstance(votes, EvaluationsRecorded)
    assert isinstance(decision, ContinuationEvaluated)
    whole = ContinuationOutcome(
        decision=decision.decision,
        should_continue=decision.should_continue,
        resolved_by=decision.resolved_by,
        stop_reason=decision.stop_reason,
        evaluations=votes.votes,
    )
    assert whole == result.outcome == ContinuationOutcome.from_evaluations(votes.votes)
    assert (whole.stop_reason, whole.resolved_by) == (StopReason.STEPS_LIMIT, "StepsLimit")
    assert len(whole.evaluations) > 5


@pytest.mark.acceptance("2.3-3")
@pytest.mark.parametrize(
    ("event", "agent_id", "line"),
    [
        (GOING_ON, "triage-2026-11", "Agent [triage-2] step 1: CONTINUE (requested by ToolCallPresenceCheck)"),
        (STOPPED, "triage-2026-11", "Agent [triage-2] step 2: STOP (steps_limit)"),
        (STOPPED, "ana", "Agent [ana] step 2: STOP (steps_limit)"),
    ],
)
def test_the_decision_as_text(event: ContinuationEvaluated, agent_id: str, line: str) -> None:
    assert continuation_text(event, agent_id) == line


@pytest.mark.acceptance("2.3-4")
def test_the_payload_of_the_decision() -> None:
    assert continuation_payload(STOPPED, "child", "parent") == {
        "agentId": "child",
        "parentAgentId": "parent",
        "step": 2,
        "shouldContinue": False,
        "stopReason": "steps_limit",
        "resolvedBy": "StepsLimit",
    }
    assert continuation_payload(GOING_ON, "root")["parentAgentId"] is None
