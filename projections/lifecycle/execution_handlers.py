"""The lifecycle events that follow from stored events of executions."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.usage import Usage
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
from steptrail.projections.lifecycle.telling import Head, Met, Tellers, Told

__all__ = ["OF_EXECUTIONS"]

OF_EXECUTIONS = Tellers()


@OF_EXECUTIONS.of(stored.MessagesAppended)
def _said(met: Met, event: stored.MessagesAppended) -> Told:
    yield MessagesAdded(**met.head(), count=len(event.messages), source=event.source)


@OF_EXECUTIONS.of(stored.ExecutionStarted)
def _started(met: Met, event: stored.ExecutionStarted) -> Told:
    yield AgentExecutionStarted(**met.head(), messages=len(met.state.messages), tools=len(event.agent.tools))
    if event.input is not None:
        yield MessagesAdded(**met.head(), count=1, source=MessageSource.INPUT)


@OF_EXECUTIONS.of(stored.ExecutionResumed)
def _resumed(met: Met, event: stored.ExecutionResumed) -> Told:
    yield AgentExecutionResumed(**met.head(), ended_by=event.ended_by)


@OF_EXECUTIONS.of(stored.ExecutionPaused)
def _paused(met: Met, event: stored.ExecutionPaused) -> Told:
    yield AgentExecutionPaused(**met.head(), by=event.by, reason=event.reason)


@OF_EXECUTIONS.of(stored.WaitStarted)
def _waits(met: Met, event: stored.WaitStarted) -> Told:
    call = met.call(event.position)
    tool, call_id = (call.name, call.call.id) if call is not None else (None, None)
    yield AgentExecutionWaiting(**met.head(), kind=event.kind, until=event.until, tool=tool, tool_call_id=call_id)


@OF_EXECUTIONS.of(stored.WaitEnded)
def _waits_no_more(met: Met, event: stored.WaitEnded) -> Told:
    yield AgentExecutionWaitEnded(**met.head(), reason=event.reason, by=event.by)


@OF_EXECUTIONS.of(stored.StopRequested)
def _asked_to_stop(met: Met, event: stored.StopRequested) -> Told:
    yield StopSignalReceived(**met.head(), source=event.by, message=event.reason)


class _Ended(Head):
    status: ExecutionStatus
    stop_reason: StopReason
    steps: int
    usage: Usage
    errors: int
    answered: bool
    answer: str | None


@OF_EXECUTIONS.of(stored.ExecutionFinished)
def _finished(met: Met, event: stored.ExecutionFinished) -> Told:
    state = met.state
    outcome = state.last_continuation_outcome
    vote = outcome.deciding_vote if outcome is not None else None
    why = vote.reason if vote is not None else event.stop_reason.value
    ended: _Ended = {
        **met.head(),
        "status": event.status,
        "stop_reason": event.stop_reason,
        "steps": state.step_count,
        "usage": state.usage,
        "errors": state.total_failures,
        "answered": event.answered,
        "answer": state.output,
    }
    if event.status is ExecutionStatus.FAILED:
        error = met.last_error
        said, kind = (error.message, error.type.value) if error is not None else (why, None)
        yield AgentExecutionFailed(**ended, error=said, error_type=kind)
    elif event.stop_reason is StopReason.COMPLETED:
        yield AgentExecutionCompleted(**ended)
    else:
        context = dict(vote.context) if vote is not None else {}
        yield AgentExecutionStopped(**ended, source=event.resolved_by, message=why, context=context)
