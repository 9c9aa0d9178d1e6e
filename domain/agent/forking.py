"""Tells whether a session can be forked where it stands: nothing may be in flight there."""

from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState


def why_no_fork(state: AgentState) -> str | None:
    """Return why a session cannot be forked after the events of a state, and where it can be; None when it can."""
    if state.execution is None:
        return f"after {state.version} events nothing was started in it: fork where a step or an execution has ended"
    # No step is open in these phases and no wait is going on, so the fork shares no effect that is in flight.
    rests = state.phase in {Phase.PAUSED, Phase.UNPAUSED} and state.fold.resume_to is Phase.BOUNDARY
    if state.phase in {Phase.BOUNDARY, Phase.IDLE} or rests:
        return None
    return f"after {state.version} events it is in {state.phase.value}: fork where a step or an execution has ended"
