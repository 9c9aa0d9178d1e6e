"""The one table of messages: which lifecycle event makes which, and what it holds.

Both forms wrap the same payloads.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from pydantic import JsonValue

from steptrail.domain.continuation.names import short_name
from steptrail.domain.live import ReplyDelta
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast_text import args_summary, cut_args, result_summary
from steptrail.projections.lifecycle import (
    AgentExecutionEnded,
    AgentExecutionFailed,
    AgentStepCompleted,
    AgentStepStarted,
    CallBlocked,
    CallCancelled,
    DecisionTaken,
    MessagesAdded,
    RunEvent,
    ToolCallCompleted,
    ToolCallEvent,
    ToolCallStarted,
)
from steptrail.projections.lifecycle.base import told
from steptrail.projections.serialization.cutting import cut
from steptrail.projections.ui.ids import reply_id

__all__ = ["CHUNK", "CONTINUATION", "STATUS", "chunk_payload", "said_of", "status_payload"]

STATUS = "agent.status"
MESSAGE = "agent.message"
STEP_STARTED = "agent.step.started"
STEP_COMPLETED = "agent.step.completed"
TOOL_STARTED = "agent.tool.started"
TOOL_COMPLETED = "agent.tool.completed"
CHUNK = "agent.stream.chunk"
CONTINUATION = "agent.continuation"

_LONGEST_RESPONSE = 1000

Payload: TypeAlias = dict[str, JsonValue]


def said_of(event: RunEvent, config: BroadcastConfig) -> tuple[str, Payload] | None:
    """Return the type and the payload of an event's message, beside that of a status; None when it has none."""
    entry = _TABLE.get(type(event))
    return None if entry is None else (entry[0], entry[1](event, config))


def status_payload(
    status: ExecutionStatus, previous: ExecutionStatus, event: RunEvent, config: BroadcastConfig
) -> Payload:
    """Return what is said of a change. All but the two statuses is null until the execution has ended."""
    reason, answered, error, response = None, None, None, None
    if isinstance(event, AgentExecutionEnded):
        reason, answered = event.stop_reason.value, event.answered
        if config.include_stream_chunks and event.answer is not None:
            response = cut(event.answer, _LONGEST_RESPONSE)
    if isinstance(event, AgentExecutionFailed):
        error = _error(event.error, event.error_type or reason, config)
    return {
        "status": status.value,
        "previous_status": previous.value,
        "stop_reason": reason,
        "answered": answered,
        "error_message": error,
        "last_response": response,
    }


def chunk_payload(delta: ReplyDelta, index: int) -> Payload:
    """Return a piece of a reply. Which `attempt` at which step it belongs to tells what a failed one has left over.

    `message_id` is the id that the reply will have in the stored conversation.
    """
    return {
        "message_id": reply_id(delta.execution_id, delta.step),
        "content": delta.text,
        "is_complete": delta.is_final,
        "chunk_index": index,
        "step_number": delta.step,
        "attempt": delta.attempt,
    }


def _message(event: MessagesAdded, config: BroadcastConfig) -> Payload:
    """Say that something was said, and not what: the stored conversation has it."""
    del config
    return {"count": event.count, "source": event.source}


def _step_started(event: AgentStepStarted, config: BroadcastConfig) -> Payload:
    del config
    return {"step_number": event.step, "message_count": event.messages, "available_tools": event.tools}


def _step_completed(event: AgentStepCompleted, config: BroadcastConfig) -> Payload:
    del config
    return {
        "step_number": event.step,
        "has_tool_calls": event.has_tool_calls,
        "errors": event.errors,
        "finish_reason": event.finish_reason,
        "usage": {**event.usage.to_dict(), "total": event.usage.total},
        "duration_ms": event.duration_ms,
    }


def _tool_started(event: ToolCallStarted, config: BroadcastConfig) -> Payload:
    if config.include_tool_args:
        return {**_whose(event), "args": cut_args(event.args, config.max_arg_length)}
    return {**_whose(event), "args_summary": args_summary(event.args) if config.include_tool_summaries else None}


def _tool_completed(event: ToolCallCompleted, config: BroadcastConfig) -> Payload:
    error = None if event.error is None else _error(event.error, event.error_type, config)
    shown = event.success and config.include_tool_summaries
    return _ended(event, error, event.duration_ms, result_summary(event.result) if shown else None)


def _tool_blocked(event: CallBlocked, config: BroadcastConfig) -> Payload:
    return _ended(event, f"blocked: {event.reason}" if config.include_tool_summaries else "blocked")


def _tool_cancelled(event: CallCancelled, config: BroadcastConfig) -> Payload:
    return _ended(event, f"cancelled: {event.reason}" if config.include_tool_summaries else "cancelled")


def _ended(event: ToolCallEvent, error: str | None, duration_ms: int = 0, result: str | None = None) -> Payload:
    return {
        **_whose(event),
        "success": error is None,
        "error": error,
        "duration_ms": duration_ms,
        "result_summary": result,
    }


def _whose(event: ToolCallEvent) -> Payload:
    return {
        "tool": event.tool,
        "tool_name": event.tool,
        "tool_call_id": event.tool_call_id,
        "message_id": event.message_id,
    }


def _continuation(event: DecisionTaken, config: BroadcastConfig) -> Payload:
    outcome = event.outcome
    votes: list[JsonValue] = [
        {
            "criterion": short_name(vote.criterion_class),
            "decision": vote.decision.value,
            "reason": vote.reason if config.include_tool_summaries else None,
        }
        for vote in outcome.evaluations
    ]
    return {
        "step_number": event.step,
        "should_continue": outcome.should_continue,
        "stop_reason": outcome.stop_reason.value,
        "resolved_by": short_name(outcome.resolved_by),
        "resolved_by_path": outcome.resolved_by,
        "evaluations": votes,
    }


def _error(message: str, error_type: str | None, config: BroadcastConfig) -> str:
    return told(message, error_type) if config.include_tool_summaries else error_type or "error"


_TABLE: dict[type[RunEvent], tuple[str, Callable[[Any, BroadcastConfig], Payload]]] = {
    MessagesAdded: (MESSAGE, _message),
    AgentStepStarted: (STEP_STARTED, _step_started),
    AgentStepCompleted: (STEP_COMPLETED, _step_completed),
    ToolCallStarted: (TOOL_STARTED, _tool_started),
    ToolCallCompleted: (TOOL_COMPLETED, _tool_completed),
    # Whoever shows a call waits for its end, and these have no other.
    CallBlocked: (TOOL_COMPLETED, _tool_blocked),
    CallCancelled: (TOOL_COMPLETED, _tool_cancelled),
    DecisionTaken: (CONTINUATION, _continuation),
}
