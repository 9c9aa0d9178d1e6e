"""The late report of a worker that has lost its session: what its tools did."""

from steptrail.domain.agent.events import (
    AgentEvent,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionSettledLate,
)
from steptrail.domain.kernel.machine import CallInFlight


def settle_late(event: AgentEvent, call: CallInFlight, segment: int) -> AgentEvent | None:
    """Return the late report of a call's end by a worker of `segment`; None for events that are no end of a call."""
    if not isinstance(event, ToolExecutionCompleted | ToolExecutionFailed):
        return None
    if isinstance(event, ToolExecutionFailed):
        return ToolExecutionSettledLate(
            effect_id=call.effect_id,
            attempt=call.attempt,
            segment=segment,
            error=event.error,
            cut_by=event.cut_by,
            usage=event.usage,
        )
    return ToolExecutionSettledLate(
        effect_id=call.effect_id,
        attempt=call.attempt,
        segment=segment,
        result=event.result,
        shown_characters=event.shown_characters,
        usage=event.usage,
    )
