"""The list of runs: one row a stream, from the few events that move it."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from steptrail.domain.agent.events import (
    ExecutionFinished,
    ExecutionPaused,
    SessionStarted,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.by_prefix import id_of, prefix_of
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.projections.kinds import PROJECTIONS
from steptrail.projections.summary import RunSummary

__all__ = ["RunsProjection"]

_SHARED = (SessionStarted, ExecutionPaused, ExecutionFinished, WaitStarted, WaitEnded)


class RunsProjection:
    """Folds the log into one summary a stream. Applying the same record twice has no further effect."""

    def __init__(self) -> None:
        kinds = [kind for prefix in PROJECTIONS if (kind := PROJECTIONS.of(prefix)) is not None]
        self.types: Sequence[str] = (
            *(event.TYPE for event in _SHARED),
            *(name for kind in kinds for name in kind.row.types),
        )
        self._rows: dict[str, RunSummary] = {}
        self._seen: dict[str, int] = {}

    @property
    def rows(self) -> Mapping[str, RunSummary]:
        """Stream -> summary."""
        return self._rows

    def newest_first(self) -> Sequence[RunSummary]:
        """Return the summaries, the one that moved last first."""
        return sorted(self._rows.values(), key=lambda row: row.updated_at, reverse=True)

    def mark_damaged(self, error: CorruptRecord) -> None:
        """Keep the stream of a record that cannot be read in the list, and say so."""
        row = self._rows.get(error.stream) or _row(error.stream)
        self._rows[error.stream] = replace(row, damage=str(error))

    def apply(self, stream: str, record: Recorded[Event]) -> None:
        """Fold one record of a stream."""
        if record.version <= self._seen.get(stream, 0):
            return
        self._seen[stream] = record.version
        row = self._rows.get(stream) or _row(stream, started_at=record.at)
        kind = PROJECTIONS.of(stream)
        row = _moved(row, record.event)
        row = row if kind is None else kind.row.moved(row, record.event)
        self._rows[stream] = replace(row, updated_at=max(row.updated_at, record.at))


def _row(stream: str, *, started_at: int = 0) -> RunSummary:
    return RunSummary(
        kind=prefix_of(stream).removesuffix(":"), session_id=id_of(stream), name="", started_at=started_at
    )


def _moved(row: RunSummary, event: Event) -> RunSummary:
    """Move a row by what all kinds share."""
    match event:
        case SessionStarted(name=name, parent=parent):
            return replace(row, name=name, parent=parent)
        case WaitStarted(kind=kind, until=until):
            return replace(row, status=ExecutionStatus.WAITING, waits_for=kind, waits_until=until)
        case WaitEnded() if row.status is ExecutionStatus.PAUSED:
            return replace(row, waits_for=None, waits_until=None)
        case WaitEnded():
            return replace(row, status=ExecutionStatus.IN_PROGRESS, waits_for=None, waits_until=None)
        case ExecutionPaused(by=by):
            return replace(row, status=ExecutionStatus.PAUSED, paused_by=by)
        case ExecutionFinished(status=status, stop_reason=reason, resolved_by=resolved_by, answered=answered):
            return replace(row, status=status, stop_reason=reason.value, resolved_by=resolved_by, answered=answered)
        case _:
            return row
