"""The status of a run as front ends are told it: what is going on, or how it ended.

It is not the status of the session: a run that a limit ended is `stopped` here and `completed` there.
"""

from enum import StrEnum

from steptrail.domain.continuation.decision import StopReason
from steptrail.projections.lifecycle import (
    AgentEvent,
    AgentExecutionEnded,
    AgentExecutionPaused,
    AgentExecutionResumed,
    AgentExecutionWaiting,
    AgentStepStarted,
    ContinuationEvaluated,
    InferenceRequestStarted,
    ToolCallStarted,
)

__all__ = ["BroadcastStatus", "status_after"]


class BroadcastStatus(StrEnum):
    """What a run is doing, or how it ended; `idle` is before the first step."""

    IDLE = "idle"
    PROCESSING = "processing"
    PAUSED = "paused"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"


_BY_REASON = {
    StopReason.COMPLETED: BroadcastStatus.COMPLETED,
    StopReason.ERROR: BroadcastStatus.FAILED,
    StopReason.USER_REQUESTED: BroadcastStatus.CANCELLED,
}


def status_after(event: AgentEvent) -> BroadcastStatus | None:
    """Return the status that an event means, nothing for one that means no change."""
    match event:
        # A wait of a moment ends without a word of its own: the work that goes on is what tells.
        case AgentStepStarted() | InferenceRequestStarted() | ToolCallStarted() | AgentExecutionResumed():
            return BroadcastStatus.PROCESSING
        case AgentExecutionPaused():
            return BroadcastStatus.PAUSED
        case AgentExecutionWaiting():
            return BroadcastStatus.WAITING
        case ContinuationEvaluated():
            if event.outcome.should_continue:
                # A stop hook carries on a run whose end has been told already.
                return BroadcastStatus.PROCESSING if event.phase == "stop" else None
            return _ended(event.outcome.stop_reason)
        case AgentExecutionEnded():
            return _ended(event.stop_reason)
        case _:
            return None


def _ended(reason: StopReason) -> BroadcastStatus:
    return _BY_REASON.get(reason, BroadcastStatus.STOPPED)
