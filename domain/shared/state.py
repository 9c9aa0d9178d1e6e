"""The part of a state that is the same for all machines: its stream, and the open execution or the last one."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from msgspec import structs

from steptrail.domain.instants import Datetime, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.standing import Standing
from steptrail.domain.prices import Cost
from steptrail.domain.shared.fold import Fold
from steptrail.domain.shared.forks import Fork, Forked, ForkRef
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.requests import Request
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.shared.tags import tenant_in
from steptrail.domain.usage import Usage

F = TypeVar("F", bound=Fold)


class StreamState(Generic[F]):
    """A stream as of the instant `as_of`, in microseconds of UTC. "That execution" is the open one, or the last one."""

    __slots__ = ("_fold", "as_of")

    def __init__(self, fold: F, *, as_of: int) -> None:
        self._fold = fold
        self.as_of = as_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamState) and self._fold == other._fold  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    __hash__ = None  # type: ignore[assignment]  # compared by content, which cannot be hashed

    @property
    def fold(self) -> F:
        """The accumulator behind this state. Only the fold may change it, and it works on a copy."""
        return self._fold

    @property
    def version(self) -> int:
        """The number of events that the state was folded from."""
        return self._fold.version

    @property
    def name(self) -> str:
        """The name of the workflow, or of the agent when the session began."""
        return self._fold.name

    @property
    def parent(self) -> ParentRef | None:
        """The effect of another stream, such as a tool call, that began this one; None when a caller did."""
        return self._fold.parent

    @property
    def forked_from(self) -> ForkRef | None:
        """The stream from which this one was forked; None when it is no fork."""
        return self._fold.forked_from

    @property
    def metadata(self) -> Mapping[str, JsonValue]:
        """The metadata of the stream."""
        return MappingProxyType(self._fold.metadata)

    @property
    def started_at(self) -> Datetime:
        """The time at which the stream began. It is never reset."""
        return to_datetime(self._fold.created_at)

    @property
    def is_open(self) -> bool:
        """Tell whether an execution is open: started and not finished."""
        return self._fold.execution is not None and self._fold.execution.finished is None

    @property
    def status(self) -> ExecutionStatus:
        """The status of that execution; see `ExecutionStatus`."""
        return self._fold.status

    @property
    def execution_id(self) -> str | None:
        """The id of that execution; None before the first one."""
        return self._fold.execution.id if self._fold.execution else None

    @property
    def stop_reason(self) -> StopReason | None:
        """The reason why that execution stopped; None while it is open."""
        finished = self._fold.execution.finished if self._fold.execution else None
        return finished.stop_reason if finished else None

    @property
    def usage(self) -> Usage:
        """The tokens of that execution, including the streams below it."""
        return self._fold.execution.usage if self._fold.execution else Usage()

    @property
    def cost(self) -> Cost | None:
        """The cost of that execution by the prices recorded with it; None when no prices are."""
        return self._fold.execution.cost if self._fold.execution else None

    @property
    def stop_request(self) -> Request | None:
        """The request to stop; None when nobody asked for a stop."""
        return self._fold.execution.stop_request if self._fold.execution else None

    @property
    def stopped_by(self) -> Request | None:
        """The request to end that execution, in whichever way; None when there is none."""
        return self.stop_request

    @property
    def pause_request(self) -> Request | None:
        """The request to pause that is still to be carried out; None when there is none."""
        return self._fold.execution.pause_request if self._fold.execution else None

    @property
    def paused(self) -> Request | None:
        """The request by which that execution was paused; None while it is not paused."""
        return self._fold.execution.paused if self._fold.execution else None

    @property
    def unpaused(self) -> Request | None:
        """The request by which that pause was lifted; None while it holds, and when there is none."""
        return self._fold.execution.unpaused if self._fold.execution else None

    def ended_at(self, execution: int) -> int | None:
        """Return the version at which the execution of this number ended; None while it is open."""
        ended = self._fold.ended_at_version
        return ended[execution - 1] if execution <= len(ended) else None


def segment_of(state: StreamState[F]) -> int:
    """Return the number of the segment that a state is in."""
    return state.fold.segment


def version_of_key(state: StreamState[F], key: str) -> int | None:
    """Return the version at which the execution of an idempotency key ended; None if it has not, or there is none."""
    use = state.fold.keys.get(key)
    return None if use is None else state.ended_at(use.execution)


def for_tenant(stands: Standing, metadata: Mapping[str, JsonValue]) -> Standing:
    """Return the standing of a stream with that metadata."""
    tenant = tenant_in(metadata) if metadata else None
    return stands if tenant is None else structs.replace(stands, tenant=tenant)


def summary_of(
    state: StreamState[F],
    stands: Standing,
    *,
    kind: str,
    session_id: str,
    name: str,
    steps: int,
    active_seconds: float,
) -> RunSummary:
    """Return the row of a stream in a list."""
    fold, execution = state.fold, state.fold.execution
    finished = execution.finished if execution is not None else None
    return RunSummary(
        kind=kind,
        session_id=session_id,
        name=name,
        tenant=stands.tenant,
        status=state.status,
        standing=stands.state,
        stop_reason=finished.stop_reason.value if finished is not None else None,
        resolved_by=finished.resolved_by if finished is not None else None,
        answered=finished is not None and finished.answered,
        recorded_errors=finished.recorded_errors if finished is not None else 0,
        due_at=stands.due_at,
        waits=stands.waits,
        paused_by=execution.paused.by if execution is not None and execution.paused is not None else None,
        executions=fold.executions,
        steps=steps,
        active_seconds=active_seconds,
        cost=state.cost,
        parent=fold.parent,
        fork_of=None if fold.forked_from is None else f"{kind}:{fold.forked_from.session}",
        started_at=fold.created_at,
        updated_at=fold.updated_at,
        version=fold.version,
    )


def of_fork(state: StreamState[F], command: Fork, *, session_id: str, steps: int) -> dict[str, Any]:
    """Return the fields of `Forked`, for the event with which the fork of a stream begins."""
    shared = Forked(
        name=command.name or state.name,
        source=session_id,
        version=state.version,
        digest=command.digest,
        by=command.by,
        reason=command.reason,
        status=ExecutionStatus.PAUSED if state.is_open else state.status,
        executions=state.fold.executions,
        steps=steps,
        metadata={**state.metadata, **command.metadata},
    )
    return structs.asdict(shared)


def began_again_and_ended(state: StreamState[F]) -> tuple[int | None, int | None]:
    """Return when that execution began and ended, in microseconds of UTC; None for what has not happened.

    The first execution of a stream has not begun again.
    """
    execution, is_again = state.fold.execution, state.fold.executions > 1
    return (None, None) if execution is None else (execution.started_at if is_again else None, execution.finished_at)
