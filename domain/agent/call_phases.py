"""The phases of a tool call and every transition between them, as one table.

The table of the session is in `phases`, and this file has the same two rules. Everything that decides which phase of a
call follows an event is in this file. And it depends only on the phase and the event. The fold uses the table,
`next_calls` derives from the phase what is due, and `docs/state-machine.md` is generated from it. An event that has no
entry in a phase is ignored: the call keeps its phase and its data.
"""

from collections.abc import Mapping
from enum import StrEnum

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.events.tools import Then


class CallPhase(StrEnum):
    """The phase of a tool call: the point of its life that it has reached."""

    NEW = "new"
    """The model asks for the call: hooks are due, then an approval if its tool needs one, then the start."""
    HELD = "held"
    """A hook wants a person to approve the call: the question is due after the other hooks."""
    FORBIDDEN = "forbidden"
    """A hook forbade the call: its cancellation is due."""
    ASKING = "asking"
    """A person is asked whether the call may run."""
    APPROVED = "approved"
    """A person said yes: the start is due."""
    DEFERRED = "deferred"
    """Somebody outside is asked for the result."""
    RUNNING = "running"
    """The tool runs."""
    IN_DOUBT = "in_doubt"
    """The call was running when its segment ended without a record: what follows is decided before all else."""
    AGAIN = "again"
    """The call was cut off or suspended: its start is due again, under the same effect id."""
    RETRYABLE = "retryable"
    """The call failed and is to be tried again: a time for that is chosen next. If the run stops, or if its tool has no
    tries left by now, it has failed."""
    RETRYING = "retrying"
    """The call failed and starts again at the chosen time."""
    SUSPENDED = "suspended"
    """The session that the call runs waits or is paused."""
    PARKED = "parked"
    """The outcome of the call is unknown, and a person has to say what happened."""
    ANSWER = "answer"
    """No tool is called: the arguments are the answer, which is judged after the other calls of the step."""
    REJECTED = "rejected"
    """The arguments are no answer that fits."""
    COMPLETED = "completed"
    """The tool returned."""
    FAILED = "failed"
    """The tool failed, or there is no tool of that name."""
    BLOCKED = "blocked"
    """A hook refused the call."""
    DENIED = "denied"
    """A person said no, or nobody answered in time."""
    CANCELLED = "cancelled"
    """The call does not run."""
    INTERRUPTED = "interrupted"
    """The outcome of the call is unknown. Until the step ends, a worker that lost the session may still report it."""


class Said(StrEnum):
    """A property of an event, beside its class, on which a transition depends. For interruptions that is a `Then`."""

    MAY_RETRY = "may_retry"
    """The call is tried again."""
    FORBIDDEN = "forbidden"
    """A hook forbade the call."""
    RERUN = "rerun"
    """A person wants the call to run again."""
    ERROR = "error"
    """The call failed."""
    DUE = "due"
    """The time of the wait has come."""


CallKey = type[stored.AgentEvent] | tuple[type[stored.AgentEvent], Said | Then]
"""The key of a transition: an event's class, or the class with a property of the event."""


def _table() -> dict[CallPhase, dict[CallKey, CallPhase]]:
    started: dict[CallKey, CallPhase] = {
        stored.ToolExecutionStarted: CallPhase.RUNNING,
        stored.ToolCallDeferred: CallPhase.DEFERRED,
        stored.ToolExecutionFailed: CallPhase.FAILED,  # a call of a tool that does not exist never starts
    }
    late: dict[CallKey, CallPhase] = {
        stored.ToolExecutionSettledLate: CallPhase.COMPLETED,
        (stored.ToolExecutionSettledLate, Said.ERROR): CallPhase.FAILED,
    }
    cut_off: dict[CallKey, CallPhase] = {
        (stored.ToolExecutionInterrupted, Then.RERUN): CallPhase.AGAIN,
        (stored.ToolExecutionInterrupted, Then.TELL): CallPhase.INTERRUPTED,
        (stored.ToolExecutionInterrupted, Then.FAIL): CallPhase.INTERRUPTED,
        (stored.ToolExecutionInterrupted, Then.PARK): CallPhase.PARKED,
    }
    # These hold also after the question: a new segment may have new hooks, which have not run for the call yet.
    refused: dict[CallKey, CallPhase] = {
        stored.ToolCallBlocked: CallPhase.BLOCKED,
        (stored.HooksRan, Said.FORBIDDEN): CallPhase.FORBIDDEN,
    }
    hooked: dict[CallKey, CallPhase] = {
        stored.ToolCallHeld: CallPhase.HELD,
        **refused,
        stored.ApprovalRequested: CallPhase.ASKING,
    }
    table: dict[CallPhase, dict[CallKey, CallPhase]] = {phase: {} for phase in CallPhase}
    table |= {
        CallPhase.NEW: {stored.ToolCallAmended: CallPhase.NEW, **hooked, **started},
        # Nobody is asked about a call whose arguments do not fit its tool.
        CallPhase.HELD: {
            stored.ToolCallAmended: CallPhase.HELD,
            **hooked,
            stored.ToolExecutionFailed: CallPhase.FAILED,
        },
        CallPhase.ASKING: {
            stored.ToolCallAmended: CallPhase.ASKING,
            **refused,
            stored.ApprovalGranted: CallPhase.APPROVED,
            stored.ApprovalDenied: CallPhase.DENIED,
            stored.ApprovalExpired: CallPhase.DENIED,
        },
        CallPhase.APPROVED: {**refused, **started},
        CallPhase.DEFERRED: {
            stored.ToolExecutionCompleted: CallPhase.COMPLETED,
            stored.ToolExecutionFailed: CallPhase.FAILED,
        },
        CallPhase.RUNNING: {
            stored.ToolExecutionCompleted: CallPhase.COMPLETED,
            stored.ToolExecutionFailed: CallPhase.FAILED,
            (stored.ToolExecutionFailed, Said.MAY_RETRY): CallPhase.RETRYABLE,
            stored.ToolExecutionSuspended: CallPhase.SUSPENDED,
            stored.ExecutionResumed: CallPhase.IN_DOUBT,
            **cut_off,
        },
        CallPhase.IN_DOUBT: {**cut_off, **late},
        CallPhase.AGAIN: {**started, **late},
        CallPhase.RETRYABLE: {stored.ToolRetryScheduled: CallPhase.RETRYING},
        CallPhase.RETRYING: {**started},
        CallPhase.SUSPENDED: {
            stored.ExecutionResumed: CallPhase.AGAIN,
            (stored.WaitEnded, Said.DUE): CallPhase.AGAIN,
        },
        CallPhase.PARKED: {
            stored.ToolExecutionCompleted: CallPhase.COMPLETED,
            stored.ToolExecutionFailed: CallPhase.FAILED,
            (stored.WaitEnded, Said.RERUN): CallPhase.AGAIN,
            stored.WaitEnded: CallPhase.INTERRUPTED,
            **late,
        },
        CallPhase.ANSWER: {stored.AnswerAccepted: CallPhase.COMPLETED, stored.AnswerRejected: CallPhase.REJECTED},
        CallPhase.INTERRUPTED: {**late},
    }
    # A call that was begun stays what it came to: nobody may say of it that it was not run.
    called_off = {
        CallPhase.NEW: CallPhase.CANCELLED,
        CallPhase.HELD: CallPhase.CANCELLED,
        CallPhase.FORBIDDEN: CallPhase.CANCELLED,
        CallPhase.ASKING: CallPhase.CANCELLED,
        CallPhase.APPROVED: CallPhase.CANCELLED,
        CallPhase.ANSWER: CallPhase.CANCELLED,
        CallPhase.DEFERRED: CallPhase.INTERRUPTED,
        CallPhase.AGAIN: CallPhase.INTERRUPTED,
        CallPhase.SUSPENDED: CallPhase.INTERRUPTED,
        CallPhase.RETRYING: CallPhase.FAILED,
    }
    for phase, after in called_off.items():
        table[phase][stored.ToolCallCancelled] = after
    return table


CALL_TRANSITIONS: Mapping[CallPhase, Mapping[CallKey, CallPhase]] = _table()

CANCELLABLE = frozenset(phase for phase, keys in CALL_TRANSITIONS.items() if stored.ToolCallCancelled in keys)
"""The phases of a call that has not ended and is not running."""


_QUALIFIED = frozenset(key[0] for keys in CALL_TRANSITIONS.values() for key in keys if isinstance(key, tuple))
"""The events whose class alone may not be their key."""


def key_of(event: stored.AgentEvent) -> CallKey:
    """Return the key of an event in the table."""
    if type(event) not in _QUALIFIED:
        return type(event)
    match event:
        case stored.ToolExecutionInterrupted():
            return stored.ToolExecutionInterrupted, event.then
        case stored.ToolExecutionFailed(may_retry=True):
            return stored.ToolExecutionFailed, Said.MAY_RETRY
        case stored.ToolExecutionSettledLate() if event.error is not None:
            return stored.ToolExecutionSettledLate, Said.ERROR
        case stored.HooksRan() if event.forbidden_by is not None:
            return stored.HooksRan, Said.FORBIDDEN
        case stored.WaitEnded(reason="rerun"):
            return stored.WaitEnded, Said.RERUN
        case stored.WaitEnded(reason="due"):
            return stored.WaitEnded, Said.DUE
        case _:
            return type(event)


def call_phase_after(phase: CallPhase, event: stored.AgentEvent) -> CallPhase | None:
    """Return the phase that follows `event` in `phase`; None when the event does not apply in that phase."""
    return CALL_TRANSITIONS[phase].get(key_of(event))


def is_looked_after(phase: CallPhase, below: str | None, moved: frozenset[str] | None) -> bool:
    """Tell whether a resume moves a call that runs the stream `below`, given those that have `moved`; None for all.

    A suspended call whose stream just waits stays as it is.
    """
    return phase is not CallPhase.SUSPENDED or below is None or moved is None or below in moved
