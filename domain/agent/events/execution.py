"""Events of an execution and its steps: from an input, or the retry of one, to a stop, in one or more segments.

Durations are in seconds by the segment's monotonic clock.
"""

from typing import Literal

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.base import Count, Positive, Seconds
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.prices import Cost
from steptrail.domain.shared.run import SegmentEnd
from steptrail.domain.tools import ToolSpec

Override = Literal["limits", "error_policy"]
"""A setting of the agent that a caller may replace for one execution."""


class ExecutionStarted(Event, frozen=True, kw_only=True):
    """An execution began: it answers an input, or retries an execution without an answer.

    It opens a segment. Without a `worker` it opens none: it waits for one, which opens `segment` + 1.

    A retry has no input of its own: it goes on in the conversation as it is. `retry_of` is then the execution that it
    retries, and `reason` says why. `overrides` names the settings of `agent` that the caller gave for this execution
    alone. `library` is the version of Steptrail that began it. `context` is what the caller says of the run; None keeps
    the context of the execution before it. `external_tools` were given for this execution, beside those of `agent`.
    """

    TYPE = "execution.started.v1"
    KIND = EventKind.INTENT
    CONTENT = frozenset({"context", "input"})
    STATE = frozenset(
        {"agent", "by", "execution_id", "external_tools", "key", "library", "reason", "retry_of", "worker"}
    )
    execution_id: str
    ordinal: Positive
    segment: Count
    worker: str | None
    library: str
    input: Message | None = None
    agent: AgentSnapshot
    key: str | None = None
    by: str
    retry_of: str | None = None
    reason: str | None = None
    overrides: tuple[Override, ...] = ()
    context: JsonValue = None
    external_tools: tuple[ToolSpec, ...] = ()


class ExecutionResumed(Event, frozen=True, kw_only=True):
    """The execution goes on in a new segment.

    `interrupted_seconds` is the active time of a step that the last segment left open, up to that segment's last sign
    of life. `agent` is set when the agent differs from the recorded one, and `changes` names the differences. `limits`
    and `error_policy` are set when the caller gave new ones. `key` is set when the input came again under a new key.
    `context` is set when the caller gave another one than the recorded one, and replaces it. `was_productive` says that
    the last segment made progress or did not end in a crash. `library` is the version of Steptrail that goes on.
    `switched` says how many models of a set `agent` are passed over, so that it goes on with the one that it asked.
    `moved` are the streams that rested and go on by now: those of the other calls are not looked after. None for all.
    """

    TYPE = "execution.resumed.v1"
    KIND = EventKind.INTENT
    CONTENT = frozenset({"context"})
    STATE = frozenset({"agent", "by", "changes", "error_policy", "key", "library", "limits", "moved", "worker"})
    segment: Positive
    worker: str
    library: str
    ended_by: SegmentEnd
    was_productive: bool
    interrupted_seconds: Seconds
    agent: AgentSnapshot | None = None
    switched: Count = 0
    changes: tuple[str, ...] = ()
    limits: Limits | None = None
    error_policy: ErrorPolicy | None = None
    moved: tuple[str, ...] | None = None
    by: str
    key: str | None = None
    context: JsonValue = None


class StepStarted(Event, frozen=True, kw_only=True):
    """A step began: one model call and the tool calls of its reply."""

    TYPE = "step.started.v1"
    KIND = EventKind.ANEW
    number: Positive


class StepCompleted(Event, frozen=True, kw_only=True):
    """The step ended, with all its calls. `errors` counts the failures in it.

    `cost` is the cost of the execution so far, for lists that read no replies; None when no prices are recorded.
    """

    TYPE = "step.completed.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"cost"})
    number: Positive
    duration_seconds: Seconds
    errors: Count = 0
    cost: Cost | None = None


ExecutionEvent = ExecutionStarted | ExecutionResumed | StepStarted | StepCompleted
