"""Messages for whoever follows the log: from any place in it, in any process, the same ones with the same ids."""

from collections import OrderedDict

from steptrail.domain.agent.events import SessionForked
from steptrail.domain.agent.evolve import initial
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.projections.broadcast import BroadcastConfig, Envelope, EnvelopeFold
from steptrail.projections.lifecycle import LifecycleFold
from steptrail.runtime.agent.agent_journal import agent_records, load
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.subscription import LogEntry

__all__ = ["EnvelopeFollower", "SessionFold", "fold_at"]

_MOST_SESSIONS = 1_000
_LOOK_BACK = 64
"""So many events before its beginning a fold looks first; the message before and the status are rarely further away."""


class SessionFold:
    """Both folds of one session: from stored events to lifecycle events, and from those to messages."""

    def __init__(self, lifecycle: LifecycleFold, envelopes: EnvelopeFold) -> None:
        self._lifecycle, self.envelopes = lifecycle, envelopes

    @property
    def version(self) -> int:
        """The version of the newest event it has been given."""
        return self._lifecycle.version

    def apply(self, entry: LogEntry) -> tuple[Envelope, ...]:
        """Return the messages of the next event of the session."""
        told = self._lifecycle.apply(entry.record, position=entry.position)
        return tuple(made for event in told for made in self.envelopes.apply(event))


class EnvelopeFollower:
    """Tells what the entries of a subscription mean to front ends, in the order in which they come.

    It may begin anywhere, and entries may be left out or come again: what it does not know of a session it reads from
    the store. It remembers the newest 1,000 sessions.
    """

    def __init__(self, store: EventStore, config: BroadcastConfig) -> None:
        self._store, self._config = store, config
        self._folds: OrderedDict[str, SessionFold] = OrderedDict()

    async def envelopes(self, entry: LogEntry) -> tuple[Envelope, ...]:
        """Return the messages of one entry, none for many. Raises store errors, and may be asked again."""
        session, version = entry.agent_id, entry.record.version
        fold = self._folds.pop(session, None)
        if isinstance(entry.record.event, SessionForked):
            # What it begins with is another session's past, of which nothing is told here.
            self._remember(session, await fold_at(self._store, session, version, self._config))
            return ()
        if fold is None or fold.version != version - 1:
            fold = await fold_at(self._store, session, version - 1, self._config)
        made = fold.apply(entry)
        self._remember(session, fold)
        return made

    def fold_of(self, session: str) -> EnvelopeFold | None:
        """Return the fold of a session that it remembers."""
        fold = self._folds.get(session)
        return None if fold is None else fold.envelopes

    def _remember(self, session: str, fold: SessionFold) -> None:
        self._folds[session] = fold
        if len(self._folds) > _MOST_SESSIONS:
            self._folds.popitem(last=False)


async def fold_at(store: EventStore, session: SessionId, version: int, config: BroadcastConfig) -> SessionFold:
    """Return the folds of a session as they are after its event `version`. Raises store errors.

    It reads the events before that as far back as it must, and no further.
    """
    look_back = _LOOK_BACK
    while True:
        fold = await _folded(store, session, max(0, version - look_back), version, config)
        if fold.envelopes.is_settled:
            return fold
        look_back *= 8


async def _folded(store: EventStore, session: SessionId, begin: int, end: int, config: BroadcastConfig) -> SessionFold:
    stored = await store.read(stream_of(session), after=begin, limit=end - begin) if end > begin else None
    records = agent_records(stored.records) if stored is not None else ()
    if not begin and records and isinstance(records[0].event, SessionForked):
        begin, records = 1, records[1:]
        state, _ = await load(store, session, at=begin)
        fold = SessionFold(LifecycleFold(state), EnvelopeFold(config))
    else:
        state = initial(session) if not begin else (await load(store, session, at=begin))[0]
        fold = SessionFold(LifecycleFold(state), EnvelopeFold(config, is_whole=not begin))
    for record in records:
        fold.apply(LogEntry(0, session, record))
    return fold
