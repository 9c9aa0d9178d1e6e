"""A decision for subscribers: as one line, and as a payload. The event itself does not know whose it is."""

from pydantic import JsonValue

from steptrail.domain.agent.events import ContinuationEvaluated

__all__ = ["continuation_payload", "continuation_text"]

_ID_SHOWN = 8


def continuation_text(event: ContinuationEvaluated, agent_id: str) -> str:
    """Return the decision in one line, such as `Agent [triage-7] step 2: STOP (steps_limit)`."""
    if event.should_continue:
        verdict = f"CONTINUE (requested by {event.resolved_by})"
    else:
        verdict = f"STOP ({event.stop_reason.value})"
    return f"Agent [{agent_id[:_ID_SHOWN]}] step {event.step}: {verdict}"


def continuation_payload(
    event: ContinuationEvaluated, agent_id: str, parent_agent_id: str | None = None
) -> dict[str, JsonValue]:
    """Return `agentId`, `parentAgentId`, `step`, `shouldContinue`, `stopReason` and `resolvedBy`."""
    return {
        "agentId": agent_id,
        "parentAgentId": parent_agent_id,
        "step": event.step,
        "shouldContinue": event.should_continue,
        "stopReason": event.stop_reason.value,
        "resolvedBy": event.resolved_by,
    }
