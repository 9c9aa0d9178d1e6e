"""The agent as a machine of the kernel."""

from steptrail.domain.agent.commands import Command
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import Effect
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import evolve_all, extend, initial
from steptrail.domain.agent.facts import begins_anew, is_fact
from steptrail.domain.agent.ids import STREAM_PREFIX
from steptrail.domain.agent.late import settle_late
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel import Machine

__all__ = ["AGENT"]


def _segment(state: AgentState) -> int:
    return state.fold.segment


AGENT: Machine[AgentState, Command, AgentEvent, Effect] = Machine(
    stream_prefix=STREAM_PREFIX,
    initial=initial,
    evolve_all=evolve_all,
    extend=extend,
    decide=decide,
    next_effects=next_effects,
    is_fact=is_fact,
    begins_anew=begins_anew,
    segment=_segment,
    settle_late=settle_late,
)
"""The machine of an agent's session."""
