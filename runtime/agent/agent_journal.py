"""The journal of a session, and the fold of a stored session."""

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

AgentJournal: TypeAlias = Journal[AgentState, AgentEvent]


class OnCommit(Protocol):
    """A function that is called with each commit of this process, once it is durable. Its exceptions are logged."""

    def __call__(self, records: Sequence[Recorded[AgentEvent]], /) -> None:
        """Be told of the events of one commit."""
        ...


async def load(
    store: EventStore, session: SessionId, *, at: int | None = None, is_sound: bool = False
) -> tuple[AgentState, StreamHead]:
    """Fold a session as of version `at`, or as it is now. The phase of a session that does not exist is `absent`.

    For a state that leads to an effect, `is_sound` must be set: see `fold_stream`.
    """
    return await fold_stream(AGENT, store, stream_of(session), at=at, is_sound=is_sound)


def agent_records(records: Sequence[Recorded[Event]]) -> Sequence[Recorded[AgentEvent]]:
    """Return the same records, with the type of a session's events."""
    return typed_records(AGENT, records)
