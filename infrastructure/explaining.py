"""Why a stored session stopped: what is read for an explanation, and in which order."""

from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.errors import CorruptRecord, SessionNotFound
from steptrail.projections.explanation import Explanation, explain
from steptrail.runtime.agent_journal import load_history
from steptrail.runtime.ports import EventStore

__all__ = ["explained"]


async def explained(
    store: EventStore, session: SessionId, *, now: int, execution: str | int | None = None
) -> Explanation:
    """Explain the newest execution of a session, or the one of that id or number; see `Session.why`."""
    stream, damage = stream_of(session), None
    # The owner first, so that a run that ends now is no crash; and once more, so that one that begins now is none.
    owned = await store.is_leased(stream)
    try:
        records = await load_history(store, session)
    except CorruptRecord as error:
        # What comes before the damage still says something.
        if error.stream != stream or error.version < 2:
            raise
        records, damage = await load_history(store, session, at=error.version - 1), str(error)
    if not records:
        raise SessionNotFound(session)
    if owned is False:
        owned = await store.is_leased(stream)
    return explain(session, records, now=now, owned=owned, execution=execution, damage=damage)
