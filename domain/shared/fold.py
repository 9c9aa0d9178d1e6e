"""The part of an accumulator that is the same for all machines, and the fold handlers of the events that they share."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from msgspec import Struct, field

from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.standing import Wait
from steptrail.domain.prices import Cost
from steptrail.domain.shared import events as stored
from steptrail.domain.shared.forks import Forked, ForkRef
from steptrail.domain.shared.keys import KeyUse
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.requests import Request
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.usage import ModelUsage, Usage

_AT_REST: Mapping[str, ExecutionStatus] = {
    "paused": ExecutionStatus.PAUSED,
    "pending": ExecutionStatus.PENDING,
    "unpaused": ExecutionStatus.PENDING,
}
"""Phase in which an open execution has no owner -> its status."""

PhaseT_co = TypeVar("PhaseT_co", bound=str, covariant=True)


class ExecutionBase(Struct, kw_only=True):
    """The open execution of a stream, or the last one.

    `waits` says the same as `wait` in the terms of the kernel; an answered wait stays in it until a process goes on
    with the run. `unopened` counts the waits for resources in a row.
    """

    id: str
    ordinal: int
    key: str | None
    started_at: int
    usage: Usage = Usage()
    model_usage: tuple[ModelUsage, ...] = ()
    stop_request: Request | None = None
    pause_request: Request | None = None
    paused: Request | None = None
    unpaused: Request | None = None
    wait: stored.WaitStarted | None = None
    waits: tuple[Wait, ...] = ()
    unproductive_segments: int = 0
    productive: bool = False
    unopened: int = 0
    finished: stored.ExecutionFinished | None = None
    finished_at: int | None = None

    @property
    def cost(self) -> Cost | None:
        """The cost of the execution so far; None when no prices are recorded."""
        raise NotImplementedError


ExecutionT_co = TypeVar("ExecutionT_co", bound=ExecutionBase, covariant=True)


class FoldBase(Struct, Generic[PhaseT_co, ExecutionT_co], kw_only=True):
    """A stream after `version` events. `seen_at` is the instant of the owner's last event."""

    phase: PhaseT_co
    version: int = 0
    name: str = ""
    parent: ParentRef | None = None
    forked_from: ForkRef | None = None
    metadata: dict[str, JsonValue] = {}
    created_at: int = 0
    updated_at: int = 0
    seen_at: int = 0
    segment: int = 0
    worker: str = ""
    executions: int = 0
    keys: dict[str, KeyUse] = {}
    ended_at_version: Log[int] = field(default_factory=Log[int])
    execution: ExecutionT_co | None = None

    @property
    def status(self) -> ExecutionStatus:
        """The status of the open execution, or of the last one."""
        execution = self.execution
        if execution is None:
            return ExecutionStatus.PENDING
        if execution.finished is not None:
            return execution.finished.status
        usual = ExecutionStatus.IN_PROGRESS if execution.wait is None else ExecutionStatus.WAITING
        return _AT_REST.get(self.phase, usual)

    def remember(self, key: str | None, what: str, ran: str | None = None) -> None:
        """Note what an idempotency key was used for. `key` may be None: then there is nothing to note."""
        if key is not None:
            self.keys = {**self.keys, key: KeyUse(self.executions, what, ran)}


Fold = FoldBase[str, ExecutionBase]


def session_started(fold: Fold, event: stored.SessionStarted, at: int) -> None:
    """Apply the first event of a stream."""
    fold.name, fold.parent, fold.metadata, fold.created_at = event.name, event.parent, dict(event.metadata), at


def forked(fold: Fold, event: Forked, at: int, execution: str) -> None:
    """Make the past of another stream the past of this one, without its open requests, its keys and its parent.

    `execution` is the id of the last execution here: effect ids begin with it, so no effect of one of the two streams
    is taken for one of the other.
    """
    fold.name, fold.parent, fold.forked_from = event.name, None, ForkRef(event.source, event.version)
    fold.metadata = {**fold.metadata, **event.metadata}
    fold.created_at, fold.worker, fold.keys = at, "", {}
    # Every execution of the past that has ended had done so when the fork began, which is version 1 of this stream.
    fold.ended_at_version = Log([1] * len(fold.ended_at_version))
    if (run := fold.execution) is not None:
        run.id, run.key, run.productive = execution, None, True
        run.pause_request = run.paused = run.unpaused = run.wait = None
        run.waits = ()
        if run.finished is None:
            run.stop_request = None


def metadata_changed(fold: Fold, event: stored.MetadataChanged, at: int) -> None:
    """Apply a change of the metadata."""
    kept = {key: value for key, value in fold.metadata.items() if key not in event.removed}
    fold.metadata = {**kept, **event.changes}


def pause_requested(fold: Fold, event: stored.PauseRequested, at: int) -> None:
    """Apply a request to pause, which an execution that is paused does not need."""
    fold.remember(event.key, "pause")
    if fold.execution is not None and fold.execution.finished is None and fold.phase != "paused":
        fold.execution.pause_request = Request(event.by, event.reason, at)


def pause_lifted(fold: Fold, event: stored.PauseLifted, at: int) -> None:
    """Apply the end of a pause, or of the request for one."""
    fold.remember(event.key, "unpause")
    if fold.execution is not None:
        fold.execution.pause_request = None
        if fold.phase == "paused":
            fold.execution.unpaused = Request(event.by, event.reason, at)


def stop_requested(fold: Fold, event: stored.StopRequested, at: int) -> None:
    """Apply a request to stop. The first one stays."""
    fold.remember(event.key, "stop")
    if fold.execution is not None and fold.execution.finished is None and fold.execution.stop_request is None:
        fold.execution.stop_request = Request(event.by, event.reason, at)
