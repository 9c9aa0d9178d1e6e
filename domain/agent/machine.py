"""The agent as a machine of the kernel."""

from steptrail.domain.agent.commands import Command
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import Effect
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel import Machine

__all__ = ["AGENT"]

AGENT: Machine[AgentState, Command, AgentEvent, Effect] = Machine(
    initial=initial, evolve_all=evolve_all, decide=decide, next_effects=next_effects
)
"""The machine of an agent's session; its streams are named `agent:<session>`."""
