"""The tool message of a call: the same from the model's asking to the result, however the call ends.

What was settled is read from the conversation, what is still open from the open step. A call says the same of itself
before its step is completed and after.
"""

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.failures import ErrorType
from steptrail.domain.messages import Message, ToolResultPart
from steptrail.domain.tools import ToolSpec, failure_text
from steptrail.projections.broadcast_text import result_summary, timestamp_text
from steptrail.projections.lifecycle.base import in_ms
from steptrail.projections.ui.config import UiConfig
from steptrail.projections.ui.models import UiFile, UiMessage, UiMetadata, UiRetry, UiToolStatus

_SETTLED: dict[CallStatus, UiToolStatus] = {
    CallStatus.COMPLETED: "completed",
    CallStatus.FAILED: "failed",
    CallStatus.BLOCKED: "blocked",
    CallStatus.DENIED: "denied",
    CallStatus.CANCELLED: "cancelled",
    CallStatus.INTERRUPTED: "interrupted",
}


def settled_call(message_id: str, message: Message, origin: MessageOrigin, config: UiConfig) -> UiMessage:
    """Return the message of a call that has ended, or of a result that somebody else put into the conversation."""
    part = next((part for part in message.parts if isinstance(part, ToolResultPart)), None)
    text, is_error = (part.text, part.is_error) if part is not None else (message.text, False)
    status: UiToolStatus = "failed" if is_error else "completed"
    error_type = origin.error_type
    if origin.status is not None:
        status = _SETTLED.get(origin.status, status)
    elif is_error:
        error_type = ErrorType.UNKNOWN
    error = config.shown_error(text.removeprefix(failure_text("")), error_type) if is_error else None
    result = text if config.include_tool_results and error is None else None
    summary = result_summary(result)
    metadata = UiMetadata(
        tool_call_id=part.call_id if part is not None else None,
        tool_name=part.name if part is not None else None,
        tool_status=status,
        tool_result=result,
        tool_result_summary=summary,
        tool_error=error,
        tool_duration_ms=in_ms(origin.duration_seconds) if origin.duration_seconds > 0 else None,
        files=UiFile.of(message.files) if config.include_tool_results else None,
        said_by=origin.hook,
    )
    content = error if error is not None else summary or ""
    return UiMessage(
        id=message_id, role="tool", content=content, timestamp=timestamp_text(origin.at), metadata=metadata
    )


def open_call(message_id: str, call: ToolExecution, at: int, spec: ToolSpec | None) -> UiMessage:
    """Return the message of a call that has not ended, or that a person has to say the end of."""
    status, until = _standing(call)
    tries = spec.retry.attempts if spec is not None and spec.retry is not None else 1
    retry = UiRetry(attempt=call.failures + 1, of=tries) if 0 < call.failures < tries else None
    metadata = UiMetadata(
        tool_call_id=call.call.id,
        tool_name=call.name,
        tool_status=status,
        waits_until=timestamp_text(until) if until is not None else None,
        retry=retry,
    )
    return UiMessage(id=message_id, role="tool", content="", timestamp=timestamp_text(at), metadata=metadata)


def _standing(call: ToolExecution) -> tuple[UiToolStatus, int | None]:
    """Return where an open call stands, and until when."""
    match call.phase:
        case CallPhase.PARKED:
            return "parked", None
        case CallPhase.RUNNING | CallPhase.IN_DOUBT:
            return "running", None
        case CallPhase.ASKING:
            return "awaiting_approval", call.approval.expires_at if call.approval is not None else None
        case CallPhase.DEFERRED:
            return "awaiting_result", call.deferral.expires_at if call.deferral is not None else None
        case CallPhase.SUSPENDED:
            return "suspended", call.suspension.until if call.suspension is not None else None
        case CallPhase.RETRYABLE | CallPhase.RETRYING:
            return "retrying", call.due_at
        case _:
            return "pending", None
