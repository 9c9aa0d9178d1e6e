"""The phases of a session and every transition between them, as one table.

This file has two rules. Everything that decides which phase follows an event is in this file. And it depends only on
the phase, the event, and the phase to return to. The fold uses this table, and `docs/state-machine.md` is generated
from it. An event that has no entry in a phase leaves the phase as it is.
"""

from collections.abc import Mapping
from enum import StrEnum

from steptrail.domain.agent import events as stored


class Phase(StrEnum):
    """The phase of a session: the point of its work that it has reached."""

    ABSENT = "absent"
    """No event yet."""
    IDLE = "idle"
    """No execution is open: the next input opens one."""
    PENDING = "pending"
    """An execution was started for a worker, and none has begun with it."""
    BOUNDARY = "boundary"
    """Between two steps: hooks are due, and then the decision whether to go on."""
    CONTINUING = "continuing"
    """The decision was to go on: the wait before a retry, or the next step, is due."""
    STEP = "step"
    """A step is open: the model call is due, unless a hook forbade it; then the step ends."""
    INFERRING = "inferring"
    """The model is being called."""
    SETTLING = "settling"
    """The model call has ended: its tool calls are being settled, and those that a hook forbade are cancelled; then the
    step ends."""
    STOPPING = "stopping"
    """The decision was to stop: open calls are closed, the Stop hooks run, and the execution finishes."""
    WAITING = "waiting"
    """The run waits for a time, a person, or another session."""
    PAUSED = "paused"
    """The segment was closed on request."""
    UNPAUSED = "unpaused"
    """The pause was lifted, and no worker has gone on yet."""
    RECOVERING = "recovering"
    """A new segment has begun elsewhere than at the boundary: the guards vote before anything else."""


class Target(StrEnum):
    """A target of a transition that depends on an earlier phase."""

    RETURN = "return"
    """The phase in which the pause, the wait or the recovery began."""
    RESUME = "resume"
    """The boundary if the pause began there, because all criteria vote there anyway; otherwise the recovery."""


Transition = Phase | Target

_OPEN = tuple(phase for phase in Phase if phase not in {Phase.ABSENT, Phase.IDLE})
"""The phases in which an execution is open."""


class Outcome(StrEnum):
    """The outcome of a decision or of a start: all that a transition depends on beside the class of an event."""

    GO = "go"
    """The run goes on."""
    STOP = "stop"
    """The run stops."""
    LATER = "later"
    """The execution waits for a worker."""


Key = type[stored.AgentEvent] | tuple[type[stored.ContinuationEvaluated] | type[stored.ExecutionStarted], Outcome]
"""The key of a transition: an event's class, or the class of a decision or a start and its outcome."""


def _table() -> dict[Phase, dict[Key, Transition]]:
    go, stop = (stored.ContinuationEvaluated, Outcome.GO), (stored.ContinuationEvaluated, Outcome.STOP)
    decided: dict[Key, Transition] = {go: Phase.CONTINUING, stop: Phase.STOPPING}
    table: dict[Phase, dict[Key, Transition]] = {
        Phase.ABSENT: {stored.SessionStarted: Phase.IDLE},
        Phase.IDLE: {stored.ExecutionStarted: Phase.BOUNDARY, (stored.ExecutionStarted, Outcome.LATER): Phase.PENDING},
        Phase.PENDING: {},
        Phase.BOUNDARY: {**decided, stored.SessionForked: Phase.PAUSED, stored.WaitStarted: Phase.WAITING},
        Phase.CONTINUING: {**decided, stored.StepStarted: Phase.STEP, stored.WaitStarted: Phase.WAITING},
        Phase.STEP: {
            stored.InferenceStarted: Phase.INFERRING,
            stored.StepCompleted: Phase.BOUNDARY,
            stored.WaitStarted: Phase.WAITING,
            stop: Phase.STOPPING,
        },
        Phase.INFERRING: {
            stored.InferenceCompleted: Phase.SETTLING,
            stored.InferenceFailed: Phase.SETTLING,
            stored.InferenceInterrupted: Phase.STEP,
        },
        Phase.SETTLING: {
            stop: Phase.STOPPING,
            stored.WaitStarted: Phase.WAITING,
            stored.StepCompleted: Phase.BOUNDARY,
            stored.ConversationCompacted: Phase.STEP,
        },
        Phase.STOPPING: {go: Phase.CONTINUING, stored.ExecutionFinished: Phase.IDLE},
        Phase.WAITING: {stored.WaitEnded: Target.RETURN},
        Phase.PAUSED: {stored.PauseLifted: Phase.UNPAUSED},
        Phase.UNPAUSED: {stored.SessionForked: Phase.PAUSED},
        Phase.RECOVERING: {go: Target.RETURN, stop: Phase.STOPPING},
    }
    for phase in _OPEN:
        table[phase][stored.ExecutionPaused] = Phase.PAUSED
        table[phase][stored.ExecutionResumed] = Phase.RECOVERING
    table[Phase.BOUNDARY][stored.ExecutionResumed] = table[Phase.PENDING][stored.ExecutionResumed] = Phase.BOUNDARY
    table[Phase.PAUSED][stored.ExecutionResumed] = table[Phase.UNPAUSED][stored.ExecutionResumed] = Target.RESUME
    return table


TRANSITIONS: Mapping[Phase, Mapping[Key, Transition]] = _table()

_QUALIFIED = frozenset({stored.ContinuationEvaluated, stored.ExecutionStarted})
"""The events whose class alone may not be their key. To look in here is quicker than to ask of what class an event is,
and each event of a long log is asked."""


def _key_of(event: stored.AgentEvent) -> Key:
    match event:
        case stored.ContinuationEvaluated(should_continue=goes_on):
            return stored.ContinuationEvaluated, Outcome.GO if goes_on else Outcome.STOP
        case stored.ExecutionStarted(worker=None):
            return stored.ExecutionStarted, Outcome.LATER
        case _:
            return type(event)


def phase_after(phase: Phase, event: stored.AgentEvent, returns_to: Phase) -> Phase:
    """Return the phase that follows `event` in `phase`. `returns_to` is the phase to which a `Target` returns."""
    kind = type(event)
    target = TRANSITIONS[phase].get(_key_of(event) if kind in _QUALIFIED else kind, phase)
    if type(target) is Phase:
        return target
    back = target is Target.RETURN or returns_to is Phase.BOUNDARY
    return returns_to if back else Phase.RECOVERING
