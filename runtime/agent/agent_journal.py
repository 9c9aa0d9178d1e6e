"""The journal of a session, and what is told of its commits."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.runtime.kernel.history import typed_records
from steptrail.runtime.kernel.journal import Journal

AgentJournal: TypeAlias = Journal[AgentState, AgentEvent]


class OnCommit(Protocol):
    """A function that is called with each commit of this process, once it is durable. Its exceptions are logged."""

    def __call__(self, records: Sequence[Recorded[AgentEvent]], /) -> None:
        """Be told of the events of one commit."""
        ...


def agent_records(records: Sequence[Recorded[Event]]) -> Sequence[Recorded[AgentEvent]]:
    """Return the same records, with the type of a session's events."""
    return typed_records(AGENT, records)
