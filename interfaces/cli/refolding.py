"""A stream folded anew from its events, for `doctor`, which shows whether its snapshot is what the events say."""

from collections.abc import Iterator, Sequence
from typing import Any

from steptrail.domain.errors import RecordTooNew
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.machine import FoldedState, Machine
from steptrail.domain.kernel.record import Recorded, Snapshot
from steptrail.interfaces.cli.findings import Examination, Finding
from steptrail.runtime.kernel.snapshots import restore


class Refolding:
    """Takes the records of one stream in order. `state` is their fold; None without a machine, and once there is none.

    A stream of a kind that is not known here has no machine.
    """

    def __init__(
        self, machine: Machine[Any, Any, Any, Any] | None, stream: str, snapshot: Snapshot | None, seen: Examination
    ) -> None:
        self._machine, self._stream, self._snapshot, self._seen = machine, stream, snapshot, seen
        self.state: FoldedState | None = None if machine is None else machine.initial(id_of(stream))

    def give_up(self) -> None:
        """Fold no further: a record is missing or cannot be read."""
        self.state = None

    def go_on(self, records: Sequence[Recorded[Event]]) -> None:
        """Fold the next records, and look at the snapshot where it stands."""
        snapshot = self._snapshot
        if snapshot is not None:
            upto = [record for record in records if record.version <= snapshot.head.version]
            self.fold(upto)
            if upto and upto[-1].version == snapshot.head.version and self.state is not None:
                self._compare(snapshot, self.state)
            records = records[len(upto) :]
        self.fold(records)

    def fold(self, records: Sequence[Recorded[Event]]) -> None:
        """Fold the next records, or those of the past that the stream goes on from, which come first."""
        at: Recorded[Event] | None = None

        def watched() -> Iterator[Recorded[Event]]:
            nonlocal at
            for record in records:
                at = record
                yield record

        if self.state is None or self._machine is None:
            return
        try:
            self.state = self._machine.evolve_all(self.state, watched())
        except RecordTooNew as error:
            self._seen.add_unreadable(error)
            self.state = None
        except Exception as error:
            what = f"it cannot be folded: {type(error).__name__}: {error}"
            where = (at.version, at.event.TYPE) if at is not None else (None, None)
            self._seen.add(Finding("fold", self._stream, what, position=where[0], type_name=where[1]))
            self.state = None

    def _compare(self, snapshot: Snapshot, state: FoldedState) -> None:
        codec = None if self._machine is None else self._machine.snapshots
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
        self._seen.add(Finding("snapshots", self._stream, what, position=snapshot.head.version, is_damage=is_damage))
