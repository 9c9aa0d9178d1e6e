"""Events of tool calls. A started execution that has no end is in doubt; recovery closes it by its effect class.

`position` is the call's place in the model's reply, from 0. `usage` is what the session that the call runs was billed
so far, with all sessions below it; None for a call that runs none.
"""

from enum import StrEnum

from pydantic import Field, JsonValue

from steptrail.domain.agent.events.inference import InterruptionReason
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.shared.run import CutBy
from steptrail.domain.tools import ToolEffect
from steptrail.domain.usage import BilledUsage

__all__ = [
    "Then",
    "ToolCallAmended",
    "ToolCallBlocked",
    "ToolCallCancelled",
    "ToolEvent",
    "ToolExecutionCompleted",
    "ToolExecutionFailed",
    "ToolExecutionInterrupted",
    "ToolExecutionSettledLate",
    "ToolExecutionStarted",
    "ToolExecutionSuspended",
    "ToolRetryScheduled",
]


class Then(StrEnum):
    """What follows from the interruption of a call. It is decided once, and the log says it."""

    RERUN = "rerun"
    """The call runs again under the same effect id."""
    TELL = "tell"
    """The model is told that the outcome is unknown; the error policy does not count it."""
    FAIL = "fail"
    """The call has failed, and the error policy decides."""
    PARK = "park"
    """The run waits for a person who says what happened."""


class ToolExecutionStarted(Event):
    """The tool is about to run. Its arguments stand in the model's reply or in an amendment.

    `read_settings` says that it is given a context, in which it may look at the run's limits, policy and deadline.
    """

    TYPE = "tool.execution.started.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"arguments_digest", "call_id", "effect_id", "tool"})
    position: int = Field(ge=0)
    call_id: str
    tool: str
    effect_id: str
    effect: ToolEffect
    attempt: int = Field(default=1, ge=1)
    arguments_digest: str
    read_settings: bool = False


class ToolExecutionCompleted(Event):
    """The tool returned. `shown_characters` says where the text for the model was cut, `settled_by` who told us."""

    TYPE = "tool.execution.completed.v1"
    KIND = EventKind.WORLD
    CONTENT = frozenset({"result"})
    STATE = frozenset({"settled_by", "usage"})
    position: int = Field(ge=0)
    result: JsonValue = None
    duration_seconds: float = Field(ge=0)
    shown_characters: int | None = Field(default=None, ge=1)
    settled_by: str | None = None
    usage: BilledUsage | None = None


class ToolExecutionFailed(Event):
    """The tool raised, refused its arguments, ran out of time, or does not exist.

    `may_retry` says that the call is tried again: the tool's own rule covers such an error, and has tries left.
    `cut_by` is the tool's timeout where that ended the call; None for a call that ended by itself.
    """

    TYPE = "tool.execution.failed.v1"
    KIND = EventKind.WORLD
    STATE = frozenset({"settled_by", "usage"})
    position: int = Field(ge=0)
    error: ErrorInfo
    duration_seconds: float = Field(ge=0)
    settled_by: str | None = None
    may_retry: bool = False
    cut_by: CutBy | None = None
    usage: BilledUsage | None = None


class ToolRetryScheduled(Event):
    """A failed call will be tried again after `delay_seconds`, at `due_at` (microseconds of UTC).

    The delay follows from the tool's own rule and from `draw`, a random number.
    """

    TYPE = "tool.retry.scheduled.v1"
    KIND = EventKind.INTENT
    position: int = Field(ge=0)
    failures: int = Field(ge=1)
    draw: float = Field(ge=0, lt=1)
    delay_seconds: float = Field(ge=0)
    due_at: int
    retry_after: float | None = None


class ToolExecutionInterrupted(Event):
    """The tool was cut off and its outcome is unknown.

    `then` is what follows from that. It is the one intent inside a fact: when the append is repeated on another state,
    it is decided anew. `cut_by` is the limit or the timeout that was over; None for what cuts off without a deadline.
    `deadline` (microseconds of UTC) is that of the run, where it cut the call.
    """

    TYPE = "tool.execution.interrupted.v1"
    KIND = EventKind.WORLD
    STATE = frozenset({"usage"})
    position: int = Field(ge=0)
    reason: InterruptionReason
    cut_by: CutBy | None = None
    deadline: int | None = None
    then: Then
    duration_seconds: float = Field(ge=0)
    usage: BilledUsage | None = None


class ToolExecutionSuspended(Event):
    """The session that the call runs, `session`, waits or is paused: the call has come as far as it can for now.

    It goes on, with the same effect id, at the next resume, or at `until` (microseconds of UTC).
    """

    TYPE = "tool.execution.suspended.v1"
    KIND = EventKind.WORLD
    STATE = frozenset({"reason", "session", "usage"})
    position: int = Field(ge=0)
    session: str
    reason: str
    until: int | None = None
    duration_seconds: float = Field(ge=0)
    usage: BilledUsage | None = None


class ToolExecutionSettledLate(Event):
    """A worker that had lost the session reports what its tool did.

    It closes the call if that is still in doubt; otherwise it is kept as evidence and applied to nothing.
    """

    TYPE = "tool.execution.settled_late.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"result"})
    STATE = frozenset({"effect_id", "usage"})
    effect_id: str
    attempt: int = Field(ge=1)
    segment: int = Field(ge=1)
    result: JsonValue = None
    error: ErrorInfo | None = None
    cut_by: CutBy | None = None
    shown_characters: int | None = Field(default=None, ge=1)
    usage: BilledUsage | None = None


class ToolCallBlocked(Event):
    """A hook refused this call; the model is told, the other calls of the step go on."""

    TYPE = "tool.call.blocked.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"reason"})
    STATE = frozenset({"hook"})
    position: int = Field(ge=0)
    reason: str
    hook: str


class ToolCallAmended(Event):
    """A hook changed the arguments of this call."""

    TYPE = "tool.call.amended.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"arguments"})
    STATE = frozenset({"hook"})
    position: int = Field(ge=0)
    arguments: dict[str, JsonValue]
    hook: str


class ToolCallCancelled(Event):
    """The call will not run.

    `over_the_limit` says that the execution has made all the calls that it may make. `cut_by` is the limit on time that
    is reached; None for every other reason.
    """

    TYPE = "tool.call.cancelled.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"reason"})
    position: int = Field(ge=0)
    reason: str
    over_the_limit: bool = False
    cut_by: CutBy | None = None


ToolEvent = (
    ToolExecutionStarted
    | ToolRetryScheduled
    | ToolExecutionCompleted
    | ToolExecutionFailed
    | ToolExecutionInterrupted
    | ToolExecutionSuspended
    | ToolExecutionSettledLate
    | ToolCallBlocked
    | ToolCallAmended
    | ToolCallCancelled
)
