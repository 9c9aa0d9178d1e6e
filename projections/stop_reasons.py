"""Stop reasons from a stored stream: how every execution of a session ended, and who decided it."""

from collections.abc import Iterable
from dataclasses import dataclass

from steptrail.domain.agent.events import AgentEvent, ExecutionFinished, ExecutionStarted
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus, StopReason

STOP_REASON_TYPES = (ExecutionStarted.TYPE, ExecutionFinished.TYPE)
"""The stored types of the events that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStop:
    """The end of one execution: at which version, with which status, why, by whose vote, and whether with an answer."""

    execution_id: str
    version: int
    status: ExecutionStatus
    stop_reason: StopReason
    resolved_by: str
    answered: bool


def project_stop_reasons(records: Iterable[Recorded[AgentEvent]]) -> tuple[ExecutionStop, ...]:
    """Return the ends of the executions that have ended, in order."""
    stops: list[ExecutionStop] = []
    execution = ""
    for record in records:
        match record.event:
            case ExecutionStarted(execution_id=started):
                execution = started
            case ExecutionFinished(status=status, stop_reason=reason, resolved_by=by, answered=answered):
                stops.append(
                    ExecutionStop(
                        execution_id=execution,
                        version=record.version,
                        status=status,
                        stop_reason=reason,
                        resolved_by=by,
                        answered=answered,
                    )
                )
            case _:
                pass
    return tuple(stops)
