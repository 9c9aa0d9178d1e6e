"""The session of an agent, described as a machine of the kernel."""

from steptrail.domain.agent.commands import Command
from steptrail.domain.agent.control import CONTROL
from steptrail.domain.agent.decide import decide
from steptrail.domain.agent.effects import Effect
from steptrail.domain.agent.events import AgentEvent, ExecutionResumed, ExecutionStarted, SessionForked
from steptrail.domain.agent.evolve import evolve_all, extend, initial
from steptrail.domain.agent.ids import STREAM_PREFIX, SessionId, stream_of
from steptrail.domain.agent.interruptions import restated
from steptrail.domain.agent.late_results import settle_late
from steptrail.domain.agent.next_effects import next_effects
from steptrail.domain.agent.snapshot import SNAPSHOTS
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.machine import Machine
from steptrail.domain.kernel.record import StreamVersion


def _forked_from(event: AgentEvent) -> StreamVersion | None:
    if not isinstance(event, SessionForked):
        return None
    return StreamVersion(stream_of(SessionId(event.source)), event.version, event.digest)


def _opens_segment(event: AgentEvent) -> bool:
    return isinstance(event, ExecutionResumed) or (isinstance(event, ExecutionStarted) and event.worker is not None)


def _segment(state: AgentState) -> int:
    return state.fold.segment


AGENT: Machine[AgentState, Command, AgentEvent, Effect] = Machine(
    stream_prefix=STREAM_PREFIX,
    initial=initial,
    evolve_all=evolve_all,
    extend=extend,
    decide=decide,
    next_effects=next_effects,
    control=CONTROL,
    forked_from=_forked_from,
    segment=_segment,
    opens_segment=_opens_segment,
    settle_late=settle_late,
    restated=restated,
    snapshots=SNAPSHOTS,
)
"""The machine of an agent's session."""
