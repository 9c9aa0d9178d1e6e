"""The lifecycle events that follow from stored events of executions."""

from collections.abc import Callable
from typing import Any

from steptrail.domain.agent import events as stored
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.projections.lifecycle.executions import (
    AgentExecutionCompleted,
    AgentExecutionFailed,
    AgentExecutionPaused,
    AgentExecutionResumed,
    AgentExecutionStarted,
    AgentExecutionStopped,
    AgentExecutionWaitEnded,
    AgentExecutionWaiting,
    MessagesAdded,
    StopSignalReceived,
)
from steptrail.projections.lifecycle.telling import Met, Told

__all__ = ["OF_EXECUTIONS"]


def _said(met: Met, event: stored.MessagesAppended) -> Told:
    del met
    yield MessagesAdded, {"count": len(event.messages), "source": event.source}


def _started(met: Met, event: stored.ExecutionStarted) -> Told:
    yield AgentExecutionStarted, {"messages": len(met.state.messages), "tools": len(event.agent.tools)}
    if event.input is not None:
        yield MessagesAdded, {"count": 1, "source": "input"}


def _resumed(met: Met, event: stored.ExecutionResumed) -> Told:
    del met
    yield AgentExecutionResumed, {"ended_by": event.ended_by}


def _paused(met: Met, event: stored.ExecutionPaused) -> Told:
    del met
    yield AgentExecutionPaused, {"by": event.by, "reason": event.reason}


def _waits(met: Met, event: stored.WaitStarted) -> Told:
    call = met.call(event.position)
    tool, call_id = (call.name, call.call.id) if call is not None else (None, None)
    yield AgentExecutionWaiting, {"kind": event.kind, "until": event.until, "tool": tool, "tool_call_id": call_id}


def _waits_no_more(met: Met, event: stored.WaitEnded) -> Told:
    del met
    yield AgentExecutionWaitEnded, {"reason": event.reason, "by": event.by}


def _asked_to_stop(met: Met, event: stored.StopRequested) -> Told:
    del met
    yield StopSignalReceived, {"source": event.by, "message": event.reason}


def _finished(met: Met, event: stored.ExecutionFinished) -> Told:
    state = met.state
    outcome = state.last_continuation_outcome
    vote = outcome.deciding_vote if outcome is not None else None
    why = vote.reason if vote is not None else event.stop_reason.value
    ended = {
        "status": event.status,
        "stop_reason": event.stop_reason,
        "steps": state.step_count,
        "usage": state.usage,
        "errors": state.total_failures,
        "answered": event.answered,
        "answer": state.output,
    }
    if event.status is ExecutionStatus.FAILED:
        failed = met.last_error
        yield AgentExecutionFailed, {**ended, **failed, "error": why if failed["error"] is None else failed["error"]}
    elif event.stop_reason is StopReason.COMPLETED:
        yield AgentExecutionCompleted, ended
    else:
        context = dict(vote.context) if vote is not None else {}
        yield AgentExecutionStopped, {**ended, "source": event.resolved_by, "message": why, "context": context}


OF_EXECUTIONS: dict[type[stored.AgentEvent], Callable[[Met, Any], Told]] = {
    stored.MessagesAppended: _said,
    stored.ExecutionStarted: _started,
    stored.ExecutionResumed: _resumed,
    stored.ExecutionPaused: _paused,
    stored.WaitStarted: _waits,
    stored.WaitEnded: _waits_no_more,
    stored.StopRequested: _asked_to_stop,
    stored.ExecutionFinished: _finished,
}
