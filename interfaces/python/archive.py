"""Streams as files that prove what they hold: written before a stream is erased by its age, and read again later.

A file is JSON lines like those of an exported session: a header, then every event as it is stored, and in front of the
events that first name them, the files of the session. The header has the
digest of the last commit. It is what the digests of all commits come to, so a reader of the file computes it again, and
compares it with the one that the store remembers of the stream that was erased.
"""

import asyncio
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import orjson
from msgspec import structs

from steptrail.domain.errors import (
    ConcurrencyConflict,
    ConfigurationError,
    CorruptRecord,
    ErasureRefused,
    FileUnreadable,
    NotARecording,
    shown,
    stream_name,
)
from steptrail.domain.files import files_in
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Recorded, StreamHead
from steptrail.domain.version import VERSION
from steptrail.infrastructure.store.core.blobs import detach_all, encode_commit
from steptrail.infrastructure.store.core.digest import commit_digest
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.file_errors import file_error, may_pass
from steptrail.interfaces.python.naming import stream_named
from steptrail.interfaces.python.recording import FORMAT, line_of, lines_of, record_of
from steptrail.runtime.kernel.files import stored_file
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.runtime.kernel.ports import EventStore

if TYPE_CHECKING:
    from steptrail.interfaces.python.trail import Steptrail

_FILE: Final = b'{"file":'
"""The beginning of a line that holds the bytes of a file, as base64."""
_KIND: Final = "steptrail.archive"
_EMPTY: Final = "it is no archived session"
_PAGE = 500


@dataclass(frozen=True)
class ArchiveFile:
    """One stream as it was archived; `digest` is that of its last commit, and proves all of them."""

    source: Path
    stream: str
    events: int
    digest: bytes

    @classmethod
    def proved(cls, source: Path) -> "ArchiveFile":
        """Read a file to its end and prove it. Its events, which may not have room in memory, are not kept."""
        about, lines = lines_of(source, if_empty=_EMPTY)
        _check(source, about)
        try:
            stream = str(about["stream"])
            # What can be no session could be stored, and neither be shown nor be erased.
            if stream_named(stream_name(stream)) != stream:
                raise ValueError(f"{shown(stream)} is no session or run")
            file = cls(source, stream, int(about["events"]), bytes.fromhex(about["digest"]))
        except (ConfigurationError, KeyError, TypeError, ValueError) as error:
            raise NotARecording(f"the header of {source} is damaged: {error}") from error
        for _ in file.commits(lines):
            pass
        return file

    def commits(self, lines: Iterator[bytes]) -> Iterator[Commit]:
        """Yield the commits in the lines behind the header.

        Raises `NotARecording` in the end, where they are not what the header says.
        """
        end, came = EMPTY_STREAM, dict[str, bytes]()
        for _, of_commit in groupby(self._records(lines, came), key=lambda record: record.head):
            commit, end = _chained(self.stream, end, list(of_commit))
            named = {part.digest for _, event in commit.events for _, part in files_in(event)}
            if absent := sorted(named - came.keys()):
                raise NotARecording(f"{self.source} names the file {absent[0]} and does not hold it")
            # One that was said before is stored by now: its bytes need not be in memory any longer.
            yield structs.replace(commit, files={each: came[each] for each in named if came[each]})
            came |= dict.fromkeys(named, b"")
        if not end.version:
            raise NotARecording(f"{self.source} holds no events")
        if end.version != self.events:
            raise NotARecording(f"{self.source} holds {end.version} events and says that there are {self.events}")
        if end.digest != self.digest:
            raise NotARecording(f"{self.source} is not what was archived: its events do not come to its digest")

    def _records(self, lines: Iterator[bytes], came: dict[str, bytes]) -> Iterator[Recorded[Event]]:
        """Yield the records in the lines behind the header, and put each file that stands before them into `came`."""
        for number, line in enumerate(lines, start=2):
            if not line.startswith(_FILE):
                yield record_of(self.source, number, self.stream, line)
                continue
            try:
                data = b64decode(orjson.loads(line)["file"], validate=True)
            except (TypeError, ValueError) as error:
                raise NotARecording(f"line {number} of {self.source} is damaged: {error}") from error
            came[sha256(data).hexdigest()] = data


async def unarchived(trail: "Steptrail", files: Iterable[ArchiveFile]) -> None:
    """Store the streams of files, in which they are proved, in a store in which they are not, and list them.

    One is stored after another, so that no two have to be in memory, each whole or not at all. May be repeated, also
    after a crash. Raises `NotARecording`, `ConfigurationError` when another stream has that id, or it was erased there,
    and for a fork whose source is not there in the end, when all others are listed.
    """
    store = trail.store
    if not isinstance(store, RecorderEventStore):
        raise ConfigurationError("an archive is taken out into a store that was opened at an address")
    forks, missing = list[str](), None
    for each in files:
        if await _restore(store, each) is not None:
            # It is read with the past that it shares, which may come later.
            forks.append(each.stream)
        else:
            await _list(trail, store, each.stream)
    for stream in forks:
        if (gap := await _gap(store, stream)) is None:
            await _list(trail, store, stream)
        missing = missing or gap
    if missing is not None:
        fork, source = missing
        raise ConfigurationError(
            f"session {id_of(fork)} is a fork of {id_of(source)}, which is in none of the files and not in this store: "
            "repeat this with the file of that session too"
        )


async def _restore(store: RecorderEventStore, file: ArchiveFile) -> str | None:
    """Store a stream, and return the one whose past it shares; None when it is no fork."""
    name = id_of(file.stream)
    if (erasure := await store.erasure(file.stream)) is not None:
        raise ConfigurationError(
            f"session {name} was erased from this store by {erasure.by}, and ids are not used again: "
            "take it out of the archive into another store"
        )
    _, lines = lines_of(file.source, if_empty=_EMPTY)
    commits = tuple(file.commits(lines))
    try:
        # At once: half of a session looks like one whose process died, and would be gone on with.
        await store.append_all(file.stream, commits)
    except ConcurrencyConflict as error:
        raise ConfigurationError(f"another session {name} is in this store already") from error
    return _source(file.stream, commits[0].events[0][1])


async def _gap(store: EventStore, stream: str) -> tuple[str, str] | None:
    """Return the fork whose source is not there, and that source, among all that a stream goes on from."""
    fork, source = "", stream
    while await store.version(source):
        fork, (first, *_) = source, (await store.read(source, limit=1)).records
        found = _source(fork, first.event)
        if found is None:
            return None
        source = found
    return fork, source


def _source(stream: str, first: Event) -> str | None:
    kind = KINDS.of(stream)
    past = kind.machine.forked_from(first) if kind is not None else None
    return past.stream if past is not None else None


async def _list(trail: "Steptrail", store: RecorderEventStore, stream: str) -> None:
    if (kind := KINDS.of(stream)) is not None:
        await store.list_anew(kind.machine.control.summary(await trail.handle(stream_name(stream)).state()))


def file_of(folder: Path, stream: str) -> Path:
    """Return the file in an archive that a stream is written to."""
    return folder / f"{stream.replace(':', '-', 1)}.jsonl"


class ArchiveFolder:
    """The folder of an archive, as one process writes to it."""

    def __init__(self, store: EventStore, folder: Path) -> None:
        self._store, self._folder = store, folder
        self._unfinished: Mapping[str, Sequence[Path]] | None = None

    async def keep(self, streams: Sequence[str]) -> None:
        """Write each stream to its file, and read the file again. A file that holds less of it is replaced.

        They must not grow meanwhile. Raises `ErasureRefused` for one that cannot be written as it is stored,
        `StoreUnavailable` where there is no room now, and `ConfigurationError` for a folder that cannot be written.
        """
        for stream in streams:
            try:
                await self._keep(file_of(self._folder, stream), stream)
            except (CorruptRecord, FileUnreadable, NotARecording) as error:
                raise ErasureRefused(stream, f"it cannot be archived: {error}", (stream,)) from error
            except OSError as error:
                if may_pass(error):
                    raise file_error(error, f"the file of {id_of(stream)} in the archive {self._folder}") from error
                why = f"{id_of(stream)} is kept: {error.strerror or error}"
                raise ConfigurationError(f"the archive {self._folder} cannot be written, {why}") from error

    async def _keep(self, path: Path, stream: str) -> None:
        store = self._store
        version = await store.version(stream)
        digest = await store.digest(stream, version)
        header = {
            "kind": _KIND,
            "format": FORMAT,
            "steptrail": VERSION,
            "stream": stream,
            "events": version,
            "digest": digest.hex(),
        }
        await asyncio.to_thread(_make_folder, path.parent)
        beside = path.with_name(f"{await self._mark_of(stream)}-{uuid4().hex}.new")
        try:
            await _write_and_prove(store, beside, stream, header)
            if not _is_named(beside, path):
                # Some systems do not tell A from a in the name of a file, and several stores may have one archive.
                there = await asyncio.to_thread(ArchiveFile.proved, path)
                if there.stream != stream or there.digest != await store.digest(stream, there.events):
                    raise NotARecording(f"{path} holds another session, or one of another store: choose another folder")
                beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        await asyncio.to_thread(_sync_folder, path.parent)

    async def _mark_of(self, stream: str) -> str:
        """Return how the names of unfinished files of a stream begin, and remove those that the dead have left.

        Nobody else writes one now: who archives a stream holds its lease. Its first commit tells it from a stream of
        another store that has its id.
        """
        mark = (await self._store.digest(stream, 1)).hex()[:32]
        if self._unfinished is None:
            self._unfinished = await asyncio.to_thread(_unfinished, self._folder)
        for left in self._unfinished.get(mark, ()):
            left.unlink(missing_ok=True)
        return mark


def _unfinished(folder: Path) -> Mapping[str, Sequence[Path]]:
    found: dict[str, list[Path]] = {}
    for each in folder.glob("*.new"):
        found.setdefault(each.name.partition("-")[0], []).append(each)
    return found


async def _write_and_prove(store: EventStore, beside: Path, stream: str, header: Mapping[str, object]) -> None:
    head, is_end, written = EMPTY_STREAM, False, set[str]()
    with beside.open("wb") as file:
        file.write(orjson.dumps(header) + b"\n")
        while not is_end:
            page = await store.read(stream, after=head, limit=_PAGE)
            head, is_end = page.head, page.is_end
            for _, part in files_in(tuple(record.event for record in page.records)):
                if part.digest not in written:
                    written.add(part.digest)
                    data = await stored_file(store, part.digest)
                    await asyncio.to_thread(file.write, orjson.dumps({"file": b64encode(data).decode()}) + b"\n")
            await asyncio.to_thread(file.writelines, map(line_of, page.records))
        file.flush()
        await asyncio.to_thread(os.fsync, file.fileno())
    # What is erased next is nowhere else: it is read from the file first, and proved.
    await asyncio.to_thread(ArchiveFile.proved, beside)


def _is_named(beside: Path, path: Path) -> bool:
    """Give a file its name; tell whether that was free. Another store may be writing the same name at this moment."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if path.exists():
            return False
        beside.replace(path)
    return True


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each of which the folder that holds it names on the disk as well."""
    if not folder.exists():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _check(source: Path, about: Mapping[str, Any]) -> None:
    if about.get("kind") != _KIND:
        raise NotARecording(f"{source} is no archived session: `steptrail retain --archive DIR` writes some")
    if about.get("format") != FORMAT:
        raise NotARecording(
            f"{source} has the format {about.get('format')!r}, and this Steptrail reads {FORMAT}: update"
        )


def _chained(stream: str, after: StreamHead, records: Sequence[Recorded[Event]]) -> tuple[Commit, StreamHead]:
    """Return the commit of these records, and the end of the stream with it, whose digest all commits come to."""
    head = records[0].head or CommitHead(commit_id="", actor="")
    commit = Commit(head, tuple((record.at, record.event) for record in records))
    rows = zip(records, detach_all(encode_commit(commit, after.version))[0], strict=True)
    digest = commit_digest(after.digest, stream, head, [(record.version, *row[1:]) for record, row in rows])
    return commit, StreamHead(after.version + len(records), digest)
