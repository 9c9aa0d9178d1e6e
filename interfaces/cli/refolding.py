"""A session folded anew from its events, for `doctor`, which shows whether its snapshot is what the events say."""

from collections.abc import Iterator, Sequence

from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.record import Recorded, Snapshot
from steptrail.interfaces.cli.findings import Examination
from steptrail.runtime.kernel.snapshots import restore

__all__ = ["Refolding"]


class Refolding:
    """Takes the records of one stream in order; `state` is their fold, None once they cannot be folded."""

    def __init__(self, stream: str, snapshot: Snapshot | None, seen: Examination) -> None:
        self._stream, self._snapshot, self._seen = stream, snapshot, seen
        self.state: AgentState | None = AGENT.initial(stream.removeprefix(AGENT.stream_prefix))

    def give_up(self) -> None:
        """Fold no further: a record is missing or cannot be read."""
        self.state = None

    def has_past(self, records: Sequence[Recorded[AgentEvent]]) -> None:
        """Fold records of the past that the stream goes on from."""
        self._fold(records)

    def go_on(self, records: Sequence[Recorded[AgentEvent]]) -> None:
        """Fold the next records, and look at the snapshot where it stands."""
        snapshot = self._snapshot
        if snapshot is not None:
            upto = [record for record in records if record.version <= snapshot.head.version]
            self._fold(upto)
            if upto and upto[-1].version == snapshot.head.version and self.state is not None:
                self._compare(snapshot, self.state)
            records = records[len(upto) :]
        self._fold(records)

    def _fold(self, records: Sequence[Recorded[AgentEvent]]) -> None:
        at: Recorded[AgentEvent] | None = None

        def watched() -> Iterator[Recorded[AgentEvent]]:
            nonlocal at
            for record in records:
                at = record
                yield record

        if self.state is None:
            return
        try:
            self.state = AGENT.evolve_all(self.state, watched())
        except Exception as error:
            what = f"it cannot be folded: {type(error).__name__}: {error}"
            where = (at.version, at.event.TYPE) if at is not None else (None, None)
            self._seen.add("fold", self._stream, what, position=where[0], type_name=where[1])
            self.state = None

    def _compare(self, snapshot: Snapshot, state: AgentState) -> None:
        codec = AGENT.snapshots
        try:
            cached = restore(codec, snapshot) if codec is not None else None
            if cached is None:
                what = f"the snapshot is of another version of Steptrail ({snapshot.format}): it is not used"
            elif cached == state:
                return
            else:
                what = "the snapshot is not what the events fold to: delete it"
            is_damage = cached is not None
        except ValueError as error:
            what, is_damage = f"the snapshot cannot be read: {error}: delete it", True
        self._seen.add("snapshots", self._stream, what, position=snapshot.head.version, is_damage=is_damage)
