"""Stop reasons from a stored stream: how every execution of a session ended, and who decided it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from steptrail.domain.agent.events import AgentEvent, ExecutionFinished, ExecutionStarted
from steptrail.domain.kernel.event import Event
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


def executions_in(
    records: Iterable[Recorded[Any]], *begins: type[Event]
) -> Iterator[tuple[str, Recorded[ExecutionFinished] | None]]:
    """Yield each execution with its end, None for one that is open, given the classes of events that begin one."""
    execution: str | None = None
    for record in records:
        if type(record.event) in begins:
            execution = record.event.execution_id
        elif isinstance(record.event, ExecutionFinished) and execution is not None:
            yield execution, record
            execution = None
    if execution is not None:
        yield execution, None


def project_stop_reasons(records: Iterable[Recorded[AgentEvent]]) -> tuple[ExecutionStop, ...]:
    """Return the ends of the executions that have ended, in order."""
    return tuple(
        ExecutionStop(
            execution_id=execution,
            version=end.version,
            status=end.event.status,
            stop_reason=end.event.stop_reason,
            resolved_by=end.event.resolved_by,
            answered=end.event.answered,
        )
        for execution, end in executions_in(records, ExecutionStarted)
        if end is not None
    )
