"""Events of tool calls. A call that was started and has no end is in doubt; recovery ends it by its effect class.

`position` is the call's place in the model's reply, from 0. `usage` is the bill so far of the session that the call
runs, with all sessions below it; None for a call that runs no session.
"""

from enum import StrEnum

from steptrail.domain.agent.events.inference import InterruptionReason
from steptrail.domain.base import Count, Draw, Positive, Seconds
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.messages import FilePart
from steptrail.domain.shared.run import CutBy
from steptrail.domain.tools import ApprovalRule, ToolEffect
from steptrail.domain.usage import BilledUsage


class Then(StrEnum):
    """The consequence of an interruption of a call. It is decided once and recorded in the event."""

    RERUN = "rerun"
    """The call runs again under the same effect id."""
    TELL = "tell"
    """The model is told that the outcome is unknown. The error policy does not count the call."""
    FAIL = "fail"
    """The call has failed, and the error policy decides."""
    PARK = "park"
    """The run waits for a person who says what happened."""


class ToolExecutionStarted(Event, frozen=True, kw_only=True):
    """The tool is about to run. Its arguments are in the model's reply, or in an amendment or approval.

    `read_settings` says that the tool gets a context, in which it can read the run's limits, policy and deadline.
    """

    TYPE = "tool.execution.started.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"arguments_digest", "call_id", "effect_id", "tool"})
    position: Count
    call_id: str
    tool: str
    effect_id: str
    effect: ToolEffect
    attempt: Positive = 1
    arguments_digest: str
    read_settings: bool = False


class ToolCallDeferred(Event, frozen=True, kw_only=True):
    """The call is for somebody outside, who is asked for its result: its tool has no body here.

    Its arguments are in the model's reply, or in an amendment or approval. Without an answer by `expires_at`
    (microseconds of UTC) the call has failed.
    """

    TYPE = "tool.call.deferred.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"arguments_digest", "call_id", "effect_id", "tool"})
    position: Count
    call_id: str
    tool: str
    effect_id: str
    arguments_digest: str
    expires_at: int


class ToolExecutionCompleted(Event, frozen=True, kw_only=True):
    """The tool returned a result, and maybe files.

    `shown_characters` is the length to which the text for the model was cut; None for all of it. `settled_by` is the
    person who reported the result, for a `settled_reason`; None when the tool itself returned it. `key` makes it safe
    to report the result of an external call again.
    """

    TYPE = "tool.execution.completed.v1"
    KIND = EventKind.WORLD
    CONTENT = frozenset({"result", "settled_reason"})
    STATE = frozenset({"key", "settled_by", "usage"})
    position: Count
    result: JsonValue = None
    duration_seconds: Seconds
    shown_characters: Positive | None = None
    settled_by: str | None = None
    settled_reason: str | None = None
    usage: BilledUsage | None = None
    key: str | None = None
    files: tuple[FilePart, ...] = ()


class ToolExecutionFailed(Event, frozen=True, kw_only=True):
    """The tool raised, refused its arguments, ran out of time, or does not exist.

    `may_retry` says that the call is tried again: the tool's own rule covers such an error, and has tries left.
    `cut_by` is the tool's timeout if that ended the call; None for a call that ended by itself. `key` makes it safe to
    report the failure of an external call again. `expired` says that nobody answered one in time, which is concluded
    from its time alone: an answer that was stored first stands.
    """

    TYPE = "tool.execution.failed.v1"
    KIND = EventKind.WORLD
    CONTENT = frozenset({"settled_reason"})
    STATE = frozenset({"key", "settled_by", "usage"})
    position: Count
    error: ErrorInfo
    duration_seconds: Seconds
    settled_by: str | None = None
    settled_reason: str | None = None
    may_retry: bool = False
    cut_by: CutBy | None = None
    usage: BilledUsage | None = None
    key: str | None = None
    expired: bool = False

    @property
    def counts_as(self) -> EventKind:
        """A failure that follows from the time alone is about to happen; another one has happened."""
        return EventKind.INTENT if self.expired else self.KIND


class ToolRetryScheduled(Event, frozen=True, kw_only=True):
    """A failed call will be tried again after `delay_seconds`, at `due_at` (microseconds of UTC).

    The delay follows from the tool's own rule and from `draw`, a random number.
    """

    TYPE = "tool.retry.scheduled.v1"
    KIND = EventKind.INTENT
    position: Count
    failures: Positive
    draw: Draw
    delay_seconds: Seconds
    due_at: int
    retry_after: float | None = None


class ToolExecutionInterrupted(Event, frozen=True, kw_only=True):
    """The tool was cut off and its outcome is unknown.

    `then` is the consequence. It is the only intent inside a fact: when the event is appended again on another state,
    `then` is decided anew. `cut_by` is the limit or the timeout that cut the call; None for a cut without a deadline.
    `deadline` (microseconds of UTC) is that of the run, if it cut the call; otherwise None.
    """

    TYPE = "tool.execution.interrupted.v1"
    KIND = EventKind.WORLD
    STATE = frozenset({"usage"})
    position: Count
    reason: InterruptionReason
    cut_by: CutBy | None = None
    deadline: int | None = None
    then: Then
    duration_seconds: Seconds
    usage: BilledUsage | None = None


class ToolExecutionSuspended(Event, frozen=True, kw_only=True):
    """The call cannot go on for now, because the session that it runs, `session`, waits or is paused.

    It goes on, with the same effect id, at the next resume, or at `until` (microseconds of UTC).
    """

    TYPE = "tool.execution.suspended.v1"
    KIND = EventKind.WORLD
    STATE = frozenset({"reason", "session", "usage"})
    position: Count
    session: str
    reason: str
    until: int | None = None
    duration_seconds: Seconds
    usage: BilledUsage | None = None


class ToolExecutionSettledLate(Event, frozen=True, kw_only=True):
    """A worker that had lost the session reports what its tool did.

    It ends the call if the outcome is still unknown. Otherwise it is kept as evidence, and changes no state.
    """

    TYPE = "tool.execution.settled_late.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"result"})
    STATE = frozenset({"effect_id", "usage"})
    effect_id: str
    attempt: Positive
    segment: Positive
    result: JsonValue = None
    error: ErrorInfo | None = None
    cut_by: CutBy | None = None
    shown_characters: Positive | None = None
    usage: BilledUsage | None = None
    files: tuple[FilePart, ...] = ()


class ToolCallBlocked(Event, frozen=True, kw_only=True):
    """A hook refused this call. The model is told, and the other calls of the step go on."""

    TYPE = "tool.call.blocked.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"reason"})
    STATE = frozenset({"hook"})
    position: Count
    reason: str
    hook: str


class ToolCallHeld(Event, frozen=True, kw_only=True):
    """A hook wants a person to approve this call."""

    TYPE = "tool.call.held.v1"
    KIND = EventKind.FACT
    STATE = frozenset({"hook", "rule"})
    position: Count
    rule: ApprovalRule
    hook: str


class ToolCallAmended(Event, frozen=True, kw_only=True):
    """A hook changed the arguments of this call."""

    TYPE = "tool.call.amended.v1"
    KIND = EventKind.FACT
    CONTENT = frozenset({"arguments"})
    STATE = frozenset({"hook"})
    position: Count
    arguments: dict[str, JsonValue]
    hook: str


class ToolCallCancelled(Event, frozen=True, kw_only=True):
    """The call will not run, or not run again.

    `over_the_limit` says that the execution had made all the calls that it may make. `cut_by` is the time limit that
    was reached; None for every other reason.
    """

    TYPE = "tool.call.cancelled.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"reason"})
    position: Count
    reason: str
    over_the_limit: bool = False
    cut_by: CutBy | None = None


ToolEvent = (
    ToolExecutionStarted
    | ToolCallDeferred
    | ToolRetryScheduled
    | ToolExecutionCompleted
    | ToolExecutionFailed
    | ToolExecutionInterrupted
    | ToolExecutionSuspended
    | ToolExecutionSettledLate
    | ToolCallHeld
    | ToolCallBlocked
    | ToolCallAmended
    | ToolCallCancelled
)
