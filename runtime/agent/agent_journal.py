"""The journal of an agent's session, and the fold of a stored one."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded, StreamHead
from steptrail.runtime.kernel.history import typed_records
from steptrail.runtime.kernel.journal import Journal, fold_stream
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["AgentJournal", "OnCommit", "agent_records", "load"]

AgentJournal: TypeAlias = Journal[AgentState, AgentEvent]


class OnCommit(Protocol):
    """Told of every commit of this process, after it is durable. What it raises harms nobody."""

    def __call__(self, records: Sequence[Recorded[AgentEvent]], /) -> None:
        """Take note of the events of one commit."""
        ...


async def load(
    store: EventStore, session: SessionId, *, at: int | None = None, is_sound: bool = False
) -> tuple[AgentState, StreamHead]:
    """Fold a session as of version `at`, or as it stands now; a session that is not there is `absent`.

    What leads to an effect must be sound: see `fold_stream`.
    """
    return await fold_stream(AGENT, store, stream_of(session), at=at, is_sound=is_sound)


def agent_records(records: Sequence[Recorded[Event]]) -> Sequence[Recorded[AgentEvent]]:
    """Return the records of an agent's stream as what they are."""
    return typed_records(AGENT, records)
