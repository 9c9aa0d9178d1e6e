"""A projection whose rows grow old: one for each note, with parts that belong to it."""

from collections.abc import Sequence

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.table import INSTANT, Column, ColumnKind, Table
from steptrail.testing.store_samples import Noted
from tests.views.counting import Counting, Seen

THINGS = Table(
    name="v1_things",
    says="one row for each note",
    columns=(
        Column("stream", ColumnKind.TEXT, "its stream"),
        Column("version", ColumnKind.INTEGER, "its version"),
        Column("at", ColumnKind.INTEGER, "when it was noted", INSTANT, is_optional=True),
    ),
    key=("stream", "version"),
    aged_by="at",
    of_stream="stream",
)
PARTS = Table(
    name="v1_parts",
    says="two rows for each note",
    columns=(
        Column("part", ColumnKind.INTEGER, "its number"),
        Column("stream", ColumnKind.TEXT, "the stream of the note"),
        Column("version", ColumnKind.INTEGER, "the version of the note"),
    ),
    key=("part", "stream", "version"),
    belongs_to=THINGS,
)


class Ageing(Counting):
    """Counts, and keeps a thing with two parts for each note. A note of 0 says something of the first thing again."""

    name = "ageing"
    tables: Sequence[Table] = (*Counting.tables, THINGS, PARTS)

    def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
        event, version = entry.record.event, entry.record.version
        assert isinstance(event, Noted)
        if event.number or version == 1:
            changes.put(THINGS, {"stream": entry.stream, "version": version, "at": entry.record.at})
        of = version if event.number else 1
        for part in (1, 2):
            changes.put(PARTS, {"part": part, "stream": entry.stream, "version": of})
        return super().apply(fold, entry, changes)
