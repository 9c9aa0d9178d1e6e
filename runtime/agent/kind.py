"""The session of an agent, registered as a kind of machine."""

from collections.abc import Sequence

from steptrail.domain.agent.events import (
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSuspended,
)
from steptrail.domain.agent.ids import session_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.kernel.event import Event
from steptrail.domain.live import NodeDelta, NodeProgress, Place, Writing
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.agent.owner import AgentStream, session_stream
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import Kind

_ENDS_OF_EFFECTS = (
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSuspended,
)


def _control(environment: Environment, stream: str) -> AgentStream:
    return session_stream(environment, session_of(stream))


def _in_flight(state: AgentState) -> Sequence[str]:
    if state.status is not ExecutionStatus.IN_PROGRESS:
        return ()
    calls = [
        f"{call.name} ({call.effect_id}) was started and has not ended"
        for call in state.tool_executions
        if call.status is CallStatus.RUNNING
    ]
    if state.phase is Phase.INFERRING:
        calls.append(f"the model call of step {state.open_step} was started and has not ended")
    return calls or [f"it is in {state.phase.value}"]


def _writing(state: AgentState) -> Writing:
    step = state.open_step if state.phase is Phase.INFERRING else None
    return lambda update: not isinstance(update, NodeDelta | NodeProgress) and update.step == step


def _settles(event: Event) -> Place | None:
    return () if isinstance(event, _ENDS_OF_EFFECTS) else None


KIND = Kind(machine=AGENT, control=_control, in_flight=_in_flight, writing=_writing, settles=_settles)
"""The kind of the streams `agent:…`."""
