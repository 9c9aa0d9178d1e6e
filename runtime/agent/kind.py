"""The session of an agent, connected to the kernel and registered as a kind of machine."""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.commands import Command
from steptrail.domain.agent.effects import Effect
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import CallStatus
from steptrail.domain.kernel.event import Event
from steptrail.domain.live import NodeDelta, NodeProgress, Place, Writing
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.agent.agent_journal import OnCommit
from steptrail.runtime.agent.performer import Runner
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.kinds import Kind
from steptrail.runtime.kernel.live_updates import OnUpdate

AgentStream: TypeAlias = StreamControl[AgentState, Command, stored.AgentEvent, Effect]


def session_stream(
    environment: Environment, stream: str, on_commit: OnCommit | None = None, on_update: OnUpdate | None = None
) -> AgentStream:
    """Return the control of a stream."""
    alone = partial(Runner, None)
    return AgentStream(AGENT, environment, stream, alone=alone, on_commit=on_commit, on_update=on_update)


_ENDS_OF_EFFECTS = (
    stored.InferenceCompleted,
    stored.InferenceFailed,
    stored.InferenceInterrupted,
    stored.ToolExecutionCompleted,
    stored.ToolExecutionFailed,
    stored.ToolExecutionInterrupted,
    stored.ToolExecutionSuspended,
)


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


KIND = Kind(machine=AGENT, control=session_stream, in_flight=_in_flight, writing=_writing, settles=_settles)
"""The kind of the streams `agent:…`."""
