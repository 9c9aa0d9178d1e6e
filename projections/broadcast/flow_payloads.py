"""The messages about runs of workflows: which lifecycle event makes which, and what it holds."""

from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.live import NodeDelta, NodeProgress
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.payloads import MESSAGES, Message, Payload, error_shown
from steptrail.projections.lifecycle import flow_nodes as nodes, flow_runs as runs

FLOW_STATUS = "flow.status"
FLOW_CHUNK = "flow.stream.chunk"
FLOW_PROGRESS = "flow.node.progress"


def flow_status_payload(
    status: ExecutionStatus, previous: ExecutionStatus, event: runs.FlowRunEvent, config: BroadcastConfig
) -> Payload:
    """Return what is said of a change. All but the two statuses is null until the execution has ended.

    `errors` counts the failures that were recorded. What the run came to is in its stored view.
    """
    ended = event if isinstance(event, runs.FlowExecutionEnded) else None
    failed = event if isinstance(event, runs.FlowExecutionFailed) else None
    return {
        "status": status.value,
        "previous_status": previous.value,
        "stop_reason": ended.stop_reason.value if ended is not None else None,
        "errors": ended.errors if ended is not None else None,
        "error_message": error_shown(failed.error, failed.failure, config) if failed is not None else None,
        "failed_node": failed.node if failed is not None else None,
    }


def node_chunk_payload(delta: NodeDelta, index: int) -> Payload:
    """Return a piece of the text that is written for a node."""
    return {
        **_place(delta),
        "attempt": delta.attempt,
        "content": delta.text,
        "is_complete": delta.is_final,
        "chunk_index": index,
    }


def node_progress_payload(progress: NodeProgress, config: BroadcastConfig) -> Payload:
    """Return how far a try of a node has come."""
    return {
        **_place(progress),
        "attempt": progress.attempt,
        "message": progress.message if config.include_tool_summaries else None,
        "done": progress.done,
        "total": progress.total,
    }


def _place(of: nodes.FlowNodeEvent | NodeDelta | NodeProgress) -> Payload:
    return {"node": of.node, "visit": of.visit, "item": of.item}


@MESSAGES.of(nodes.FlowNodeStarted)
def _started(config: BroadcastConfig, event: nodes.FlowNodeStarted) -> Message:
    return "flow.node.started", {**_place(event), "items": event.items}


@MESSAGES.of(nodes.FlowNodeCompleted)
def _completed(config: BroadcastConfig, event: nodes.FlowNodeCompleted) -> Message:
    chosen: Payload = {"targets": list(event.targets), "item_errors": event.item_errors}
    return "flow.node.completed", {**_place(event), **chosen}


def _failure(config: BroadcastConfig, event: nodes.FlowNodeFailed | nodes.FlowNodeFailureRecorded) -> Message:
    error = error_shown(event.error, event.failure, config)
    is_recorded = isinstance(event, nodes.FlowNodeFailureRecorded)
    return "flow.node.failed", {**_place(event), "failure": event.failure, "error": error, "is_recorded": is_recorded}


MESSAGES.of(nodes.FlowNodeFailed)(_failure)
MESSAGES.of(nodes.FlowNodeFailureRecorded)(_failure)


@MESSAGES.of(nodes.FlowNodeSkipped)
def _skipped(config: BroadcastConfig, event: nodes.FlowNodeSkipped) -> Message:
    return "flow.node.skipped", {**_place(event), "by": event.by}


@MESSAGES.of(nodes.FlowNodeCancelled)
def _cancelled(config: BroadcastConfig, event: nodes.FlowNodeCancelled) -> Message:
    return "flow.node.cancelled", {**_place(event), "reason": event.reason}


@MESSAGES.of(nodes.FlowAttemptStarted)
def _tried(config: BroadcastConfig, event: nodes.FlowAttemptStarted) -> Message:
    return "flow.attempt.started", {**_place(event), "attempt": event.attempt}


@MESSAGES.of(nodes.FlowAttemptEnded)
def _try_ended(config: BroadcastConfig, event: nodes.FlowAttemptEnded) -> Message:
    error = None if event.error is None else error_shown(event.error, event.failure, config)
    said: Payload = {"attempt": event.attempt, "outcome": event.outcome, "failure": event.failure, "error": error}
    return "flow.attempt.completed", {**_place(event), **said, "duration_ms": event.duration_ms}


@MESSAGES.of(nodes.FlowRetryScheduled)
def _retries(config: BroadcastConfig, event: nodes.FlowRetryScheduled) -> Message:
    due: Payload = {"attempt": event.attempt, "due_at": to_datetime(event.due_at).isoformat()}
    return "flow.retry.scheduled", {**_place(event), **due}


@MESSAGES.of(nodes.FlowQuestionAsked)
def _asks(config: BroadcastConfig, event: nodes.FlowQuestionAsked) -> Message:
    shown = config.include_tool_summaries
    options: list[JsonValue] = [*event.options] if shown else []
    return "flow.question.asked", {
        **_place(event),
        "question_id": event.question_id,
        "kind": event.kind,
        "type": event.type,
        "prompt": event.prompt if shown else None,
        "options": options,
        "tool": event.tool,
        "expires_at": None if event.expires_at is None else to_datetime(event.expires_at).isoformat(),
    }


@MESSAGES.of(nodes.FlowQuestionAnswered)
def _answered(config: BroadcastConfig, event: nodes.FlowQuestionAnswered) -> Message:
    said: Payload = {"question_id": event.question_id, "kind": event.kind, "answer": event.answer, "by": event.by}
    return "flow.question.answered", {**_place(event), **said}
