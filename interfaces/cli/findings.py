"""The findings of `doctor`.

Damage is a state that must never be. A state that needs somebody's attention, such as a run that no process runs any
more or a record of a newer version, is no damage.
"""

from dataclasses import KW_ONLY, dataclass, field

from steptrail.domain.errors import CorruptRecord, MissingRecord, RecordTooNew
from steptrail.domain.shared.summary import RunSummary

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


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was found. `position` is the event's version in its stream."""

    check: str
    stream: str
    what: str
    _: KW_ONLY
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

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        self.findings.append(finding)

    def add_unreadable(self, error: CorruptRecord) -> None:
        """Add a record that cannot be read."""
        if isinstance(error, MissingRecord):
            self.add(Finding("gaps", error.stream, error.why, position=error.version))
            return
        is_new = isinstance(error, RecordTooNew)
        check, name = "versions" if is_new else "records", error.type_name
        self.add(Finding(check, error.stream, error.why, position=error.version, type_name=name, is_damage=not is_new))
