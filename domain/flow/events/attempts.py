"""Events of the tries of a node. A try that began and has no end is in doubt; recovery ends it by its effect class.

`usage` is what the try cost; for a node that runs a stream of its own, the whole bill of that stream so far.
"""

from enum import StrEnum

from steptrail.domain.base import Count, Draw, Positive, Seconds
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.flow.envelope import Artifact
from steptrail.domain.flow.events.about import TaskEvent
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.messages import FilePart, Message
from steptrail.domain.tools import ToolEffect
from steptrail.domain.usage import BilledUsage


class CutReason(StrEnum):
    """The reason why a try was cut off."""

    CRASH = "crash"
    STOP = "stop"
    TIMEOUT = "timeout"
    """The timeout of the node."""
    DEADLINE = "deadline"
    """A limit on the time of the run."""
    CANCELLED = "cancelled"
    """The caller of the run was cancelled."""
    SIBLING = "sibling"
    """Another node has failed the run."""
    CONNECTION = "connection"
    """The connection broke off after the request was sent."""


class NodeThen(StrEnum):
    """The consequence of an interruption. It is decided once and recorded in the event."""

    RERUN = "rerun"
    """The try is made again, under the same effect id."""
    FAIL = "fail"
    """The try counts as failed."""
    PARK = "park"
    """The run waits for a person who says what happened."""


class NodeAttemptStarted(TaskEvent, frozen=True, kw_only=True):
    """The node is about to run. `deadline_at` is the instant at which its time is up, over all tries.

    `input_digest` is that of what the node is given. `stream_effect` is the id under which the try runs a stream of its
    own, or goes on with it; None when it runs none.
    """

    TYPE = "node.attempt.started.v1"
    KIND = EventKind.ANEW
    STATE = frozenset({"effect_id", "input_digest", "node", "stream_effect"})
    attempt: Positive
    effect_id: str
    effect: ToolEffect
    input_digest: str
    deadline_at: int | None = None
    stream_effect: str | None = None


class NodeAttemptCompleted(TaskEvent, frozen=True, kw_only=True):
    """The node returned. `output` is its result; `sets` and `unsets` are what it changes in `vars` beside that.

    `files` are those that came with it, for which objects in these values stand.
    `route` is the decision of a model that chooses. `detail` depends on the kind, such as the status of an HTTP answer.
    `is_kept` says that the node did not run: its result was kept from an earlier visit. `settled_by` is the person who
    reported it, for a `settled_reason`.
    """

    TYPE = "node.attempt.completed.v1"
    KIND = EventKind.WORLD
    CONTENT = frozenset({"artifacts", "detail", "messages", "output", "sets", "settled_reason"})
    STATE = frozenset({"node", "settled_by", "unsets", "usage"})
    attempt: Count
    output: JsonValue = None
    sets: dict[str, JsonValue] = {}
    unsets: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    files: tuple[FilePart, ...] = ()
    usage: BilledUsage | None = None
    route: Route | None = None
    detail: dict[str, JsonValue] = {}
    is_kept: bool = False
    duration_seconds: Seconds
    settled_by: str | None = None
    settled_reason: str | None = None


class NodeAttemptFailed(TaskEvent, frozen=True, kw_only=True):
    """The try failed. `may_retry` says that the node's policy covers such a failure. `attempt` is 0 if it never ran."""

    TYPE = "node.attempt.failed.v1"
    KIND = EventKind.WORLD
    CONTENT = frozenset({"details", "settled_reason"})
    STATE = frozenset({"node", "settled_by", "usage"})
    attempt: Count
    failure: FailureClass
    error: ErrorInfo
    details: dict[str, JsonValue] = {}
    may_retry: bool = False
    usage: BilledUsage | None = None
    duration_seconds: Seconds
    settled_by: str | None = None
    settled_reason: str | None = None


class NodeAttemptInterrupted(TaskEvent, frozen=True, kw_only=True):
    """The try was cut off, and its outcome is unknown; or a person who looked into that says that it is to run again.

    `settled_by` is that person, for a `settled_reason`. `then` is the consequence. It is the only intent inside a fact:
    when the event is appended again on another state, `then` is decided anew.
    """

    TYPE = "node.attempt.interrupted.v1"
    KIND = EventKind.WORLD
    CONTENT = frozenset({"settled_reason"})
    STATE = frozenset({"node", "settled_by", "usage"})
    attempt: Positive
    reason: CutReason
    then: NodeThen
    usage: BilledUsage | None = None
    duration_seconds: Seconds
    settled_by: str | None = None
    settled_reason: str | None = None


class NodeAttemptSuspended(TaskEvent, frozen=True, kw_only=True):
    """The node cannot go on for now, because the stream that it runs waits or is paused.

    It goes on, with the same effect id, at the next resume, or at `until` (microseconds of UTC).
    """

    TYPE = "node.attempt.suspended.v1"
    KIND = EventKind.WORLD
    STATE = frozenset({"node", "reason", "stream", "usage"})
    attempt: Positive
    stream: str
    reason: str
    until: int | None = None
    usage: BilledUsage | None = None
    duration_seconds: Seconds


class NodeRetryScheduled(TaskEvent, frozen=True, kw_only=True):
    """The node will be tried again after `delay_seconds`, at `due_at` (microseconds of UTC).

    `attempt` is the number of that try. The delay follows from the node's policy and from `draw`, a random number.
    """

    TYPE = "node.retry.scheduled.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"node"})
    attempt: Positive
    draw: Draw
    delay_seconds: Seconds
    due_at: int
    retry_after: Seconds | None = None


class NodeAttemptSettledLate(Event, frozen=True, kw_only=True):
    """A worker that had lost the run reports how its try ended. The run does not go on with it."""

    TYPE = "node.attempt.settled_late.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"output"})
    STATE = frozenset({"effect_id", "usage"})
    effect_id: str
    attempt: Positive
    segment: Positive
    output: JsonValue = None
    files: tuple[FilePart, ...] = ()
    error: ErrorInfo | None = None
    usage: BilledUsage | None = None
