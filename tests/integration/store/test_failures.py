"""A write that fails says what is true: nothing was written, it was written after all, or nobody can know."""

import asyncio
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import structs

from steptrail.domain.errors import (
    AppendOutcomeUnknown,
    ConcurrencyConflict,
    CorruptRecord,
    MissingRecord,
    StoreFull,
    StoreLocked,
    StoreUnavailable,
)
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.record import EMPTY_STREAM, StreamHead
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.digest import ChainFault
from steptrail.infrastructure.store.core.recorder import PendingCommit
from steptrail.infrastructure.store.sqlite.append import CommitWriter
from steptrail.infrastructure.store.sqlite.connections import FileConnections, file_uri
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.hands import by_hand

T = TypeVar("T")

HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    await open_store(f"sqlite:///{path}").close()
    return path


@contextmanager
def locked(path: Path) -> Generator[Callable[[], None]]:
    """Have another process hold the write lock; yields what makes it let go."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"

    def let_go() -> None:
        process.communicate("\n")

    try:
        yield let_go
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


async def test_a_lock_that_is_held_too_long_is_told_and_nothing_is_written(path: Path) -> None:
    store = open_store(f"sqlite:///{path}", busy_timeout=0.05)
    with locked(path) as let_go:
        with pytest.raises(StoreLocked, match="another process"):
            await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
        appends = [store.append(f"agent:{i}", EMPTY_STREAM, commit_of("c1", Noted())) for i in range(3)]
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreLocked] * 3
        assert await store.streams("agent:") == []
        let_go()
    assert (await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))).version == 1
    await store.close()


async def test_a_lock_that_is_let_go_in_time_is_not_noticed(path: Path) -> None:
    store = open_store(f"sqlite:///{path}", busy_timeout=60)
    with locked(path) as let_go:
        append = asyncio.create_task(store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted())))
        await asyncio.sleep(0.1)
        assert not append.done()
        let_go()
        assert (await append).version == 1
    await store.close()


def limit_pages(connection: sqlite3.Connection, more: int | None) -> None:
    """Let the database grow by `more` pages only: SQLite then reports what it reports for a full disk."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {1 << 30 if more is None else pages + more}").fetchall()


async def test_a_full_disk_is_told_nothing_is_written_and_small_commits_still_fit(path: Path) -> None:
    connections = FileConnections(file_uri(path, "rw"), durability="full", patience=1)
    writer = CommitWriter(connections, str(path))
    large = pending("agent:large", "c1", b'{"text":"%s"}' % (b"x" * 100_000))
    many = pending("agent:many", "c1", *[b"{}" * 20] * 1000)
    small = pending("agent:small", "c1", b"{}")
    connections.write(lambda connection: limit_pages(connection, 2))
    assert [type(outcome) for outcome in writer.append([large, small], as_one=True)] == [StoreFull, StoreFull]
    outcomes = writer.append([large, small, many])
    assert [type(outcome) for outcome in outcomes] == [StoreFull, StreamHead, StoreFull]
    assert [type(outcome) for outcome in writer.append([large])] == [StoreFull]
    connections.write(lambda connection: limit_pages(connection, None))
    assert [type(outcome) for outcome in writer.append([large, many])] == [StreamHead, StreamHead]
    connections.close()
    store = open_store(f"sqlite:///{path}")
    versions = [await store.version(f"agent:{name}") for name in ("large", "small", "many")]
    await store.close()
    assert versions == [1, 1, 1000]


def pending(stream: str, commit_id: str, *states: bytes) -> PendingCommit:
    return PendingCommit(
        stream,
        EMPTY_STREAM,
        commit_of(commit_id).head,
        [(n, "test.noted.v1", 7, s, None) for n, s in enumerate(states, 1)],
    )


async def test_a_write_that_breaks_off_is_unknown_and_the_store_goes_on(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    head = await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = Path(f"{path}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
    try:
        with pytest.raises(AppendOutcomeUnknown, match=r"bytes at most, see `ulimit -f`\) and may or may not have"):
            await store.append("agent:a", head, commit_of("c2", Noted()))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    head = (await store.read("agent:a")).head
    assert head.version == 1
    assert (await store.append("agent:a", head, commit_of("c2", Noted()))).version == 2
    assert await store.verify("agent:a") is None
    await store.close()


class LosesTheReply:
    """Connections whose first write happens and then fails, as a disk that reports late does."""

    def __init__(self, connections: FileConnections, code: int) -> None:
        self._connections, self._code = connections, code

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return self._connections.read(work)

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._connections.write(work)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = self._code
        raise error

    def write_at_once(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return self.write(work)

    def close(self) -> None:
        self._connections.close()


def test_a_lost_reply_is_found_by_the_commit_id(path: Path) -> None:
    connections = FileConnections(file_uri(path, "rw"), durability="full", patience=1)
    writer = CommitWriter(LosesTheReply(connections, sqlite3.SQLITE_IOERR_FSYNC), str(path))
    (outcome,) = writer.append([pending("agent:a", "c1", b"{}")])
    at_once = writer.append_at_once(pending("agent:b", "c2", b"{}"))
    assert isinstance(outcome, StreamHead)
    assert isinstance(at_once, StreamHead)
    again = CommitWriter(connections, str(path))
    assert again.append([pending("agent:a", "c1", b"other"), pending("agent:b", "c2", b"other")]) == [outcome, at_once]
    connections.close()


async def test_a_file_that_was_moved_away_is_told(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
    path.rename(path.with_name("elsewhere.db"))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="moved or deleted"):
            await store.append("agent:b", EMPTY_STREAM, commit_of("c1", Noted()))
        with pytest.raises(StoreUnavailable, match="moved or deleted"):
            await store.read("agent:a")
    await store.close()


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
async def test_a_log_that_was_deleted_is_told_and_what_was_stored_is_kept(path: Path, ending: str) -> None:
    beside = path.with_name(path.name + ending)
    store = open_store(f"sqlite:///{path}")
    head = await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(number=1)))
    beside.rename(path.with_name("elsewhere"))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=rf"{beside.name} was moved or deleted"):
            await store.append("agent:a", head, commit_of("c2", Noted(number=2)))
    await store.close()
    store = open_store(f"sqlite:///{path}")
    assert [record.event for record in (await store.read("agent:a")).records] == [Noted(number=1)]
    await store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE stored_events SET state = CAST(state AS TEXT)",
        "UPDATE stored_events SET state = 1",
        "UPDATE stored_events SET state = x'00'",
    ],
)
async def test_a_state_that_is_something_else_is_told(path: Path, damage: str) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted()))
    with by_hand(path) as connection:
        connection.execute(damage)
    with pytest.raises(CorruptRecord):
        await store.read("agent:a")
    await store.close()


async def test_a_record_that_cannot_be_read_hurts_its_own_stream_only(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    for stream in ("agent:a", "agent:b"):
        await store.append(stream, EMPTY_STREAM, commit_of("c1", Noted(), Noted(text="x")))
    with by_hand(path) as connection:
        connection.execute("UPDATE stored_events SET type = 'test.gone.v1' WHERE position = 2")
    with pytest.raises(CorruptRecord) as caught:
        await store.read("agent:a")
    assert (caught.value.stream, caught.value.version, caught.value.type_name) == ("agent:a", 2, "test.gone.v1")
    assert len((await store.read("agent:b")).records) == 2
    assert len((await store.read("agent:a", limit=1)).records) == 1
    await store.close()


@pytest.mark.parametrize(
    ("damage", "version"),
    [
        ("UPDATE stored_events SET content = CAST(replace(content, 'x', 'y') AS BLOB) WHERE position = 4", 3),
        ("UPDATE stored_events SET state = CAST(state AS TEXT) WHERE position = 4", 3),
        ("UPDATE stored_events SET actor = 'somebody' WHERE position = 1", 1),
        ("DELETE FROM stored_events WHERE position = 2", 1),
    ],
)
async def test_tampering_is_found(path: Path, damage: str, version: int) -> None:
    store = open_store(f"sqlite:///{path}")
    first = await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(), Noted(text="x")))
    await store.append("agent:a", first, commit_of("c2", Noted(), Noted(text="x"), Noted()))
    assert await store.verify("agent:a") is None
    with by_hand(path) as connection:
        connection.execute(damage)
    fault = await store.verify("agent:a")
    assert fault is not None
    assert fault.version == version
    await store.close()


def test_a_conflict_in_a_later_statement_undoes_the_earlier_ones(path: Path) -> None:
    connections = FileConnections(file_uri(path, "rw"), durability="full", patience=1)
    writer = CommitWriter(connections, str(path))
    (head,) = writer.append([pending("agent:a", "c1", b"{}")])
    assert isinstance(head, StreamHead)
    # Another process has come first; the commit that meets it must not be half stored.
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO events SELECT 2, stream, 2, type, at, state, content FROM events")
        connection.execute(
            "INSERT INTO commits (stream, version, position, size, commit_id, actor, segment, digest) "
            "SELECT stream, 2, 2, 1, 'c3', actor, segment, digest FROM commits"
        )
    large = structs.replace(pending("agent:a", "c2", *[b"{}"] * 600), expected=head)
    outcomes = writer.append([large, pending("agent:b", "c1", b"{}")])
    assert [type(outcome) for outcome in outcomes] == [ConcurrencyConflict, StreamHead]
    assert connections.read(lambda c: c.execute("SELECT COUNT(*) FROM events").fetchone()) == (3,)
    connections.close()


async def test_an_event_that_is_gone_is_named(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.append("agent:1", EMPTY_STREAM, commit_of("c1", *(Noted(number=i) for i in range(5))))
    with by_hand(path) as connection:
        connection.execute("DELETE FROM stored_events WHERE version IN (2, 3)")
    with pytest.raises(MissingRecord) as caught:
        await store.read("agent:1")
    assert (caught.value.stream, caught.value.version, caught.value.found) == ("agent:1", 2, 4)
    assert len((await store.read("agent:1", after=3)).records) == 2
    with pytest.raises(MissingRecord, match="record 3 of stream 'agent:1'"):
        await store.read("agent:1", after=2)
    await store.close()


async def test_a_commit_whose_events_are_gone_is_found_and_nothing_is_appended_in_its_place(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    first = await store.append("agent:1", EMPTY_STREAM, commit_of("c1", Noted()))
    await store.append("agent:1", first, commit_of("c2", Noted(), Noted()))
    with by_hand(path) as connection:
        connection.execute("DELETE FROM stored_events WHERE version > 1")
    assert await store.verify("agent:1") == ChainFault(
        2, None, "event 2 and those after it are missing, and their commit is there"
    )
    with pytest.raises(CorruptRecord, match=r"record 2 of stream 'agent:1' .* its commit is there"):
        await store.append("agent:1", first, commit_of("c3", Noted()))
    await store.close()


async def test_events_whose_stream_has_lost_its_name_are_found(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.append("agent:1", EMPTY_STREAM, commit_of("c1", Noted()))
    await store.append("agent:2", EMPTY_STREAM, commit_of("c1", Noted()))
    with by_hand(path) as connection:
        connection.execute("DELETE FROM streams WHERE id = 'agent:1'")
    assert await store.all_streams() == ["agent:2", "#1"]
    assert await store.verify("#1") == ChainFault(1, None, "its events stand under a number that belongs to no stream")
    assert await store.verify("agent:2") is None
    seen: list[CorruptRecord] = []
    assert [stream async for _, stream, _ in store.log(on_corrupt=seen.append)] == ["agent:2"]
    page = await store.log_page(0, 10)
    assert [str(item) for item in page.items if isinstance(item, CorruptRecord)] == [str(error) for error in seen]
    assert [item.stream for item in page.items if isinstance(item, LogEntry)] == ["agent:2"]
    assert [error.position for error in seen] == [1]
    await store.close()


async def test_a_digest_that_is_none_is_named_by_an_append_and_keeps_nobody_else_out(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    head = await store.append("agent:1", EMPTY_STREAM, commit_of("c1", Noted()))
    with by_hand(path) as connection:
        connection.execute("UPDATE stored_events SET digest = 'text'")
    appends = [
        store.append("agent:1", StreamHead(1, head.digest[::-1]), commit_of("c2", Noted())),
        store.append("agent:2", EMPTY_STREAM, commit_of("c1", Noted())),
    ]
    damaged, sound = await asyncio.gather(*appends, return_exceptions=True)
    assert isinstance(damaged, CorruptRecord)
    assert str(damaged).startswith("record 1 of stream 'agent:1'")
    assert isinstance(sound, StreamHead)
    await store.close()
