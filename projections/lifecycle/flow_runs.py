"""Runs of workflows: they start, rest, go on and end. Exactly one of the three endings is told of each."""

from dataclasses import dataclass, field
from typing import ClassVar

from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.events import WaitKind
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.domain.usage import Usage
from steptrail.projections.lifecycle.base import RunEvent, error_text, told_as


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRunEvent(RunEvent):
    """Something that happened in a run of a workflow. `session_id` is the id of the run, without `flow:`."""

    _NOUN: ClassVar = "Workflow"
    _ID_KEYS: ClassVar = ("flowId", "parentId")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionStarted(FlowRunEvent):
    """An execution of the workflow `flow` began; with `is_retry`, to go on with what had failed in the one before."""

    flow: str
    is_retry: bool

    def _line(self) -> str:
        return f"{'is retried' if self.is_retry else 'started'}: {self.flow}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionResumed(FlowRunEvent):
    """The execution goes on; `ended_by` says what had ended its last stretch."""

    ended_by: SegmentEnd

    def _line(self) -> str:
        return f"resumed (after: {self.ended_by.value})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SaidOfRun(FlowRunEvent):
    """Something that somebody said of the execution, with or without a reason."""

    by: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionPaused(_SaidOfRun):
    """The execution was paused by somebody, and goes on when it is resumed."""

    def _line(self) -> str:
        return f"paused (by: {self.by})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionUnpaused(_SaidOfRun):
    """The pause was lifted by somebody, and the execution goes on when a worker comes."""

    def _line(self) -> str:
        return f"unpaused (by: {self.by})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionWaiting(FlowRunEvent):
    """Nothing of the execution can run: it waits for a time (`until`, microseconds of UTC), a person or a child."""

    kind: WaitKind
    until: int | None

    def _line(self) -> str:
        return f"waits ({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionWaitEnded(FlowRunEvent):
    """A wait is over: its answer or time has come, or it was given up. `by` is the person who ended it, if one did."""

    reason: str
    by: str | None

    def _line(self) -> str:
        return f"waits no more ({self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStopSignalReceived(FlowRunEvent):
    """Somebody asked the execution to stop; it will when it comes to see that."""

    source: str
    message: str | None

    def _line(self) -> str:
        return f"was asked to stop (by: {self.source})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionEnded(FlowRunEvent):
    """The execution is over, one way or another. `source` decided it.

    `visits` counts the visits of its nodes, `errors` the failures that were recorded while it went on, and `usage` is
    what it was billed, with the streams below it. `output` is its result.
    """

    status: ExecutionStatus
    stop_reason: StopReason
    source: str
    visits: int
    errors: int
    usage: Usage
    output: JsonValue = field(repr=False, metadata=told_as(None))

    def _counted(self) -> str:
        return f"(visits: {self.visits}, recorded errors: {self.errors}, tokens: {self.usage.total})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionCompleted(FlowExecutionEnded):
    """Nothing was left to do. `errors` may be more than 0."""

    def _line(self) -> str:
        return f"completed {self._counted()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionFailed(FlowExecutionEnded):
    """The execution failed: because of `node` with a failure of the class `failure`, or because of a limit of the run.

    Both are None for a limit.
    """

    error: str = field(repr=False)
    node: str | None
    failure: str | None

    def _line(self) -> str:
        at = f"at {self.node}: " if self.node is not None else ""
        return f"failed: {at}{error_text(self.error, self.failure)} {self._counted()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExecutionStopped(FlowExecutionEnded):
    """A person stopped the execution."""

    def _line(self) -> str:
        return f"stopped by {self.source} {self._counted()}"
