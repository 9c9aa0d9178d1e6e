"""The runs of workflows, registered as a kind of machine."""

from collections.abc import Sequence

from steptrail.domain.flow.events import (
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
from steptrail.domain.live import NodeDelta, NodeProgress, Place, Writing
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.flow.owner import FlowStream, run_stream
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import Kind


def _control(environment: Environment, stream: str) -> FlowStream:
    return run_stream(environment, id_of(stream))


def _in_flight(state: FlowState) -> Sequence[str]:
    if state.status is not ExecutionStatus.IN_PROGRESS:
        return ()
    running = [
        f"node {task.node} ({task.effect_id}) was started and has not ended"
        for task in state.tasks
        if task.phase is TaskPhase.RUNNING
    ]
    return running or [f"it is {state.phase.value}"]


def _writing(state: FlowState) -> Writing:
    written = {(*task.key, task.attempt) for task in state.tasks if task.phase is TaskPhase.RUNNING}
    return lambda update: isinstance(update, NodeDelta | NodeProgress) and (*update.place, update.attempt) in written


def _settles(event: Event) -> Place | None:
    match event:
        case NodeAttemptCompleted() | NodeAttemptFailed() | NodeAttemptInterrupted() | NodeAttemptSuspended():
            return event.node, event.visit, event.item
        case _:
            return None


KIND = Kind(machine=FLOW, control=_control, in_flight=_in_flight, writing=_writing, settles=_settles)
"""The kind of the streams `flow:…`."""
