"""The events that all machines share: a session was opened, a run was asked to pause or stop, it waits, it has ended.

An approval is answered once: granted, denied, or expired. Its id is the id of the effect that waits for it.
"""

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from steptrail.domain.base import Count, Positive, Seconds
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import ExecutionStatus, StopReason


class SessionStarted(Event, frozen=True, kw_only=True):
    """A session was opened."""

    TYPE = "session.started.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"metadata", "name", "parent"})
    name: str
    parent: ParentRef | None = None
    metadata: dict[str, JsonValue] = {}


class MetadataChanged(Event, frozen=True, kw_only=True):
    """Entries of the session's metadata were set or removed."""

    TYPE = "metadata.changed.v1"
    KIND = EventKind.FACT
    STATE = frozenset({"by", "changes", "removed"})
    changes: dict[str, JsonValue] = {}
    removed: tuple[str, ...] = ()
    by: str


class _AskedOfRun(Event, frozen=True, kw_only=True):
    """A person or a program asked something of the execution. `key` makes it safe to ask again."""

    STATE = frozenset({"by", "key", "reason"})
    by: str
    reason: str | None = None
    key: str | None = None


class PauseRequested(_AskedOfRun, frozen=True, kw_only=True):
    """A person or a program asked the execution to pause at the next safe point."""

    TYPE = "pause.requested.v1"
    KIND = EventKind.OUTSIDE


class PauseLifted(_AskedOfRun, frozen=True, kw_only=True):
    """A person or a program lifted the pause of the execution, or withdrew the request for one: a worker goes on."""

    TYPE = "pause.lifted.v1"
    KIND = EventKind.OUTSIDE


class StopRequested(_AskedOfRun, frozen=True, kw_only=True):
    """A person or a program asked the execution to stop for good."""

    TYPE = "stop.requested.v1"
    KIND = EventKind.OUTSIDE


class ExecutionPaused(Event, frozen=True, kw_only=True):
    """The segment was closed on request. No effect is in flight. `step_seconds` is its part of an open step."""

    TYPE = "execution.paused.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"by", "reason"})
    by: str
    reason: str | None = None
    step_seconds: Seconds


class ExecutionFinished(Event, frozen=True, kw_only=True):
    """The execution stopped, for this reason, resolved by this criterion.

    `answered` says that the run ended with an answer of its own, even if the reason is a limit. `recorded_errors`
    counts the failures of nodes of a workflow that the run went on after.
    """

    TYPE = "execution.finished.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"resolved_by"})
    status: ExecutionStatus
    stop_reason: StopReason
    resolved_by: str
    answered: bool = False
    recorded_errors: Count = 0


LARGEST_SCORE = 1_000_000
"""The largest number that a score may be, and its negative the smallest: a sum of any number of them fits a store."""
_BOUNDS = Meta(ge=-LARGEST_SCORE, le=LARGEST_SCORE)

ScoreValue = bool | Annotated[int, _BOUNDS] | Annotated[float, _BOUNDS] | str
"""The value of a score: a truth value, a number or a label."""

WaitKind = Literal[
    "retry",
    "tool_retry",
    "unknown_outcome",
    "approval",
    "external",
    "child",
    "resources",
    "node_retry",
    "human",
    "step",
]
"""The kinds of waits: for the time to try a step, a call or a node again, for a person's verdict on an interrupted
call, for approvals, for the results of external calls, for the session that a call runs, for things that could not be
opened for the run, for the answer of a person to a node of a workflow, or to a step that is held."""


class WaitStarted(Event, frozen=True, kw_only=True):
    """The run waits. `until` is in microseconds of UTC; without it only a command ends the wait.

    `position` is that of the call that is waited for; of several calls, that of one. A wait for approvals and
    external calls is for all that are open, until the last of them expires. `problem` is the class of the exception
    because of which the run waits for its resources; the text of such an exception may hold a secret, and is not
    stored.
    """

    TYPE = "wait.started.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"problem"})
    kind: WaitKind
    until: int | None = None
    position: Count | None = None
    problem: str | None = None


class WaitEnded(Event, frozen=True, kw_only=True):
    """The wait is over: its time has come, the last question was answered, or the run is to stop.

    `settled_reason` is why the person says so who has the call run again, or the model told.
    """

    TYPE = "wait.ended.v1"
    KIND = EventKind.INTENT
    CONTENT = frozenset({"settled_reason"})
    STATE = frozenset({"by"})
    reason: Literal["due", "settled", "rerun", "tell", "approved", "denied", "stop", "answered"]
    by: str | None = None
    settled_reason: str | None = None

    @property
    def is_verdict(self) -> bool:
        """Tell whether a command of a person ended the wait."""
        return self.by is not None and self.reason != "stop"


class ApprovalRequested(Event, frozen=True, kw_only=True):
    """A person is asked whether a call may run with the arguments of this digest.

    `position` is that of the call in the reply of an agent's model; `node`, `visit` and `item` name the node of a
    workflow. `asked_by` is the tool that needs the approval, or the hook that held the call. Without an answer by
    `expires_at` (microseconds of UTC) the call does not run.
    """

    TYPE = "approval.requested.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"approval_id", "arguments_digest", "asked_by", "node", "reason", "tool"})
    approval_id: str
    position: Count = 0
    node: str | None = None
    visit: Positive | None = None
    item: Count | None = None
    tool: str
    arguments_digest: str
    expires_at: int
    asked_by: str
    reason: str | None = None


class ApprovalGranted(Event, frozen=True, kw_only=True):
    """A person said yes.

    `arguments` is set when the person edited them, with their digest. They replace those of the model as a whole.
    """

    TYPE = "approval.granted.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"arguments", "reason"})
    STATE = frozenset({"approval_id", "arguments_digest", "by", "key"})
    approval_id: str
    by: str
    reason: str | None = None
    arguments: dict[str, JsonValue] | None = None
    arguments_digest: str | None = None
    key: str | None = None


class ApprovalDenied(Event, frozen=True, kw_only=True):
    """A person said no. The call does not run, and the model is told."""

    TYPE = "approval.denied.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"reason"})
    STATE = frozenset({"approval_id", "by", "key"})
    approval_id: str
    by: str
    reason: str | None = None
    key: str | None = None


class ApprovalExpired(Event, frozen=True, kw_only=True):
    """No person answered in time, which counts as a no."""

    TYPE = "approval.expired.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"approval_id"})
    approval_id: str


class SessionScored(Event, frozen=True, kw_only=True):
    """Somebody scored an execution, or one step of it. No state follows from it, and no run notices it.

    `execution` is the number of the execution. The newest score of one name, by the same, of the same counts.
    """

    TYPE = "session.scored.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"comment"})
    STATE = frozenset({"by", "key", "name", "value"})
    name: str
    value: ScoreValue
    by: str
    execution: Positive
    step: Positive | None = None
    comment: str | None = None
    key: str | None = None


SharedEvent = (
    SessionStarted
    | MetadataChanged
    | PauseRequested
    | PauseLifted
    | StopRequested
    | ExecutionPaused
    | ExecutionFinished
    | WaitStarted
    | WaitEnded
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalDenied
    | ApprovalExpired
    | SessionScored
)
"""The events of every machine."""


class Settled(TypedDict):
    """The fields by which the end of a call, or of a try of a node, says that a person reported it, and why."""

    settled_by: str
    settled_reason: str | None
    duration_seconds: float


def settled(by: str, reason: str | None) -> Settled:
    """Return the fields for a verdict of this person. How long the call took, nobody knows."""
    return {"settled_by": by, "settled_reason": reason, "duration_seconds": 0.0}
