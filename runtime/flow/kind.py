"""The runs of workflows, registered as a kind of machine."""

from collections.abc import Sequence

from steptrail.domain.flow.events import (
    FlowEvent,
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
    NodeAttemptSuspended,
)
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.event import Event
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.flow.owner import FlowOwner, FlowStream
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import Kind

__all__ = ["KIND"]

_ENDS_OF_EFFECTS: tuple[type[FlowEvent], ...] = (
    NodeAttemptCompleted,
    NodeAttemptFailed,
    NodeAttemptInterrupted,
    NodeAttemptSuspended,
)


def _control(environment: Environment, stream: str) -> FlowStream:
    return FlowOwner(environment, id_of(stream)).stream


def _in_flight(state: FlowState) -> Sequence[str]:
    if state.status is not ExecutionStatus.IN_PROGRESS:
        return ()
    running = [
        f"node {task.node} ({task.effect_id}) was started and has not ended"
        for task in state.tasks
        if task.phase is TaskPhase.RUNNING
    ]
    return running or [f"it is {state.phase.value}"]


def _writing(state: FlowState) -> int | None:
    del state
    return None


def _settles(event: Event) -> bool:
    return isinstance(event, _ENDS_OF_EFFECTS)


KIND = Kind(machine=FLOW, control=_control, in_flight=_in_flight, writing=_writing, settles=_settles)
"""The kind of the streams `flow:…`."""
