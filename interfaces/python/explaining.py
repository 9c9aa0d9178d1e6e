"""Why a stored session stopped: what is read for an explanation, and in which order."""

from collections.abc import Sequence

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.errors import CorruptRecord, SessionNotFound
from steptrail.domain.kernel.record import Recorded
from steptrail.projections.explanation import Explanation, explain
from steptrail.runtime.agent.agent_journal import load_history
from steptrail.runtime.kernel.ports import EventStore

__all__ = ["explained"]


async def explained(
    store: EventStore, session: SessionId, *, now: int, execution: str | int | None = None
) -> Explanation:
    """Explain the newest execution of a session, or the one of that id or number; see `Session.why`."""
    stream = stream_of(session)
    while True:
        records, damage = await _readable(store, session, stream)
        if not records:
            raise SessionNotFound(session)
        owned = await store.is_leased(stream)
        # Who lets go of the lease has stored its last event before: a run that has ended meanwhile is no crash.
        if owned is not False or damage is not None or await store.version(stream) == records[-1].version:
            return explain(session, records, now=now, owned=owned, execution=execution, damage=damage)


async def _readable(
    store: EventStore, session: SessionId, stream: str
) -> tuple[Sequence[Recorded[AgentEvent]], str | None]:
    """Return the events up to the first that cannot be read, and what is wrong with that one."""
    try:
        return await load_history(store, session), None
    except CorruptRecord as error:
        # What comes before the damage still says something.
        if error.stream != stream or error.version < 2:
            raise
        return await load_history(store, session, at=error.version - 1), str(error)
