"""The list of runs: one row a session, from the few events that move it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from steptrail.domain.agent.events import (
    ContinuationEvaluated,
    ExecutionFinished,
    ExecutionPaused,
    ExecutionResumed,
    ExecutionStarted,
    SessionForked,
    SessionStarted,
    StepCompleted,
    ToolExecutionSuspended,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.events.session import ParentRef
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.prices import Cost

__all__ = ["RunSummary", "RunsProjection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One session as a list shows it. Instants are microseconds of UTC.

    `waits_for` is the kind of a wait that is not over, also while the session is paused in it. `waits_on` names the
    sessions below it that rested in this segment. `paused_by` says who paused it while it is paused, `caller` for a run
    that was cancelled; a fork that begins paused has none. `parent` is the call that started the session, if it was
    one. `answered` says that the last execution stopped with an answer of its own, also at a limit. `cost` is that of
    the last execution up to its last recorded step, where prices are recorded.
    """

    agent_id: str
    name: str
    status: ExecutionStatus = ExecutionStatus.PENDING
    stop_reason: str | None = None
    resolved_by: str | None = None
    answered: bool = False
    executions: int = 0
    steps: int = 0
    active_seconds: float = 0.0
    cost: Cost | None = None
    waits_for: str | None = None
    waits_until: int | None = None
    waits_on: tuple[str, ...] = ()
    paused_by: str | None = None
    parent: ParentRef | None = None
    damage: str | None = None
    started_at: int = 0
    updated_at: int = 0


class RunsProjection:
    """Folds the log into one summary a session. Applying the same record twice has no further effect."""

    types: Sequence[str] = tuple(
        event.TYPE
        for event in (
            SessionStarted,
            SessionForked,
            ExecutionStarted,
            ExecutionResumed,
            ExecutionPaused,
            ExecutionFinished,
            StepCompleted,
            ToolExecutionSuspended,
            WaitStarted,
            WaitEnded,
            ContinuationEvaluated,
        )
    )

    def __init__(self) -> None:
        self._rows: dict[str, RunSummary] = {}
        self._seen: dict[str, int] = {}

    @property
    def rows(self) -> Mapping[str, RunSummary]:
        """Session id -> summary."""
        return self._rows

    def newest_first(self) -> Sequence[RunSummary]:
        """Return the summaries, the one that moved last first."""
        return sorted(self._rows.values(), key=lambda row: row.updated_at, reverse=True)

    def mark_damaged(self, error: CorruptRecord) -> None:
        """Keep the session of a record that cannot be read in the list, and say so."""
        agent_id = error.stream.partition(":")[2]
        row = self._rows.get(agent_id) or RunSummary(agent_id=agent_id, name="")
        self._rows[agent_id] = replace(row, damage=str(error))

    def apply(self, agent_id: str, record: Recorded[Event]) -> None:
        """Fold one record of a session."""
        if record.version <= self._seen.get(agent_id, 0):
            return
        self._seen[agent_id] = record.version
        row = self._rows.get(agent_id) or RunSummary(agent_id=agent_id, name="", started_at=record.at)
        self._rows[agent_id] = replace(_moved(row, record.event), updated_at=max(row.updated_at, record.at))


def _moved(row: RunSummary, event: Event) -> RunSummary:
    match event:
        case SessionStarted(name=name, parent=parent):
            return replace(row, name=name, parent=parent)
        case ToolExecutionSuspended(session=session):
            return replace(row, waits_on=(*row.waits_on, session))
        case SessionForked(name=name, status=status, executions=executions, steps=steps):
            return replace(row, name=name, status=status, executions=executions, steps=steps)
        case ExecutionStarted(ordinal=ordinal):
            return replace(
                row,
                status=ExecutionStatus.IN_PROGRESS,
                executions=ordinal,
                steps=0,
                active_seconds=0.0,
                cost=None,
                stop_reason=None,
                resolved_by=None,
                answered=False,
            )
        case ExecutionResumed():
            status = ExecutionStatus.WAITING if row.waits_for is not None else ExecutionStatus.IN_PROGRESS
            return replace(row, status=status, waits_on=(), paused_by=None)
        case WaitEnded() if row.status is ExecutionStatus.PAUSED:
            return replace(row, waits_for=None, waits_until=None)
        case WaitEnded() | ContinuationEvaluated(phase="resume", should_continue=False):
            return replace(row, status=ExecutionStatus.IN_PROGRESS, waits_for=None, waits_until=None)
        case ExecutionPaused(by=by):
            return replace(row, status=ExecutionStatus.PAUSED, paused_by=by)
        case WaitStarted(kind=kind, until=until):
            return replace(row, status=ExecutionStatus.WAITING, waits_for=kind, waits_until=until)
        case StepCompleted(number=number, duration_seconds=seconds, cost=cost):
            active = row.active_seconds + seconds
            return replace(row, steps=number, active_seconds=active, cost=cost, waits_on=())
        case ExecutionFinished(status=status, stop_reason=reason, resolved_by=resolved_by, answered=answered):
            return replace(row, status=status, stop_reason=reason.value, resolved_by=resolved_by, answered=answered)
        case _:
            return row
