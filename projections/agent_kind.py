"""The projections of the sessions of agents."""

from msgspec.structs import replace

from steptrail.domain.agent.events import (
    ContinuationEvaluated,
    ExecutionResumed,
    ExecutionStarted,
    InferenceCompleted,
    SessionForked,
    StepCompleted,
    UsageRecorded,
)
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.event import Event
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.usage import Usage
from steptrail.projections.explanation import AgentExplainer
from steptrail.projections.kinds import Bill, KindProjections, Lifecycle, Row
from steptrail.projections.summary import RunSummary

__all__ = ["PROJECTIONS_OF_AGENTS"]


def _moved(row: RunSummary, event: Event) -> RunSummary:
    match event:
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
            return replace(row, status=status, paused_by=None)
        case ContinuationEvaluated(phase="resume", should_continue=False):
            return replace(row, status=ExecutionStatus.IN_PROGRESS, waits_for=None, waits_until=None)
        case StepCompleted(number=number, duration_seconds=seconds, cost=cost):
            active = row.active_seconds + seconds
            return replace(row, steps=number, active_seconds=active, cost=cost)
        case _:
            return row


def _lifecycle(state: AgentState) -> Lifecycle:
    # Imported when somebody listens: a run that nobody listens to starts sooner.
    from steptrail.projections.lifecycle import LifecycleFold

    return LifecycleFold(state)


def _billed(event: Event) -> Usage | None:
    match event:
        case InferenceCompleted(reply=reply):
            return reply.usage
        case UsageRecorded(usage=usage):
            return usage
        case _:
            return None


_MOVING = (
    SessionForked,
    ExecutionStarted,
    ExecutionResumed,
    ContinuationEvaluated,
    StepCompleted,
)

PROJECTIONS_OF_AGENTS = KindProjections(
    explain=AgentExplainer,
    row=Row(types=tuple(event.TYPE for event in _MOVING), moved=_moved),
    bill=Bill(types=(InferenceCompleted.TYPE, UsageRecorded.TYPE), billed=_billed),
    lifecycle=_lifecycle,
)
"""The projections of the streams `agent:…`."""
