"""Forks that are taken in the life of a tree, and the places where one can be taken."""

from collections.abc import Sequence
from dataclasses import dataclass

from steptrail.domain.agent.decide import why_no_fork
from steptrail.domain.agent.events import SessionForked
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.interfaces.python.session import Session


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork of a session: what it shares with its source is `shared`, its source as it stood there."""

    stream: str
    source: str
    shared: AgentState


async def places_to_fork(session: Session) -> Sequence[AgentState]:
    """Return a session as it stood wherever it can be forked, the newest first."""
    state, found = AGENT.initial(session.id), list[AgentState]()
    for record in await session.history():
        state = AGENT.evolve_all(state, [record])
        if isinstance(record.event, SessionForked):
            found = []
        if why_no_fork(state) is None:
            found.insert(0, state)
    return found


async def take_fork(session: Session, into: str, back: int) -> Fork | None:
    """Fork a session at one of the places, so many back from the newest; None when there is none yet."""
    places = await places_to_fork(session)
    if not places:
        return None
    shared = places[back % len(places)]
    fork = await session.fork(at=shared.version, session=into, by="ana")
    return Fork(AGENT.stream_prefix + fork.id, AGENT.stream_prefix + session.id, shared)
