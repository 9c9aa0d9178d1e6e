"""The phases of a tool call and every transition between them, as one table.

The table beside the session's (`phases`), by the same two rules: everything that decides which phase of a call
follows an event stands here, and nothing here looks at anything but the phase and the event. The fold runs on it,
`next_calls` reads from the phase what is due, `docs/state-machine.md` is written from it. An event that has no entry
in a phase is applied to nothing: the call stays as it is, data and all.
"""

from collections.abc import Mapping
from enum import StrEnum

from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ExecutionResumed,
    HooksRan,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallHeld,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
    WaitEnded,
)
from steptrail.domain.agent.events.tools import Then

__all__ = ["CALL_TRANSITIONS", "CANCELLABLE", "CallKey", "CallPhase", "Said", "call_phase_after", "key_of"]


class CallPhase(StrEnum):
    """What a tool call is in the middle of."""

    NEW = "new"
    """The model asks for it: its hooks, a person's yes where its tool wants one, and its start are due."""
    HELD = "held"
    """A hook wants a person to approve it: once its hooks have run, the question is due."""
    FORBIDDEN = "forbidden"
    """A hook forbade it: it is cancelled."""
    ASKING = "asking"
    """A person is asked whether it may run."""
    APPROVED = "approved"
    """A person said yes: its start is due."""
    RUNNING = "running"
    """The tool runs."""
    IN_DOUBT = "in_doubt"
    """It was running when its segment ended without a word: what follows is decided before all else."""
    AGAIN = "again"
    """It was cut off or suspended: its start is due again, under the same effect id."""
    RETRYABLE = "retryable"
    """It failed and is tried again: the time for that is chosen next. When the run is to stop, it has failed."""
    RETRYING = "retrying"
    """It failed and is started again when its time has come."""
    SUSPENDED = "suspended"
    """The session that it runs waits or is paused."""
    PARKED = "parked"
    """Its outcome is unknown, and a person is to say what happened."""
    COMPLETED = "completed"
    """The tool returned."""
    FAILED = "failed"
    """The tool failed, or there is none of that name."""
    BLOCKED = "blocked"
    """A hook refused it."""
    DENIED = "denied"
    """A person said no, or nobody answered in time."""
    CANCELLED = "cancelled"
    """It does not run, or not again."""
    INTERRUPTED = "interrupted"
    """Its outcome is unknown. Until the step ends, a worker that lost the session may still tell."""


class Said(StrEnum):
    """What an event says, beside its type, that a transition looks at. What follows an interruption is a `Then`."""

    MAY_RETRY = "may_retry"
    """The call is tried again."""
    FORBIDDEN = "forbidden"
    """A hook forbade the call."""
    RERUN = "rerun"
    """A person wants the call to run again."""
    ERROR = "error"
    """The call failed."""


CallKey = type[AgentEvent] | tuple[type[AgentEvent], Said | Then]
"""What a transition goes by: an event's class, or that and what the event says."""


def _table() -> dict[CallPhase, dict[CallKey, CallPhase]]:
    started: dict[CallKey, CallPhase] = {
        ToolExecutionStarted: CallPhase.RUNNING,
        ToolExecutionFailed: CallPhase.FAILED,  # there is no such tool: it is never started
    }
    late: dict[CallKey, CallPhase] = {
        ToolExecutionSettledLate: CallPhase.COMPLETED,
        (ToolExecutionSettledLate, Said.ERROR): CallPhase.FAILED,
    }
    cut_off: dict[CallKey, CallPhase] = {
        (ToolExecutionInterrupted, Then.RERUN): CallPhase.AGAIN,
        (ToolExecutionInterrupted, Then.TELL): CallPhase.INTERRUPTED,
        (ToolExecutionInterrupted, Then.FAIL): CallPhase.INTERRUPTED,
        (ToolExecutionInterrupted, Then.PARK): CallPhase.PARKED,
    }
    # Also after the question: a new segment may come with hooks that the call has not been through.
    refused: dict[CallKey, CallPhase] = {
        ToolCallBlocked: CallPhase.BLOCKED,
        (HooksRan, Said.FORBIDDEN): CallPhase.FORBIDDEN,
    }
    hooked: dict[CallKey, CallPhase] = {
        ToolCallHeld: CallPhase.HELD,
        **refused,
        ApprovalRequested: CallPhase.ASKING,
    }
    table: dict[CallPhase, dict[CallKey, CallPhase]] = {
        CallPhase.NEW: {ToolCallAmended: CallPhase.NEW, **hooked, **started},
        CallPhase.HELD: {ToolCallAmended: CallPhase.HELD, **hooked},
        CallPhase.FORBIDDEN: {},
        CallPhase.ASKING: {
            ToolCallAmended: CallPhase.ASKING,
            **refused,
            ApprovalGranted: CallPhase.APPROVED,
            ApprovalDenied: CallPhase.DENIED,
            ApprovalExpired: CallPhase.DENIED,
        },
        CallPhase.APPROVED: {**refused, **started},
        CallPhase.RUNNING: {
            ToolExecutionCompleted: CallPhase.COMPLETED,
            ToolExecutionFailed: CallPhase.FAILED,
            (ToolExecutionFailed, Said.MAY_RETRY): CallPhase.RETRYABLE,
            ToolExecutionSuspended: CallPhase.SUSPENDED,
            ExecutionResumed: CallPhase.IN_DOUBT,
            **cut_off,
        },
        CallPhase.IN_DOUBT: {**cut_off, **late},
        CallPhase.AGAIN: {**started, **late},
        CallPhase.RETRYABLE: {ToolRetryScheduled: CallPhase.RETRYING},
        CallPhase.RETRYING: {**started},
        CallPhase.SUSPENDED: {ExecutionResumed: CallPhase.AGAIN, WaitEnded: CallPhase.AGAIN},
        CallPhase.PARKED: {
            ToolExecutionCompleted: CallPhase.COMPLETED,
            ToolExecutionFailed: CallPhase.FAILED,
            (WaitEnded, Said.RERUN): CallPhase.AGAIN,
            WaitEnded: CallPhase.INTERRUPTED,
            **late,
        },
        CallPhase.COMPLETED: {},
        CallPhase.FAILED: {},
        CallPhase.BLOCKED: {},
        CallPhase.DENIED: {},
        CallPhase.CANCELLED: {},
        CallPhase.INTERRUPTED: {**late},
    }
    for phase in (
        CallPhase.NEW,
        CallPhase.HELD,
        CallPhase.FORBIDDEN,
        CallPhase.ASKING,
        CallPhase.APPROVED,
        CallPhase.AGAIN,
        CallPhase.RETRYING,
        CallPhase.SUSPENDED,
    ):
        table[phase][ToolCallCancelled] = CallPhase.CANCELLED
    return table


CALL_TRANSITIONS: Mapping[CallPhase, Mapping[CallKey, CallPhase]] = _table()

CANCELLABLE = frozenset(phase for phase, keys in CALL_TRANSITIONS.items() if ToolCallCancelled in keys)
"""The phases of a call that has neither ended nor runs just now."""


def key_of(event: AgentEvent) -> CallKey:
    """Return what the table has an event under."""
    match event:
        case ToolExecutionInterrupted():
            return ToolExecutionInterrupted, event.then
        case ToolExecutionFailed(may_retry=True):
            return ToolExecutionFailed, Said.MAY_RETRY
        case ToolExecutionSettledLate() if event.error is not None:
            return ToolExecutionSettledLate, Said.ERROR
        case HooksRan() if event.forbidden_by is not None:
            return HooksRan, Said.FORBIDDEN
        case WaitEnded(reason="rerun"):
            return WaitEnded, Said.RERUN
        case _:
            return type(event)


def call_phase_after(phase: CallPhase, event: AgentEvent) -> CallPhase | None:
    """Return the phase that follows `event` in `phase`; None where the event is not for a call in that phase."""
    return CALL_TRANSITIONS[phase].get(key_of(event))
