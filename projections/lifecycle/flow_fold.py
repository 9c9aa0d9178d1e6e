"""Makes the lifecycle events of a run of a workflow, in the same way for a live run and for a log."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from steptrail.domain.flow import events as stored
from steptrail.domain.flow.events import FlowEvent, LimitReached, NodeFailed, NodeThen
from steptrail.domain.flow.events.about import TaskEvent, VisitEvent
from steptrail.domain.flow.evolve import evolve_all, extend, initial
from steptrail.domain.flow.ids import task_asked_in
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.handlers import Handlers, complete
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.usage import Usage
from steptrail.projections.lifecycle import flow_nodes as nodes, flow_runs as runs
from steptrail.projections.lifecycle.base import Head, RunEvent, StoredMoment, in_ms, told_of

_EndOfTry: TypeAlias = stored.NodeAttemptCompleted | stored.NodeAttemptFailed | stored.NodeAttemptInterrupted


class _NodeHead(Head):
    """The fields that all lifecycle events about a node share."""

    node: str
    visit: int
    item: int | None


@dataclass(slots=True)
class _Moment(StoredMoment[FlowState]):
    """A stored event, and beside it the phase and the effect id that its task had before it.

    A handler calls `head` or one of its kind once for each lifecycle event, in their order: the calls number them.
    """

    phase_before: TaskPhase | None
    effect_id: str

    def of(self, event: VisitEvent) -> _NodeHead:
        item = event.item if isinstance(event, TaskEvent) else None
        return {**self.head(), "node": event.node, "visit": event.visit, "item": item}

    def of_request(self, request: str) -> _NodeHead:
        node, visit, item = task_asked_in(request)
        return {**self.head(), "node": node, "visit": visit, "item": item}


_Events: TypeAlias = Iterable[RunEvent]

_HANDLERS = Handlers[_Moment, [], _Events]()


class FlowLifecycleFold:
    """Makes the lifecycle events of one stream. `state` is the stream before the first stored event."""

    def __init__(self, state: FlowState) -> None:
        # This makes a copy, because `apply` changes the state in place.
        self._state = evolve_all(state, ())

    @property
    def version(self) -> int:
        """The version of the newest event that was applied."""
        return self._state.version

    def copied(self) -> "FlowLifecycleFold":
        """Return one that goes on from here by itself."""
        return FlowLifecycleFold(self._state)

    def apply(self, record: Recorded[FlowEvent], /, *, position: int | None = None) -> tuple[RunEvent, ...]:
        """Return the lifecycle events of the next stored event, none for most. `position` is its place in the log."""
        event, run = record.event, self._state.run
        task = run.tasks.get(event.key) if isinstance(event, TaskEvent) and run is not None else None
        phase, effect_id = (task.phase, task.effect_id) if task is not None else (None, "")
        self._state = after = extend(self._state, (record,))
        moment = _Moment(after.flow_id, after, record, position, phase, effect_id)
        return tuple(_TABLE[type(event)](moment, event))


def flow_lifecycle_events(flow_id: str, records: Iterable[Recorded[FlowEvent]]) -> tuple[RunEvent, ...]:
    """Return the lifecycle events of a whole stream, given its stored events, such as those of `flow.history()`.

    For a fork, only the events after its beginning count: the events of its past belong to the run before.
    """
    return told_of(FlowLifecycleFold(initial(flow_id)).apply, records)


@_HANDLERS.of(
    stored.FlowForked,
    stored.LimitReached,
    stored.MetadataChanged,
    stored.NodeAttemptSettledLate,
    stored.NodeEvaluated,
    stored.PauseRequested,
    stored.SessionScored,
    stored.SessionStarted,
)
def _untold(moment: _Moment, event: Event) -> _Events:
    """Return no lifecycle events: a later event leads to one, or no listener needs to know."""
    return ()


@_HANDLERS.of(stored.FlowStarted)
def _started(moment: _Moment, event: stored.FlowStarted) -> _Events:
    yield runs.FlowExecutionStarted(**moment.head(), flow=event.flow, is_retry=False)


@_HANDLERS.of(stored.FlowRetried)
def _retried(moment: _Moment, event: stored.FlowRetried) -> _Events:
    yield runs.FlowExecutionStarted(**moment.head(), flow=moment.state.name, is_retry=True)


@_HANDLERS.of(stored.FlowResumed)
def _resumed(moment: _Moment, event: stored.FlowResumed) -> _Events:
    yield runs.FlowExecutionResumed(**moment.head(), ended_by=event.ended_by)


@_HANDLERS.of(stored.ExecutionPaused)
def _paused(moment: _Moment, event: stored.ExecutionPaused) -> _Events:
    yield runs.FlowExecutionPaused(**moment.head(), by=event.by, reason=event.reason)


@_HANDLERS.of(stored.PauseLifted)
def _unpaused(moment: _Moment, event: stored.PauseLifted) -> _Events:
    # Otherwise a request was withdrawn that nobody has obeyed: the execution is at work.
    if moment.state.unpaused is not None:
        yield runs.FlowExecutionUnpaused(**moment.head(), by=event.by, reason=event.reason)


@_HANDLERS.of(stored.WaitStarted)
def _waits(moment: _Moment, event: stored.WaitStarted) -> _Events:
    yield runs.FlowExecutionWaiting(**moment.head(), kind=event.kind, until=event.until)


@_HANDLERS.of(stored.WaitEnded)
def _waits_no_more(moment: _Moment, event: stored.WaitEnded) -> _Events:
    yield runs.FlowExecutionWaitEnded(**moment.head(), reason=event.reason, by=event.by)


@_HANDLERS.of(stored.StopRequested)
def _asked_to_stop(moment: _Moment, event: stored.StopRequested) -> _Events:
    yield runs.FlowStopSignalReceived(**moment.head(), source=event.by, message=event.reason)


class _FlowEnded(Head):
    status: ExecutionStatus
    stop_reason: StopReason
    source: str
    visits: int
    errors: int
    usage: Usage
    output: JsonValue


@_HANDLERS.of(stored.ExecutionFinished)
def _finished(moment: _Moment, event: stored.ExecutionFinished) -> _Events:
    state = moment.state
    run = state.at_work()
    ended: _FlowEnded = {
        **moment.head(),
        "status": event.status,
        "stop_reason": event.stop_reason,
        "source": event.resolved_by,
        "visits": run.finished_visits + len(run.open),
        "errors": event.recorded_errors,
        "usage": state.usage,
        "output": state.output,
    }
    if event.status is ExecutionStatus.COMPLETED:
        yield runs.FlowExecutionCompleted(**ended)
    elif event.status is ExecutionStatus.STOPPED:
        yield runs.FlowExecutionStopped(**ended)
    else:
        error, node, failure = _why(state, event)
        yield runs.FlowExecutionFailed(**ended, error=error, node=node, failure=failure)


def _why(state: FlowState, event: stored.ExecutionFinished) -> tuple[str, str | None, str | None]:
    match state.run.ended_by if state.run is not None else None:
        case NodeFailed(error=error, node=node):
            return error.message, node, error.failure.value
        case LimitReached() as limit:
            return limit.said, None, None
        case _:
            return event.stop_reason.value, None, None


@_HANDLERS.of(stored.NodeOpened)
def _opened(moment: _Moment, event: stored.NodeOpened) -> _Events:
    yield nodes.FlowNodeStarted(**moment.of(event), items=event.items)


@_HANDLERS.of(stored.NodeCompleted)
def _completed(moment: _Moment, event: stored.NodeCompleted) -> _Events:
    targets = event.route.targets if event.route is not None else ()
    yield nodes.FlowNodeCompleted(**moment.of(event), targets=targets, item_errors=event.item_errors)


def _failed(moment: _Moment, event: stored.NodeFailureRecorded | stored.NodeFailed) -> _Events:
    told = nodes.FlowNodeFailed if isinstance(event, stored.NodeFailed) else nodes.FlowNodeFailureRecorded
    error = event.error
    yield told(
        **moment.of(event), failure=error.failure.value, error=error.message, attempt=error.attempt, rule=event.rule
    )


_HANDLERS.of(stored.NodeFailureRecorded)(_failed)
_HANDLERS.of(stored.NodeFailed)(_failed)


@_HANDLERS.of(stored.NodeSkipped)
def _skipped(moment: _Moment, event: stored.NodeSkipped) -> _Events:
    yield nodes.FlowNodeSkipped(**moment.of(event), by=event.by, reason=event.reason)


@_HANDLERS.of(stored.NodeCancelled)
def _cancelled(moment: _Moment, event: stored.NodeCancelled) -> _Events:
    yield nodes.FlowNodeCancelled(**moment.of(event), reason=event.reason)


@_HANDLERS.of(stored.NodeAttemptStarted)
def _tried(moment: _Moment, event: stored.NodeAttemptStarted) -> _Events:
    yield nodes.FlowAttemptStarted(**moment.of(event), attempt=event.attempt)


def _try_ended(moment: _Moment, event: _EndOfTry) -> _Events:
    if moment.phase_before is TaskPhase.PARKED:
        about, by = moment.of(event), event.settled_by
        yield nodes.FlowQuestionAnswered(
            **about, question_id=moment.effect_id, kind="unknown_outcome", answer="settled", by=by
        )
    elif moment.phase_before is TaskPhase.RUNNING:  # what fails before it is tried is no try
        match event:
            case stored.NodeAttemptCompleted():
                yield nodes.FlowAttemptEnded(**_end(moment, event), outcome="completed")
            case stored.NodeAttemptFailed(failure=failure, error=error):
                said = error.message
                yield nodes.FlowAttemptEnded(**_end(moment, event), outcome="failed", failure=failure.value, error=said)
            case stored.NodeAttemptInterrupted(then=then):
                yield nodes.FlowAttemptEnded(**_end(moment, event), outcome="interrupted")
                if then is NodeThen.PARK:
                    asked = moment.effect_id
                    yield nodes.FlowQuestionAsked(**moment.of(event), question_id=asked, kind="unknown_outcome")


_HANDLERS.of(stored.NodeAttemptCompleted)(_try_ended)
_HANDLERS.of(stored.NodeAttemptFailed)(_try_ended)
_HANDLERS.of(stored.NodeAttemptInterrupted)(_try_ended)


@_HANDLERS.of(stored.NodeAttemptSuspended)
def _try_suspended(moment: _Moment, event: stored.NodeAttemptSuspended) -> _Events:
    if moment.phase_before is TaskPhase.RUNNING:
        yield nodes.FlowAttemptEnded(**_end(moment, event), outcome="suspended", stream=event.stream)


class _End(_NodeHead):
    attempt: int
    usage: Usage | None
    duration_ms: int


def _end(moment: _Moment, event: _EndOfTry | stored.NodeAttemptSuspended) -> _End:
    duration = in_ms(event.duration_seconds)
    return {**moment.of(event), "attempt": event.attempt, "usage": event.usage, "duration_ms": duration}


@_HANDLERS.of(stored.NodeRetryScheduled)
def _retries(moment: _Moment, event: stored.NodeRetryScheduled) -> _Events:
    yield nodes.FlowRetryScheduled(
        **moment.of(event), attempt=event.attempt, delay_seconds=event.delay_seconds, due_at=event.due_at
    )


@_HANDLERS.of(stored.HumanRequested)
def _asks(moment: _Moment, event: stored.HumanRequested) -> _Events:
    yield nodes.FlowQuestionAsked(
        **moment.of_request(event.request_id),
        question_id=event.request_id,
        kind="human",
        type=event.type,
        prompt=event.prompt,
        options=event.options,
        expires_at=event.expires_at,
    )


@_HANDLERS.of(stored.ApprovalRequested)
def _asks_for_a_yes(moment: _Moment, event: stored.ApprovalRequested) -> _Events:
    yield nodes.FlowQuestionAsked(
        **moment.of_request(event.approval_id),
        question_id=event.approval_id,
        kind="approval",
        prompt=event.reason,
        tool=event.tool,
        expires_at=event.expires_at,
    )


@_HANDLERS.of(stored.StepHeld)
def _held(moment: _Moment, event: stored.StepHeld) -> _Events:
    yield nodes.FlowQuestionAsked(**moment.of(event), question_id=event.node, kind="step", type=event.point)


@_HANDLERS.of(stored.HumanAnswered)
def _answered(moment: _Moment, event: stored.HumanAnswered) -> _Events:
    yield _answer(moment, event.request_id, "human", "answered", event.by)


@_HANDLERS.of(stored.HumanExpired)
def _nobody_answered(moment: _Moment, event: stored.HumanExpired) -> _Events:
    yield _answer(moment, event.request_id, "human", "expired", None)


@_HANDLERS.of(stored.ApprovalGranted)
def _granted(moment: _Moment, event: stored.ApprovalGranted) -> _Events:
    yield _answer(moment, event.approval_id, "approval", "approved", event.by)


@_HANDLERS.of(stored.ApprovalDenied)
def _denied(moment: _Moment, event: stored.ApprovalDenied) -> _Events:
    yield _answer(moment, event.approval_id, "approval", "denied", event.by)


@_HANDLERS.of(stored.ApprovalExpired)
def _nobody_approved(moment: _Moment, event: stored.ApprovalExpired) -> _Events:
    yield _answer(moment, event.approval_id, "approval", "expired", None)


@_HANDLERS.of(stored.StepAnswered)
def _went_on(moment: _Moment, event: stored.StepAnswered) -> _Events:
    yield nodes.FlowQuestionAnswered(
        **moment.of(event), question_id=event.node, kind="step", answer=event.action, by=event.by
    )


def _answer(
    moment: _Moment, request: str, kind: nodes.QuestionKind, answer: str, by: str | None
) -> nodes.FlowQuestionAnswered:
    return nodes.FlowQuestionAnswered(
        **moment.of_request(request), question_id=request, kind=kind, answer=answer, by=by
    )


_TABLE = complete(FlowEvent, _HANDLERS)
