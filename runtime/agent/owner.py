"""Connects sessions of agents to the kernel."""

from functools import partial
from typing import TypeAlias

from steptrail.domain.agent.commands import Command
from steptrail.domain.agent.effects import Effect
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.runtime.agent.agent_journal import OnCommit
from steptrail.runtime.agent.performer import Runner
from steptrail.runtime.kernel.control import StreamControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.live_updates import OnUpdate

AgentStream: TypeAlias = StreamControl[AgentState, Command, AgentEvent, Effect]


def session_stream(
    environment: Environment,
    session: SessionId,
    on_commit: OnCommit | None = None,
    on_update: OnUpdate | None = None,
) -> AgentStream:
    """Return the control of the stream of a session."""
    alone = partial(Runner, None)
    return AgentStream(AGENT, environment, stream_of(session), alone=alone, on_commit=on_commit, on_update=on_update)
