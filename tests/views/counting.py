"""A small projection for tests: what was noted in each stream, how often each number, and how much on the whole."""

from collections.abc import Sequence
from dataclasses import dataclass

from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Column, ColumnKind, Index, Row, Table
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing.store_samples import Noted, commit_of

_I, _T, _B = ColumnKind.INTEGER, ColumnKind.TEXT, ColumnKind.BOOLEAN
STREAMS = Table(
    name="v1_streams",
    says="one row for each stream",
    columns=(
        Column("first", _I, "the place of its first note"),
        Column("stream", _T, "the stream"),
        Column("notes", _I, "how many notes there are"),
        Column("sum", _I, "the sum of the numbers", "apples"),
        Column("limit", _T, "the last text, 'as it came'", is_optional=True),
        Column("is_even", _B, "whether the sum is even"),
    ),
    key=("first",),
    indexes=(Index(("stream", "notes")), Index(("sum",), where="sum > 10")),
    of_stream="stream",
)
NOTES = Table(
    name="v1_notes",
    says="one row for each number of a stream that is noted and not taken back",
    columns=(
        Column("stream", _T, "the stream"),
        Column("number", _I, "the number"),
        Column("version", _I, "the version of the last note of it"),
    ),
    key=("stream", "number"),
    of_stream="stream",
)
TOTALS = Table(
    name="v1_totals",
    says="sums of all streams",
    columns=(
        Column("parity", _T, "even or odd"),
        Column("notes", _I, "how many notes"),
        Column("sum", _I, "their sum"),
    ),
    key=("parity",),
    is_sums=True,
)


@dataclass
class Seen:
    """What is remembered of one stream."""

    stream: str
    first: int = 0
    notes: int = 0
    sum: int = 0
    text: str | None = None


class Counting(Projection[Seen]):
    """Folds `Noted` of the streams `agent:`. A note of 0 takes back the note of 1.

    It fails at the text `fails_at`, and where a stream has the sum `hated_sum` at the end of a batch.
    """

    name, prefixes, types = "counting", ("agent:",), (Noted.TYPE,)
    tables: Sequence[Table] = (STREAMS, NOTES, TOTALS)

    def __init__(
        self,
        *,
        version: int = 1,
        fails_at: str | None = None,
        fails_with: type[BaseException] = ValueError,
        hated_sum: int | None = None,
    ) -> None:
        self.version, self.fails_at, self.fails_with, self.hated_sum = version, fails_at, fails_with, hated_sum
        self.begun = 0

    def begin(self, stream: str) -> Seen:
        self.begun += 1
        return Seen(stream)

    def apply(self, fold: Seen, entry: LogEntry, changes: Changes) -> Seen | None:
        event = entry.record.event
        assert isinstance(event, Noted)
        fold.first = fold.first or entry.position
        fold.notes += 1
        fold.sum += event.number
        parity = "odd" if event.number % 2 else "even"
        changes.add(TOTALS, (parity,), {"notes": 1, "sum": event.number})
        if event.number:
            row: Row = {"stream": entry.stream, "number": event.number, "version": entry.record.version}
            changes.put(NOTES, row)
        else:
            changes.drop(NOTES, (entry.stream, 1))
        if event.text and event.text == self.fails_at:
            raise self.fails_with(f"I hate {event.text}")
        fold.text = event.text or None
        return fold

    def end_batch(self, fold: Seen, changes: Changes) -> None:
        if fold.sum == self.hated_sum:
            raise ValueError(f"I hate {fold.sum}")
        if not fold.notes:
            return
        changes.put(
            STREAMS,
            {
                "first": fold.first,
                "stream": fold.stream,
                "notes": fold.notes,
                "sum": fold.sum,
                "limit": fold.text,
                "is_even": fold.sum % 2 == 0,
            },
        )


async def note(store: EventStore, stream: str, *numbers: int, text: str = "") -> None:
    """Append a commit of notes to a stream."""
    head = await store.head(stream) if await store.version(stream) else EMPTY_STREAM
    name = f"c-{stream}-{head.version}"
    await store.append(stream, head, commit_of(name, *(Noted(number=number, text=text) for number in numbers)))
