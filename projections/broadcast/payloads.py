"""The one table of messages: which lifecycle event makes which, and what it holds.

Both forms wrap the same payloads.
"""

from typing import TypeAlias

from steptrail.domain.continuation.names import short_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.live import ReplyDelta
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast_text import args_summary, cut_args, result_summary
from steptrail.projections.lifecycle import RunEvent, executions, steps, tools
from steptrail.projections.lifecycle.base import error_text
from steptrail.projections.serialization.cutting import cut
from steptrail.projections.ui.ids import reply_id

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

Message: TypeAlias = tuple[str, Payload]
"""The type of a message, and what it holds."""

MESSAGES = Handlers[BroadcastConfig, [], Message]()
"""Class of a lifecycle event -> the function that makes its message. Those that are not here have none of their own."""


def said_of(event: RunEvent, config: BroadcastConfig) -> Message | None:
    """Return an event's message, beside that of a status; None when it has none."""
    said = MESSAGES.by_class.get(type(event))
    return None if said is None else said(config, event)


def error_shown(message: str, error_type: str | None, config: BroadcastConfig) -> str:
    """Return an error as the configuration shows it: its text, or its type alone."""
    return error_text(message, error_type) if config.include_tool_summaries else error_type or "error"


def status_payload(
    status: ExecutionStatus, previous: ExecutionStatus, event: RunEvent, config: BroadcastConfig
) -> Payload:
    """Return what is said of a change. All but the two statuses is null until the execution has ended."""
    reason, answered, error, response = None, None, None, None
    if isinstance(event, executions.AgentExecutionEnded):
        reason, answered = event.stop_reason.value, event.answered
        if config.include_stream_chunks and event.answer is not None:
            response = cut(event.answer, _LONGEST_RESPONSE)
    if isinstance(event, executions.AgentExecutionFailed):
        error = error_shown(event.error, event.error_type or reason, config)
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


@MESSAGES.of(executions.MessagesAdded)
def _message(config: BroadcastConfig, event: executions.MessagesAdded) -> Message:
    """Say that something was said, and not what: the stored conversation has it."""
    return MESSAGE, {"count": event.count, "source": event.source.value}


@MESSAGES.of(steps.AgentStepStarted)
def _step_started(config: BroadcastConfig, event: steps.AgentStepStarted) -> Message:
    counted: Payload = {"message_count": event.messages, "available_tools": event.tools}
    return STEP_STARTED, {"step_number": event.step, **counted}


@MESSAGES.of(steps.AgentStepCompleted)
def _step_completed(config: BroadcastConfig, event: steps.AgentStepCompleted) -> Message:
    return STEP_COMPLETED, {
        "step_number": event.step,
        "has_tool_calls": event.has_tool_calls,
        "has_text": event.has_text,
        "errors": event.errors,
        "finish_reason": event.finish_reason,
        "usage": {**event.usage.to_dict(), "total": event.usage.total},
        "duration_ms": event.duration_ms,
    }


@MESSAGES.of(steps.DecisionTaken)
def _decided(config: BroadcastConfig, event: steps.DecisionTaken) -> Message:
    outcome = event.outcome
    votes: list[JsonValue] = [
        {
            "criterion": short_name(vote.criterion_class),
            "decision": vote.decision.value,
            "reason": vote.reason if config.include_tool_summaries else None,
        }
        for vote in outcome.evaluations
    ]
    return CONTINUATION, {
        "step_number": event.step,
        "should_continue": outcome.should_continue,
        "stop_reason": outcome.stop_reason.value,
        "resolved_by": short_name(outcome.resolved_by),
        "resolved_by_path": outcome.resolved_by,
        "evaluations": votes,
    }


@MESSAGES.of(tools.ToolCallStarted)
def _tool_started(config: BroadcastConfig, event: tools.ToolCallStarted) -> Message:
    if config.include_tool_args:
        return TOOL_STARTED, {**_whose(event), "args": cut_args(event.args, config.max_arg_length)}
    summary = args_summary(event.args) if config.include_tool_summaries else None
    return TOOL_STARTED, {**_whose(event), "args_summary": summary}


@MESSAGES.of(tools.ToolCallCompleted)
def _tool_completed(config: BroadcastConfig, event: tools.ToolCallCompleted) -> Message:
    error = None if event.error is None else error_shown(event.error, event.error_type, config)
    shown = event.success and config.include_tool_summaries
    return _ended(event, error, event.duration_ms, result_summary(event.result) if shown else None)


# A front end that shows a call waits for its end, and these two have no other.
@MESSAGES.of(tools.CallBlocked)
def _tool_blocked(config: BroadcastConfig, event: tools.CallBlocked) -> Message:
    return _ended(event, f"blocked: {event.reason}" if config.include_tool_summaries else "blocked")


@MESSAGES.of(tools.CallCancelled)
def _tool_cancelled(config: BroadcastConfig, event: tools.CallCancelled) -> Message:
    return _ended(event, f"cancelled: {event.reason}" if config.include_tool_summaries else "cancelled")


def _ended(event: tools.ToolCallEvent, error: str | None, duration_ms: int = 0, result: str | None = None) -> Message:
    return TOOL_COMPLETED, {
        **_whose(event),
        "success": error is None,
        "error": error,
        "duration_ms": duration_ms,
        "result_summary": result,
    }


def _whose(event: tools.ToolCallEvent) -> Payload:
    return {
        "tool": event.tool,
        "tool_name": event.tool,
        "tool_call_id": event.tool_call_id,
        "message_id": event.message_id,
    }
