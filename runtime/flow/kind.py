"""The runs of workflows, connected to the kernel and registered as a kind of machine."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from steptrail.domain.flow.commands import FlowCommand
from steptrail.domain.flow.effects import FlowEffect
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
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import NodeDelta, NodeProgress, Place, Writing
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.flow.means import WITHOUT, FlowMeans
from steptrail.runtime.flow.performer import FlowRunner
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import Kind
from steptrail.runtime.kernel.live_updates import OnUpdate

FlowStream: TypeAlias = StreamControl[FlowState, FlowCommand, FlowEvent, FlowEffect]

OnFlowCommit: TypeAlias = Callable[[Sequence[Recorded[FlowEvent]]], None]
"""Is told of the events that this process stores in a stream of a workflow."""


def run_stream(
    environment: Environment,
    stream: str,
    means: FlowMeans = WITHOUT,
    on_commit: OnFlowCommit | None = None,
    on_update: OnUpdate | None = None,
) -> FlowStream:
    """Return the control of a stream."""
    alone = partial(FlowRunner, None, means)
    return FlowStream(FLOW, environment, stream, alone=alone, on_commit=on_commit, on_update=on_update)


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
            return event.key
        case _:
            return None


KIND = Kind(machine=FLOW, control=run_stream, in_flight=_in_flight, writing=_writing, settles=_settles)
"""The kind of the streams `flow:…`."""
