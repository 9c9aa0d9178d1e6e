"""A recorded session as a value and as a file: the cassette of a run. And a run of a workflow, which is only read.

A file is JSON lines: a header that says what it is and what it cannot hold, then every record as it is stored.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import orjson

from steptrail.domain.agent.events import AgentEvent, ExecutionStarted, SessionForked
from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.errors import ConfigurationError, CorruptRecord, NotARecording, RecordTooNew
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import CommitHead, Recorded
from steptrail.domain.readable import readable
from steptrail.domain.version import VERSION
from steptrail.infrastructure.store.core.blobs import no_blobs, read_record
from steptrail.infrastructure.store.core.codec import apart, encode
from steptrail.runtime.agent.agent_journal import agent_records

if TYPE_CHECKING:
    from steptrail.domain.flow.events import FlowEvent

FORMAT: Final = 1
"""The version of the file format. A higher one is refused."""

NOT_CAPTURED: Final = (
    "the code of hooks, criteria and error policies: a replay runs the code of today",
    "what hooks read or call by themselves: clocks, files, networks, other models",
    "the world behind the tools: a replay gives their recorded results",
    "sessions of subagents: the calls that ran them are in here, with their results",
    "the bytes of files: what was asked is here by their digests, and an archive has them",
    "pieces of replies as they were streamed, and the progress of tools",
    "scheduling: calls that ran side by side may end in another order",
)
"""The limits of a recorded session, for those who rely on a replay."""

_KIND, _KIND_OF_FLOWS = "steptrail.session", "steptrail.flow"
_LONGEST_HEADER: Final = 1_000_000
_COMMIT = rb'\{(?:[^"{}]|"(?:[^"\\]|\\.)*+")*+\}|null'
_LINE = re.compile(rb'\{"version":(\d{1,18}),"commit":(' + _COMMIT + rb'),"type":"([^"\\]+)","state":(\{.*\})\}')


@dataclass(frozen=True)
class Recording:
    """One session and all of its events.

    `records` are the result of `session.history()`: for a fork the past that it shares comes first. `redacted` names
    the keys whose values were taken out. Raises `NotARecording` for a session in which no execution was started.
    """

    session: str
    records: Sequence[Recorded[AgentEvent]]
    redacted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not any(isinstance(record.event, ExecutionStarted) for record in self.records):
            raise NotARecording(f"session {self.session!r} has no execution: there is nothing to replay")

    @property
    def events(self) -> tuple[AgentEvent, ...]:
        """The events, in order."""
        return tuple(record.event for record in self.records)

    @property
    def started(self) -> ExecutionStarted:
        """The start of its first execution, with the input and the agent of then."""
        return next(event for event in self.events if isinstance(event, ExecutionStarted))

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of its file, each with its end."""
        about = {"session": self.session, "agent": self.started.agent.name, "notCaptured": NOT_CAPTURED}
        return _written(_KIND, about, self.records, self.redacted)

    def save(self, path: Path | str) -> None:
        """Write the file, and the folders above it that are not there. A file in its place is replaced."""
        save_lines(path, self.lines())

    @classmethod
    def load(cls, path: Path | str) -> "Recording":
        """Read a file. Raises `NotARecording` that says what is wrong with it."""
        source = Path(path)
        about, lines = lines_of(source, if_empty="`steptrail export ID --out FILE` writes a recording")
        _check(source, about)
        try:
            session = checked_session_id(str(about["session"]))
            expected, redacted = int(about["events"]), tuple(str(key) for key in about["redacted"])
        except (ConfigurationError, KeyError, TypeError, ValueError) as error:
            raise NotARecording(f"the header of {source} is damaged: {error}") from error
        records = [record_of(source, number, stream_of(session), line) for number, line in enumerate(lines, start=2)]
        if len(records) != expected:
            raise NotARecording(f"{source} holds {len(records)} events and says that there are {expected}")
        due = 1
        for number, record in enumerate(records, start=2):
            holds, found = f"holds event {record.version}", record.version
            if isinstance(record.event, SessionForked):
                # The events of a fork are counted anew, after those of the past that it shares.
                holds, found = f"forks after event {record.event.version}", record.event.version + 1
            if found != due:
                raise NotARecording(f"line {number} of {source} is out of order: it {holds}, where event {due} belongs")
            due = record.version + 1
        return cls(session, agent_records(records), redacted)


@dataclass(frozen=True)
class FlowRecording:
    """A run of a workflow and all of its events, to be read. `redacted` names the keys whose values were taken out."""

    flow: str
    name: str
    records: "Sequence[Recorded[FlowEvent]]"
    redacted: tuple[str, ...] = ()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of its file, each with its end."""
        return _written(_KIND_OF_FLOWS, {"flow": self.flow, "workflow": self.name}, self.records, self.redacted)


def _written(
    kind: str, about: Mapping[str, object], records: Sequence[Recorded[Event]], redacted: tuple[str, ...]
) -> Iterator[bytes]:
    """Yield the lines of a file that holds a stream, each with its end."""
    held = {"events": len(records), "redacted": redacted}
    header = {"kind": kind, "format": FORMAT, "steptrail": VERSION, **about, **held}
    yield orjson.dumps(header) + b"\n"
    for record in records:
        yield line_of(record)


def save_lines(path: Path | str, lines: Iterable[bytes]) -> None:
    """Write a file, and the folders above it that are not there. A file in its place is replaced; a link stays.

    A device or a pipe, such as `/dev/null`, is written into.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder: name a file in it", str(path))
    # Asked of the path itself: `/dev/stdout` may lead to a pipe, which has no name that could be looked up.
    if Path(path).exists() and not target.is_file():
        with Path(path).open("wb") as file:
            file.writelines(lines)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f"{target.name}.new")
    try:
        with beside.open("wb") as file:
            file.writelines(lines)
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def line_of(record: Recorded[Event]) -> bytes:
    """Return the line of an event, with its end."""
    head = record.head
    commit = None
    if head is not None:
        commit = {"id": head.commit_id, "actor": head.actor, "causation": head.causation, "segment": head.segment}
    name, state = record.event.TYPE.encode(), encode(record.event, record.at)
    return b'{"version":%d,"commit":%s,"type":"%s","state":%s}\n' % (record.version, orjson.dumps(commit), name, state)


def lines_of(source: Path, *, if_empty: str) -> tuple[dict[str, Any], Iterator[bytes]]:
    """Return the header of a file that holds a stream, empty if it is no object, and read the lines behind it.

    Raises `NotARecording` for a file that cannot be read, or is empty.
    """
    lines = _read(source)
    header = next(lines, None)
    if header is None:
        raise NotARecording(f"{source} is empty: {if_empty}")
    try:
        found: object = orjson.loads(header)
    except orjson.JSONDecodeError:
        found = None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}, lines


def _read(source: Path) -> Iterator[bytes]:
    try:
        with source.open("rb") as file:
            # A device such as /dev/zero has no lines, and no end.
            if len(header := file.readline(_LONGEST_HEADER)) == _LONGEST_HEADER:
                raise NotARecording(f"{source} is no session: its first line has {_LONGEST_HEADER:,} bytes or more")
            if header:
                yield header.rstrip(b"\r\n")
            yield from (line.rstrip(b"\r\n") for line in file)
    except OSError as error:
        raise NotARecording(f"{source} cannot be read: {error.strerror or error}") from error


def _check(source: Path, about: Mapping[str, Any]) -> None:
    if about.get("kind") == _KIND_OF_FLOWS:
        raise NotARecording(f"{source} holds a run of a workflow, which can be read and not replayed")
    if about.get("kind") != _KIND:
        raise NotARecording(f"{source} is no recorded session: `steptrail export ID --out FILE` writes one")
    if about.get("format") != FORMAT:
        written = about.get("steptrail", "another version")
        raise NotARecording(
            f"{source} has the format {about.get('format')!r} of Steptrail {written}, and this one reads {FORMAT}: "
            "update, or export the session again"
        )


def record_of(source: Path, number: int, stream: str, line: bytes) -> Recorded[Event]:
    """Return the event that a line of a file holds. Raises `NotARecording`."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise NotARecording(f"line {number} of {source} is no record")
    version, commit, name, state = found.groups()
    try:
        return read_record(no_blobs, stream, int(version), name.decode(), *apart(state), _head(commit))
    except RecordTooNew as error:
        raise NotARecording(f"line {number} of {source}: {error}") from error
    except (CorruptRecord, KeyError, TypeError, ValueError) as error:
        raise NotARecording(f"line {number} of {source} is damaged: {error}") from error


def _head(commit: bytes) -> CommitHead | None:
    about = orjson.loads(commit)
    if about is None:
        return None
    about["commit_id"] = about.pop("id")
    return msgspec.convert(about, readable(CommitHead))
