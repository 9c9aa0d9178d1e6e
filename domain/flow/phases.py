"""The phases of a run and of its tasks, and the tables of their transitions, which the fold runs on.

An event without an entry in a phase changes nothing there: the fold accepts any event at any time.
"""

from collections.abc import Mapping
from enum import StrEnum

from steptrail.domain.flow import events as stored
from steptrail.domain.flow.task import TaskPhase


class RunPhase(StrEnum):
    """The phase of a stream of a workflow."""

    ABSENT = "absent"
    """No event yet."""
    IDLE = "idle"
    """The stream was opened, and no run has begun."""
    PENDING = "pending"
    """A run was started for a worker, and none has begun with it."""
    WORKING = "working"
    """Nodes are opened, run, and concluded."""
    WAITING = "waiting"
    """Nothing can go on before an instant, an answer, or another stream."""
    PAUSED = "paused"
    """The segment was closed on request."""
    UNPAUSED = "unpaused"
    """The pause was lifted, and no worker has gone on yet."""
    ENDING = "ending"
    """The run has failed or is to stop: what runs is cut off, nothing is opened, and the run finishes."""
    DONE = "done"
    """The run has finished."""


class Goal(StrEnum):
    """A target that depends on the run."""

    ON = "on"
    """The ending if the run is to end, else the work."""


_OPEN = (RunPhase.PENDING, RunPhase.WORKING, RunPhase.WAITING, RunPhase.PAUSED, RunPhase.UNPAUSED, RunPhase.ENDING)

_AT_REST = {RunPhase.IDLE, RunPhase.DONE}


def _table() -> dict[RunPhase, dict[type[stored.FlowEvent], RunPhase | Goal]]:
    ends: dict[type[stored.FlowEvent], RunPhase | Goal] = {
        stored.NodeFailed: RunPhase.ENDING,
        stored.LimitReached: Goal.ON,
        stored.StopRequested: RunPhase.ENDING,
        stored.StepAnswered: Goal.ON,
    }
    table: dict[RunPhase, dict[type[stored.FlowEvent], RunPhase | Goal]] = {
        RunPhase.ABSENT: {stored.SessionStarted: RunPhase.IDLE},
        RunPhase.IDLE: {stored.FlowStarted: RunPhase.WORKING},
        RunPhase.PENDING: {},
        RunPhase.WORKING: {**ends, stored.WaitStarted: RunPhase.WAITING, stored.ExecutionFinished: RunPhase.DONE},
        RunPhase.WAITING: {stored.WaitEnded: Goal.ON},
        RunPhase.PAUSED: {stored.PauseLifted: RunPhase.UNPAUSED},
        RunPhase.UNPAUSED: {},
        RunPhase.ENDING: {stored.ExecutionFinished: RunPhase.DONE},
        RunPhase.DONE: {stored.FlowStarted: RunPhase.WORKING, stored.FlowRetried: RunPhase.WORKING},
    }
    for phase in _OPEN:
        table[phase][stored.ExecutionPaused] = RunPhase.PAUSED
        table[phase][stored.FlowResumed] = Goal.ON
        table[phase][stored.FlowForked] = RunPhase.PAUSED
    # A run that waits goes on waiting in its new segment, until something of it is over.
    table[RunPhase.WAITING][stored.FlowResumed] = RunPhase.WAITING
    return table


TRANSITIONS: Mapping[RunPhase, Mapping[type[stored.FlowEvent], RunPhase | Goal]] = _table()
"""Phase of a run -> class of an event -> the phase that follows."""


def phase_after(phase: RunPhase, event: stored.FlowEvent, *, is_ending: bool) -> RunPhase:
    """Return the phase of the run after `event`. `is_ending` says whether the run is to end, with the event counted."""
    if isinstance(event, stored.FlowStarted | stored.FlowRetried) and event.worker is None and phase in _AT_REST:
        return RunPhase.PENDING
    target = TRANSITIONS[phase].get(type(event), phase)
    if isinstance(target, RunPhase):
        return target
    return RunPhase.ENDING if is_ending else RunPhase.WORKING


class TaskTarget(StrEnum):
    """A target that depends on the event or on the task."""

    THEN = "then"
    """The phase that the event names: due again, landed, or parked."""
    BACK = "back"
    """The phase in which the step was held: due before it, landed after it."""


_THEN = {
    stored.NodeThen.RERUN: TaskPhase.DUE,
    stored.NodeThen.FAIL: TaskPhase.LANDED,
    stored.NodeThen.PARK: TaskPhase.PARKED,
}

_SETTLED: dict[type[stored.FlowEvent], TaskPhase | TaskTarget] = {
    stored.NodeAttemptCompleted: TaskPhase.LANDED,
    stored.NodeAttemptFailed: TaskPhase.LANDED,
}

_STARTED: dict[type[stored.FlowEvent], TaskPhase | TaskTarget] = {
    stored.NodeAttemptStarted: TaskPhase.RUNNING,
    **_SETTLED,  # a kept result, and a node that cannot run as it is written, or as who resumes the run has written it
}

TASK_TRANSITIONS: Mapping[TaskPhase, Mapping[type[stored.FlowEvent], TaskPhase | TaskTarget]] = {
    TaskPhase.DUE: {
        **_STARTED,
        stored.NodeEvaluated: TaskPhase.LANDED,
        stored.ApprovalRequested: TaskPhase.ASKED,
        stored.HumanRequested: TaskPhase.ASKED,
        stored.StepHeld: TaskPhase.ASKED,
    },
    TaskPhase.RUNNING: {
        **_SETTLED,
        stored.NodeAttemptInterrupted: TaskTarget.THEN,
        stored.NodeAttemptSuspended: TaskPhase.SUSPENDED,
    },
    TaskPhase.LANDED: {
        stored.NodeRetryScheduled: TaskPhase.RETRYING,
        stored.StepHeld: TaskPhase.ASKED,
        stored.NodeEvaluated: TaskPhase.LANDED,  # the answer of a person becomes the result of the node, or its failure
        stored.NodeAttemptFailed: TaskPhase.LANDED,
    },
    TaskPhase.RETRYING: _STARTED,
    TaskPhase.SUSPENDED: {stored.FlowResumed: TaskPhase.DUE, **_STARTED},
    TaskPhase.PARKED: {**_SETTLED, stored.NodeAttemptInterrupted: TaskTarget.THEN},
    TaskPhase.ASKED: {
        stored.ApprovalGranted: TaskPhase.DUE,
        stored.StepAnswered: TaskTarget.BACK,
        stored.HumanAnswered: TaskPhase.LANDED,
        stored.HumanExpired: TaskPhase.LANDED,
        stored.ApprovalDenied: TaskPhase.LANDED,
        stored.ApprovalExpired: TaskPhase.LANDED,
    },
}
"""Phase of a task -> class of an event about it -> the phase that follows."""


def task_phase_after(phase: TaskPhase, event: stored.FlowEvent) -> TaskPhase:
    """Return the phase of a task after an event about it."""
    target = TASK_TRANSITIONS[phase].get(type(event), phase)
    if target is TaskTarget.THEN and isinstance(event, stored.NodeAttemptInterrupted):
        return _THEN[event.then]
    if target is TaskTarget.BACK and isinstance(event, stored.StepAnswered):
        return TaskPhase.LANDED if event.point == "after" else TaskPhase.DUE
    return target if isinstance(target, TaskPhase) else phase
