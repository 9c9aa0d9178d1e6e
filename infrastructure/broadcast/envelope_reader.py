"""Messages of the log's entries: from any place in it, in any process, the same ones with the same ids."""

from typing import Any

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.record import Recorded
from steptrail.infrastructure.entry_reader import EntryReader, is_fork
from steptrail.infrastructure.stored_lifecycle import lifecycle_at
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.projections.broadcast.fold import EnvelopeFold
from steptrail.projections.kinds import Lifecycle
from steptrail.runtime.kernel.history import records_between
from steptrail.runtime.kernel.ports import EventStore

_LOOK_BACK = 64
"""So many events before its beginning a fold looks first; the message before and the status are rarely further away."""


class StreamFolds:
    """Both folds of one stream: from stored events to lifecycle events, and from those to messages."""

    def __init__(self, lifecycle: Lifecycle, envelopes: EnvelopeFold) -> None:
        self._lifecycle, self.envelopes = lifecycle, envelopes

    @property
    def version(self) -> int:
        """The version of the newest event it has been given."""
        return self._lifecycle.version

    def copied(self) -> "StreamFolds":
        """Return folds that go on from here by themselves."""
        return StreamFolds(self._lifecycle.copied(), self.envelopes.copied())

    def apply(self, record: Recorded[Any], /, *, position: int = 0) -> tuple[BroadcastEnvelope, ...]:
        """Return the messages of the next event of the stream."""
        told = self._lifecycle.apply(record, position=position)
        return tuple(made for event in told for made in self.envelopes.apply(event))


class EnvelopeReader(EntryReader[StreamFolds]):
    """Makes messages for front ends of the entries of a subscription, in the order in which they come.

    It may begin anywhere, and entries may be left out or come again: a stream that it does not know it reads from the
    store. It remembers the newest 1,000 streams.
    """

    def __init__(self, store: EventStore, config: BroadcastConfig) -> None:
        super().__init__(lambda stream, version: fold_at(store, stream, version, config))

    async def envelopes(self, entry: LogEntry) -> tuple[BroadcastEnvelope, ...]:
        """Return the messages of one entry, none for many. Raises store errors, and may be asked again.

        A kind of machine that is not known here has none.
        """
        return await self._told(entry)

    def fold_of(self, stream: str) -> EnvelopeFold | None:
        """Return the fold of a stream that it remembers."""
        fold = self._folds.get(stream)
        return None if fold is None else fold.envelopes


async def fold_at(store: EventStore, stream: str, version: int, config: BroadcastConfig) -> StreamFolds | None:
    """Return the folds of a stream as they are after its event `version`; None for a kind that is not known here.

    It reads the events before that as far back as it must, and no further. Raises store errors.
    """
    look_back = _LOOK_BACK
    while True:
        fold = await _folded(store, stream, max(0, version - look_back), version, config)
        if fold is None or fold.envelopes.is_settled:
            return fold
        look_back *= 8


async def _folded(store: EventStore, stream: str, begin: int, end: int, config: BroadcastConfig) -> StreamFolds | None:
    records = await records_between(store, stream, begin, end)
    is_whole = not begin
    if is_whole and records and is_fork(stream, records[0]):
        begin, records = 1, records[1:]
    lifecycle = await lifecycle_at(store, stream, begin)
    if lifecycle is None:
        return None
    fold = StreamFolds(lifecycle, EnvelopeFold(config, is_whole=is_whole))
    for record in records:
        fold.apply(record)
    return fold
