"""The control states of a session and every transition between them, as one table.

Two rules for this file: everything that decides which phase follows an event stands here, and nothing here looks at
anything but the phase, the event and `Return`. The fold runs on this table and `docs/state-machine.md` is written from
it. An event that has no entry in a phase leaves the phase as it is.
"""

from collections.abc import Mapping
from enum import StrEnum

from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    ExecutionFinished,
    ExecutionPaused,
    ExecutionResumed,
    ExecutionStarted,
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceStarted,
    SessionForked,
    SessionStarted,
    StepCompleted,
    StepStarted,
    WaitEnded,
    WaitStarted,
)

__all__ = ["TRANSITIONS", "Key", "Outcome", "Phase", "Target", "Transition", "phase_after"]


class Phase(StrEnum):
    """What a session is in the middle of."""

    ABSENT = "absent"
    """No event yet."""
    IDLE = "idle"
    """No execution is open: the next input opens one."""
    BOUNDARY = "boundary"
    """Between two steps: the hooks and the decision about going on are due."""
    CONTINUING = "continuing"
    """It was decided to go on: a retry's wait or the next step is due."""
    STEP = "step"
    """A step is open: the model call is due, unless a hook forbade it; then the step ends."""
    INFERRING = "inferring"
    """The model is being called."""
    SETTLING = "settling"
    """The model call has ended: its tool calls are being settled, those that a hook forbade as cancelled; then the step
    ends."""
    STOPPING = "stopping"
    """It was decided to stop: open calls are closed, the Stop hooks run, the execution finishes."""
    WAITING = "waiting"
    """A time or a person is waited for."""
    PAUSED = "paused"
    """The segment was closed on request."""
    RECOVERING = "recovering"
    """A new segment has begun away from the boundary: the guards vote before anything else."""


class Target(StrEnum):
    """A target that is not a phase of its own."""

    RETURN = "return"
    """The phase that the pause, the wait or the recovery began in."""
    RESUME = "resume"
    """The boundary, where everybody is about to vote, when the pause began there; else the recovery."""


Transition = Phase | Target

_OPEN = (
    Phase.BOUNDARY,
    Phase.CONTINUING,
    Phase.STEP,
    Phase.INFERRING,
    Phase.SETTLING,
    Phase.STOPPING,
    Phase.WAITING,
    Phase.PAUSED,
    Phase.RECOVERING,
)
"""The phases in which an execution is open."""


class Outcome(StrEnum):
    """How a decision turned out: the one thing about an event, beside its type, that a transition looks at."""

    GO = "go"
    """The run goes on."""
    STOP = "stop"
    """The run stops."""


Key = type[AgentEvent] | tuple[type[ContinuationEvaluated], Outcome]
"""What a transition goes by: an event's class, or a decision and how it turned out."""


def _table() -> dict[Phase, dict[Key, Transition]]:
    go, stop = (ContinuationEvaluated, Outcome.GO), (ContinuationEvaluated, Outcome.STOP)
    decided: dict[Key, Transition] = {go: Phase.CONTINUING, stop: Phase.STOPPING}
    table: dict[Phase, dict[Key, Transition]] = {
        Phase.ABSENT: {SessionStarted: Phase.IDLE},
        Phase.IDLE: {ExecutionStarted: Phase.BOUNDARY},
        Phase.BOUNDARY: {**decided, SessionForked: Phase.PAUSED},
        Phase.CONTINUING: {**decided, StepStarted: Phase.STEP, WaitStarted: Phase.WAITING},
        Phase.STEP: {InferenceStarted: Phase.INFERRING, StepCompleted: Phase.BOUNDARY},
        Phase.INFERRING: {
            InferenceCompleted: Phase.SETTLING,
            InferenceFailed: Phase.SETTLING,
            InferenceInterrupted: Phase.STEP,
        },
        Phase.SETTLING: {stop: Phase.STOPPING, WaitStarted: Phase.WAITING, StepCompleted: Phase.BOUNDARY},
        Phase.STOPPING: {go: Phase.CONTINUING, ExecutionFinished: Phase.IDLE},
        Phase.WAITING: {WaitEnded: Target.RETURN},
        Phase.PAUSED: {},
        Phase.RECOVERING: {go: Target.RETURN, stop: Phase.STOPPING},
    }
    for phase in _OPEN:
        table[phase][ExecutionPaused] = Phase.PAUSED
        table[phase][ExecutionResumed] = Phase.RECOVERING
    table[Phase.BOUNDARY][ExecutionResumed] = Phase.BOUNDARY
    table[Phase.PAUSED][ExecutionResumed] = Target.RESUME
    return table


TRANSITIONS: Mapping[Phase, Mapping[Key, Transition]] = _table()


def phase_after(phase: Phase, event: AgentEvent, returns_to: Phase) -> Phase:
    """Return the phase that follows `event` in `phase`; `returns_to` is what the targets go back to."""
    key: Key = type(event)
    if isinstance(event, ContinuationEvaluated):
        key = (ContinuationEvaluated, Outcome.GO if event.should_continue else Outcome.STOP)
    target = TRANSITIONS[phase].get(key, phase)
    if isinstance(target, Phase):
        return target
    back = target is Target.RETURN or returns_to is Phase.BOUNDARY
    return returns_to if back else Phase.RECOVERING
