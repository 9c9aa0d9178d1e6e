"""`AgentState` at any version of a stored stream: the same fold that the running machine uses."""

from collections.abc import Iterable
from itertools import takewhile

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.evolve import evolve_all, initial
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.record import Recorded


def project_agent_state(
    session_id: str, records: Iterable[Recorded[AgentEvent]], *, at: int | None = None
) -> AgentState:
    """Return the state after the records up to version `at`, or after all of them."""
    upto = records if at is None else takewhile(lambda record: record.version <= at, records)
    return evolve_all(initial(session_id), upto)
