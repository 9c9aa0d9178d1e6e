"""The lifecycle events that follow from stored events of executions."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.usage import Usage
from steptrail.projections.lifecycle import executions
from steptrail.projections.lifecycle.base import Head
from steptrail.projections.lifecycle.handler_types import LifecycleEvents, LifecycleHandlers, Moment

OF_EXECUTIONS = LifecycleHandlers()


@OF_EXECUTIONS.of(stored.MessagesAppended)
def _said(moment: Moment, event: stored.MessagesAppended) -> LifecycleEvents:
    yield executions.MessagesAdded(**moment.head(), count=len(event.messages), source=event.source)


@OF_EXECUTIONS.of(stored.ExecutionStarted)
def _started(moment: Moment, event: stored.ExecutionStarted) -> LifecycleEvents:
    yield executions.AgentExecutionStarted(
        **moment.head(), messages=len(moment.state.messages), tools=len(event.agent.tools)
    )
    if event.input is not None:
        yield executions.MessagesAdded(**moment.head(), count=1, source=MessageSource.INPUT)


@OF_EXECUTIONS.of(stored.ExecutionResumed)
def _resumed(moment: Moment, event: stored.ExecutionResumed) -> LifecycleEvents:
    yield executions.AgentExecutionResumed(**moment.head(), ended_by=event.ended_by)


@OF_EXECUTIONS.of(stored.ExecutionPaused)
def _paused(moment: Moment, event: stored.ExecutionPaused) -> LifecycleEvents:
    yield executions.AgentExecutionPaused(**moment.head(), by=event.by, reason=event.reason)


@OF_EXECUTIONS.of(stored.PauseLifted)
def _unpaused(moment: Moment, event: stored.PauseLifted) -> LifecycleEvents:
    # Otherwise a request was withdrawn that nobody has obeyed: the execution is at work.
    if moment.state.unpaused is not None:
        yield executions.AgentExecutionUnpaused(**moment.head(), by=event.by, reason=event.reason)


@OF_EXECUTIONS.of(stored.WaitStarted)
def _waits(moment: Moment, event: stored.WaitStarted) -> LifecycleEvents:
    call = moment.call(event.position)
    tool, call_id = (call.name, call.call.id) if call is not None else (None, None)
    yield executions.AgentExecutionWaiting(
        **moment.head(), kind=event.kind, until=event.until, tool=tool, tool_call_id=call_id
    )


@OF_EXECUTIONS.of(stored.WaitEnded)
def _waits_no_more(moment: Moment, event: stored.WaitEnded) -> LifecycleEvents:
    yield executions.AgentExecutionWaitEnded(**moment.head(), reason=event.reason, by=event.by)


@OF_EXECUTIONS.of(stored.StopRequested)
def _asked_to_stop(moment: Moment, event: stored.StopRequested) -> LifecycleEvents:
    yield executions.StopSignalReceived(**moment.head(), source=event.by, message=event.reason)


class _Ended(Head):
    status: ExecutionStatus
    stop_reason: StopReason
    steps: int
    usage: Usage
    errors: int
    answered: bool
    answer: str | None


@OF_EXECUTIONS.of(stored.ExecutionFinished)
def _finished(moment: Moment, event: stored.ExecutionFinished) -> LifecycleEvents:
    state = moment.state
    outcome = state.last_continuation_outcome
    vote = outcome.deciding_vote if outcome is not None else None
    why = vote.reason if vote is not None else event.stop_reason.value
    ended: _Ended = {
        **moment.head(),
        "status": event.status,
        "stop_reason": event.stop_reason,
        "steps": state.step_count,
        "usage": state.usage,
        "errors": state.total_failures,
        "answered": event.answered,
        "answer": state.output,
    }
    if event.status is ExecutionStatus.FAILED:
        failed = deciding_error(state)
        said, kind = (failed.error.message or why, failed.error.type.value) if failed is not None else (why, None)
        yield executions.AgentExecutionFailed(**ended, error=said, error_type=kind)
    elif event.stop_reason is StopReason.COMPLETED:
        yield executions.AgentExecutionCompleted(**ended)
    else:
        context = dict(vote.context) if vote is not None else {}
        yield executions.AgentExecutionStopped(**ended, source=event.resolved_by, message=why, context=context)
