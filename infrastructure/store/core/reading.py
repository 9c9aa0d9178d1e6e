"""From rows to records: decoding, and giving each event the head of its commit.

Of a stream, the head stands on the first row of a commit. A row without one has the head of the row before it, if that
was read too; where reading began in the middle of a commit, one look back finds it. Each row of the log has its head.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from steptrail.domain.base import LARGEST
from steptrail.domain.errors import CorruptRecord, MissingRecord, SessionErased, StoreSetBack, shown
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.erasure import Erased
from steptrail.domain.kernel.event import EVENT_TYPES, Event
from steptrail.domain.kernel.log_page import LogEntry, LogPage
from steptrail.domain.kernel.record import EMPTY_STREAM, CommitHead, Recorded, StreamHead
from steptrail.infrastructure.store.core.blobs import is_detached, read_record
from steptrail.infrastructure.store.core.digest import ChainFault, ChainRow, verify_chain
from steptrail.infrastructure.store.core.recorder import STRAY, CommitRow, LogRow, Recorder
from steptrail.runtime.kernel.collector import collector_off
from steptrail.runtime.kernel.kinds import KINDS

_PAGE = 500
_MOST_BYTES = 8 << 20
"""How many bytes of large bodies are held for a reader at once, and the record that they come to an end with."""


class _Bodies:
    """Fetches the bodies of events, and counts their bytes."""

    def __init__(self, recorder: Recorder) -> None:
        self._fetch, self._bytes = recorder.body, 0

    def __call__(self, digest: bytes) -> bytes | None:
        """Return the stored body of a digest, or None when there is none."""
        body = self._fetch(digest)
        self._bytes += len(body or b"")
        return body

    @property
    def are_many(self) -> bool:
        """Whether a page that has so many of them is to end."""
        return self._bytes >= _MOST_BYTES


@dataclass(frozen=True, slots=True)
class StreamRead:
    """The part of a stream that was read. `head` is the head of the last record, or of the event that was read after.

    `is_end` is True when no event stood behind it.
    """

    records: Sequence[Recorded[Event]]
    head: StreamHead
    is_end: bool


def read_stream(recorder: Recorder, stream: str, after: int, limit: int | None) -> StreamRead:
    """Return the records after version `after`; with a limit they are fewer when their bodies are large.

    Raises `CorruptRecord`.
    """
    rows = recorder.select_rows(stream, after, limit)
    is_end = limit is None or len(rows) < limit
    if rows and rows[-1][1] == Erased.TYPE:
        check_not_erased(recorder, stream)
    records: list[Recorded[Event]] = []
    head: CommitHead | None = None
    digest: bytes | None = None
    fetch = _Bodies(recorder)
    with collector_off():
        for expected, row in enumerate(rows, after + 1):
            if fetch.are_many and limit is not None:
                del rows[len(records) :]
                is_end = False
                break
            version, topic, at, state, content = row[:5]
            if version != expected:
                raise _misplaced(stream, expected, version, topic)
            if row[5] is not None:
                head, digest = _head(stream, version, topic, row[5:10]), row[10]
            elif not records:
                found = recorder.select_commit(stream, version)
                head = _head(stream, version, topic, found[0]) if found else None
            records.append(read_record(fetch, stream, version, topic, at, state, head, content))
    if not is_end and rows and rows[-1][5] is None:
        _check_claim(recorder, stream, records[-1], rows[-1][1])
    last = rows[-1][0] if rows else after
    # The head is that of the last record, and not of the end of the stream: a commit that came between two questions
    # would be in the head and not in the records, and its reader would append to a state that has not seen it. Where no
    # commit began in these rows, a second look cannot see more: what stands up to an event never changes.
    if isinstance(digest, bytes):
        head_of_last = StreamHead(last, digest)
    else:
        head_of_last = recorder.select_head(stream, last) if last else EMPTY_STREAM
    return StreamRead(records, head_of_last, is_end)


def read_sound(recorder: Recorder, stream: str, after: StreamHead, limit: int | None) -> StreamRead:
    """Return the records of whole commits after a head.

    The digest chain proves that they are what was appended after that head; otherwise `CorruptRecord` is raised, or
    `StoreSetBack` where the stream is sound and never had that head. They are at most `limit`, or one commit that is
    longer; with a limit they are fewer when their bodies are large.
    """
    rows = recorder.select_chain(stream, after.version, None if limit is None else limit + 1)
    if rows and rows[-1].topic == Erased.TYPE:
        check_not_erased(recorder, stream)
    is_end = limit is None or len(rows) <= limit
    if limit == 0:
        return StreamRead([], after, is_end)
    if limit is not None and not is_end:
        wanted, ends = limit, _ends(rows)
        while not ends and len(rows) > wanted:
            wanted *= 2
            rows = recorder.select_chain(stream, after.version, wanted + 1)
            ends = _ends(rows)
        is_end = not ends
        if ends:
            del rows[max((end for end in ends if end <= limit), default=ends[0]) :]
    records: list[Recorded[Event]] = []
    head: CommitHead | None = None
    digest: bytes | None = after.digest
    fetch = _Bodies(recorder)
    with collector_off():
        for expected, row in enumerate(rows, after.version + 1):
            version, topic = row.version, row.topic
            if version != expected:
                raise _misplaced(stream, expected, version, topic)
            if row.commit_id is not None:
                if fetch.are_many and limit is not None:
                    del rows[len(records) :]
                    is_end = False
                    break
                head, digest = _head(stream, version, topic, row.commit), row.digest
            records.append(read_record(fetch, stream, version, topic, row.at, row.state, head, row.content))
    if (fault := verify_chain(stream, rows, None, after=after)) is not None:
        if after.version and verify_stream(recorder, stream) is None:
            raise StoreSetBack(f"session {shown(id_of(stream))}", after.version)
        topic = rows[fault.version - after.version - 1].topic
        why = f"what is stored is not what was appended (commit {fault.commit_id}: {fault.why})"
        raise CorruptRecord(stream, fault.version, topic, f"{why}: nothing was done; restore the store from a copy")
    return StreamRead(records, StreamHead(rows[-1].version, digest or b"") if rows else after, is_end)


def read_proven(
    recorder: Recorder, stream: str, upto: StreamHead, types: Mapping[str, bytes]
) -> list[Recorded[Event]] | None:
    """Return some of the records up to a head, in order, if the digest chain proves that all of them can be read.

    See the port for which ones.
    """
    KINDS.of(stream)  # imports the events of that kind
    newest: dict[str, ChainRow] = {}
    wanted: dict[int, ChainRow] = {}
    found: set[str] = set()
    reached, digest = EMPTY_STREAM

    def chain() -> Iterator[ChainRow]:
        nonlocal reached, digest
        while rows := recorder.select_chain(stream, reached, min(_PAGE, upto.version - reached)):
            of_types = [row for row in rows if row.topic in types]
            newest.update({row.topic: row for row in of_types})
            wanted.update({row.version: row for row in of_types if _may_hold(row.state, types[row.topic])})
            found.update([row.topic for row in rows])
            yield from rows
            reached = rows[-1].version
            digest = next((row.digest for row in reversed(rows) if row.digest is not None), digest)

    fetch = recorder.body
    with collector_off():
        fault = verify_chain(stream, chain(), fetch)
        if fault is not None or (reached, digest) != upto or not found <= EVENT_TYPES.keys():
            return None
        wanted.update({row.version: row for row in newest.values()})
        rows = [wanted[version] for version in sorted(wanted)]
        return [read_record(fetch, stream, *row[:4], None, row.content) for row in rows]


def read_newest_of(
    recorder: Recorder, stream: str, upto: StreamHead, types: Mapping[str, bytes]
) -> list[Recorded[Event]]:
    """Return the records that `read_proven` returns, without a proof. Raises `CorruptRecord` for one of them."""
    newest: dict[str, LogRow] = {}
    wanted: dict[int, LogRow] = {}
    for row in recorder.select_log(0, upto.version, tuple(types), stream, heads=True, until=LARGEST):
        version, topic, state = row[2], row[3], row[5]
        if version <= upto.version:
            newest[topic] = row
            if _may_hold(state, types[topic]):
                wanted[version] = row
    wanted.update({row[2]: row for row in newest.values()})
    fetch = recorder.body
    return [read_record(fetch, stream, *wanted[version][2:6], None, wanted[version][6]) for version in sorted(wanted)]


def read_log(
    recorder: Recorder,
    rows: Sequence[LogRow],
    after: int,
    limit: int,
    *,
    is_lazy: bool,
    on_damage: Callable[[CorruptRecord], None],
) -> LogPage:
    """Return what rows hold that stand after position `after`, at most `limit`, in the order they were stored.

    They are fewer when their bodies are large, unless the page is lazy: that holds none of them.
    Rows without the heads of their commits become records without them. Calls `on_damage` with the error of each that
    cannot be read.
    """
    bodies = _Bodies(recorder)
    items = _items(bodies, rows, after, on_damage)
    read: list[LogEntry | CorruptRecord] = []
    if not is_lazy:
        for item in items:
            read.append(item)
            if bodies.are_many:
                rows, limit = rows[: len(read)], min(limit, len(read))
                break
    reached = max((row[0] for row in rows), default=after)
    return LogPage(items if is_lazy else read, len(rows), reached, len(rows) < limit)


def _items(
    fetch: _Bodies, rows: Iterable[LogRow], after: int, on_damage: Callable[[CorruptRecord], None]
) -> Iterator[LogEntry | CorruptRecord]:
    """Yield rows of the log as entries, or as errors, each when it is asked for. Positions never fall."""
    reached = after
    of: list[str | int | None] = []
    head: CommitHead | None = None
    for row in rows:
        position, stream, version, topic, at, state, content, *commit = row
        try:
            if not isinstance(stream, str) or not isinstance(version, int):  # pyright: ignore[reportUnnecessaryIsInstance]
                why = f"event {version!r} of session {stream!r} has no place"
                raise CorruptRecord(str(stream), 0, str(topic), why)
            if position <= reached:
                # A commit says where its events stand, and a hand may have written there what belongs to another.
                raise CorruptRecord(stream, version, topic, f"it is out of order in the log, at {position}")
            reached = position
            if commit != of:
                head = None if commit[0] is None else _head(stream, version, topic, cast(CommitRow, tuple(commit)))
                of = commit
            record = read_record(fetch, stream, version, topic, at, state, head, content)
        except CorruptRecord as error:
            error.position = reached = max(reached, position)
            on_damage(error)
            yield error
        else:
            yield LogEntry(position, stream, record)


def check_not_erased(recorder: Recorder, stream: str) -> None:
    """Raise `SessionErased` for a stream that was erased."""
    if (erasure := recorder.select_erasure(stream)) is not None:
        raise SessionErased(stream, erasure.by, erasure.at, erasure.reason)


def _may_hold(state: object, wanted: bytes) -> bool:
    """Tell whether a state holds some bytes. One that refers to blobs may hold them there."""
    return isinstance(state, bytes) and (wanted in state or is_detached(state))


def _ends(rows: Sequence[ChainRow]) -> list[int]:
    """Return after how many rows a commit ends that is there as a whole: where the next one begins."""
    return [i for i in range(1, len(rows)) if rows[i].commit_id is not None]


def verify_stream(recorder: Recorder, stream: str) -> ChainFault | None:
    """Return the first commit of a stream that is not what was appended, or None. Holds a page of it at a time."""

    def chain() -> Iterator[ChainRow]:
        after = 0
        while rows := recorder.select_chain(stream, after, _PAGE):
            yield from rows
            after = rows[-1].version

    if stream.startswith(STRAY):
        return ChainFault(1, None, "its events stand under a number that belongs to no stream")
    fault: ChainFault | None = None
    if (erasure := recorder.select_erasure(stream)) is None:
        fault = verify_chain(stream, chain(), recorder.body)
        if fault is None and (cut := recorder.select_cut(stream)) is not None:
            fault = ChainFault(cut, None, f"event {cut} and those after it are missing, and their commit is there")
        # Somebody may have erased it meanwhile.
        erasure = recorder.select_erasure(stream) if fault is not None else None
    if erasure is None:
        return fault
    if not (rows := recorder.select_chain(stream, 0, 2)):
        return ChainFault(erasure.events + 1, None, "the event that stands in the place of all others is missing")
    first = rows[0]
    fault = verify_chain(stream, rows, after=StreamHead(first.version - 1, bytes.fromhex(erasure.digest)))
    if fault is None and (erasure.position, erasure.at, erasure.by) != (first.position, first.at, first.actor):
        why = "the table of erasures says something else of who erased it, when, or where that stands in the log"
        fault = ChainFault(first.version, first.commit_id, why)
    return fault


def _check_claim(recorder: Recorder, stream: str, record: Recorded[Event], topic: str) -> None:
    """Raise `CorruptRecord` for an event whose head is that of a commit before its own: that says a size too large.

    Without a limit the rows go on until events come twice, which is noticed. What is before the last row has its own.
    """
    found, head = recorder.select_commit(stream, record.version), record.head
    if found is not None and head is not None and found[0][0] != head.commit_id:
        why = f"commit {head.commit_id!r} lays claim to it, and it is of {found[0][0]!r}"
        raise CorruptRecord(stream, record.version, topic, why)


# SQLite keeps whatever type a hand wrote into a column.


def _head(stream: str, version: int, topic: str, commit: CommitRow) -> CommitHead:
    commit_id, actor, causation, segment, key_id = commit
    if not _is_typed(*commit):
        raise CorruptRecord(stream, version, topic, "the head of its commit lacks something or holds the wrong type")
    return CommitHead(
        commit_id=commit_id or "", actor=actor or "", causation=causation, segment=segment or 0, key_id=key_id
    )


def _is_typed(commit_id: object, actor: object, causation: object, segment: object, key_id: object) -> bool:
    return (
        isinstance(commit_id, str)
        and isinstance(actor, str)
        and isinstance(causation or "", str)
        and (segment is None or isinstance(segment, int))
        and isinstance(key_id or "", str)
    )


def _misplaced(stream: str, expected: int, version: object, topic: str) -> CorruptRecord:
    if isinstance(version, int):
        return MissingRecord(stream, expected, version)
    return CorruptRecord(stream, expected, str(topic), f"the number of the event is {version!r}")
