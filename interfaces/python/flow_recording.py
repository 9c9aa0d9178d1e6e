"""A run of a workflow as a file of JSON lines, which is to be read: a header, then every record as it is stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.version import VERSION
from steptrail.interfaces.python.recording import FORMAT, save_lines, written

_KIND = "steptrail.flow"


@dataclass(frozen=True)
class FlowRecording:
    """A stream of a workflow and all of its events. `redacted` names the keys whose values were taken out."""

    flow: str
    name: str
    records: Sequence[Recorded[FlowEvent]]
    redacted: tuple[str, ...] = ()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of its file, each with its end."""
        header = {
            "kind": _KIND,
            "format": FORMAT,
            "steptrail": VERSION,
            "flow": self.flow,
            "workflow": self.name,
            "events": len(self.records),
            "redacted": list(self.redacted),
        }
        return written(header, self.records)

    def save(self, path: Path | str) -> None:
        """Write the file, and the folders above it that are not there. A file in its place is replaced."""
        save_lines(path, self.lines())
