"""The questions of `doctor` to a store, and its findings.

Damage is a state that must never be. A state that needs somebody's attention, such as a run that no process runs any
more or a record of a newer version, is no damage.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from steptrail.domain.kernel.record import Snapshot
from steptrail.domain.shared.summary import RunSummary
from steptrail.infrastructure.store.core.blobs import BlobFault
from steptrail.infrastructure.store.core.digest import ChainFault
from steptrail.infrastructure.store.core.lease_looking import SeenLease
from steptrail.runtime.kernel.ports import EventStore

CHECKS = (
    "store",
    "digest chain",
    "gaps",
    "versions",
    "records",
    "forks",
    "erasures",
    "fold",
    "index",
    "open effects",
    "leases",
    "snapshots",
    "blobs",
    "views",
    "sqlite",
)
"""The parts that are looked at, in this order."""


class ExaminedStore(EventStore, Protocol):
    """A store that can be looked at as a whole: its questions beyond those of running a session."""

    async def all_streams(self) -> Sequence[str]:
        """Return the ids of all streams, those that have lost their first events included."""
        ...

    async def verify(self, stream: str) -> ChainFault | None:
        """Return the first commit of the stream that is not what was appended, or None."""
        ...

    async def strays(self) -> Sequence[tuple[str, int]]:
        """Return the id of each stream with events that belong to no commit, and the version of the first of them."""
        ...

    async def leases(self) -> Sequence[SeenLease] | None:
        """Return every lease that is held or was left behind; None when it cannot be told."""
        ...

    async def snapshot(self, stream: str, *, on_damage: Callable[[str], None] | None = None) -> Snapshot | None:
        """Return the snapshot of the stream, if it may be used; otherwise tell `on_damage` why not."""
        ...

    async def streams_with_snapshots(self) -> Sequence[str]:
        """Return the ids of the streams that a snapshot is stored of, also of those that are not there."""
        ...

    async def list_anew(self, row: RunSummary) -> None:
        """Write the row of a stream in the index, unless a newer one is there."""
        ...

    async def blob_faults(self) -> Sequence[BlobFault]:
        """Return the blobs that are damaged, and those that no event refers to."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that was found. `position` is the event's version in its stream."""

    check: str
    stream: str
    what: str
    position: int | None = None
    type_name: str | None = None
    is_damage: bool = True


@dataclass(slots=True)
class Examination:
    """The parts that were looked at, and the findings."""

    streams: int = 0
    events: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])
    unlisted: list[RunSummary] = field(default_factory=list[RunSummary])
    """The rows that the index should have, of those that say something else there."""

    @property
    def is_healthy(self) -> bool:
        """Tell whether there is no damage."""
        return not any(finding.is_damage for finding in self.findings)

    def add(
        self,
        check: str,
        stream: str,
        what: str,
        *,
        position: int | None = None,
        type_name: str | None = None,
        is_damage: bool = True,
    ) -> None:
        """Add a finding."""
        self.findings.append(
            Finding(check=check, stream=stream, what=what, position=position, type_name=type_name, is_damage=is_damage)
        )
