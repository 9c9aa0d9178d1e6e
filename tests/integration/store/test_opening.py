"""Files that are opened, and files that are refused and left as they are."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steptrail.domain.errors import (
    NotAStore,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
)
from steptrail.domain.record import EMPTY_STREAM, StreamHead
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.connections import connect, file_uri
from steptrail.infrastructure.store.event_store import RecorderEventStore
from steptrail.infrastructure.store.sqlite_errors import translate
from steptrail.infrastructure.store.sqlite_version import known_fault
from steptrail.testing.store_contract import Noted, commit_of
from tests.integration.store.kit import use


def url(path: Path) -> str:
    return f"sqlite:///{path}"


async def add(store: RecorderEventStore) -> StreamHead:
    return await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(text="kept")))


async def texts(store: RecorderEventStore) -> list[str]:
    records = (await store.read("agent:a")).records
    return [record.event.text for record in records if isinstance(record.event, Noted)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    use(open_store(url(path)), add)
    return path


def test_the_rows_of_a_step_leave_little_of_the_file_empty(tmp_path: Path) -> None:
    # Eight events of a step, at the sizes that they have with a reply of 200 characters and a result of 500.
    sizes = (500, 180), (540, 45, 940, 95, 15, 135)
    texts = [[Noted(text="x" * size) for size in commit] for commit in sizes]

    async def work(store: RecorderEventStore) -> None:
        head = EMPTY_STREAM
        for number in range(600):
            head = await store.append("agent:a", head, commit_of(f"{number:038}", *texts[number % 2]))

    path = tmp_path / "runs.db"
    use(open_store(url(path)), work)
    with closing(sqlite3.connect(path)) as connection:
        filled = connection.execute("SELECT sum(length(state)) FROM stored_events").fetchone()[0]
    assert path.stat().st_size < 1.4 * filled


def test_the_file_says_what_it_is(made: Path) -> None:
    with closing(sqlite3.connect(made)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (0x53747054,)
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        columns = [row[1] for row in connection.execute("PRAGMA table_info(stored_events)")]
        assert columns[:5] == ["position", "originator_id", "originator_version", "topic", "state"]


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_durability_is_what_was_asked_for(tmp_path: Path, durability: str, level: int) -> None:
    from steptrail.infrastructure.store.connections import FileConnections, file_uri

    connections = FileConnections(
        file_uri(tmp_path / "runs.db", "rwc"), durability="full" if durability == "full" else "normal", patience=0
    )
    assert connections.write(lambda c: c.execute("PRAGMA synchronous").fetchone()) == (level,)
    connections.close()


def in_the_middle_of_a_checkpoint(path: Path, folder: Path) -> Path:
    """Return a copy of a store as a process leaves it that is killed when it has copied one page back from the log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("CREATE TABLE filler (body BLOB)")
        connection.execute("INSERT INTO filler VALUES (zeroblob(100000))")
        for name in ("runs.db", "runs.db-wal"):
            shutil.copy(path.with_name(name), folder / name)
    copy, log = folder / "runs.db", (folder / "runs.db-wal").read_bytes()
    size = int.from_bytes(log[8:12], "big")
    frames = [log[start : start + 24 + size] for start in range(32, len(log), 24 + size)]
    newest = [frame[24:] for frame in frames if int.from_bytes(frame[:4], "big") == 1][-1]
    copy.write_bytes(newest + copy.read_bytes()[size:])
    return copy


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_whose_owner_was_killed_in_a_checkpoint_is_opened_and_whole(
    made: Path, tmp_path: Path, read_only: bool
) -> None:
    (tmp_path / "left").mkdir()
    left = in_the_middle_of_a_checkpoint(made, tmp_path / "left")
    with (
        pytest.raises(sqlite3.DatabaseError, match="malformed"),
        closing(connect(file_uri(left, "ro&immutable=1"))) as bare,
    ):
        bare.execute("PRAGMA user_version").fetchone()
    assert use(open_store(url(left), read_only=read_only), texts) == ["kept"]


def test_positions_are_never_used_twice(made: Path) -> None:
    with closing(sqlite3.connect(made)) as connection, connection:
        connection.execute("DELETE FROM stored_events")

    async def log(store: RecorderEventStore) -> list[int]:
        await add(store)
        return [position async for position, _, _ in store.log()]

    assert use(open_store(url(made)), log) == [2]


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch()
    use(open_store(url(path)), add)
    assert use(open_store(url(path), create=False), texts) == ["kept"]


@pytest.mark.parametrize("settings", [{"create": False}, {"read_only": True}])
def test_asking_for_a_store_makes_none(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(StoreUnavailable, match=r"there is no store .*runs\.db"):
        open_store(url(tmp_path / "runs.db"), **settings)
    (tmp_path / "empty.db").touch()
    with pytest.raises(NotAStore, match="empty"):
        open_store(url(tmp_path / "empty.db"), **settings)
    assert contents(tmp_path) == {"empty.db": b""}


@pytest.mark.parametrize("settings", [{}, {"create": False}, {"read_only": True}])
def test_a_place_where_no_store_can_be(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(StoreUnavailable, match=r"no folder .*missing"):
        open_store(url(tmp_path / "missing" / "runs.db"), **settings)
    with pytest.raises(StoreUnavailable, match="is a folder"):
        open_store(url(tmp_path), **settings)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailable):
        open_store(url(tmp_path / "file" / "runs.db"), **settings)
    assert contents(tmp_path) == {"file": b"x"}


def text(path: Path) -> None:
    path.write_text("hello")


def noise(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 80)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE stored_events (originator_id TEXT)")


def marked(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA application_id = 99")


def newer(path: Path) -> None:
    use(open_store(url(path)), add)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 4")


def halved(path: Path) -> None:
    use(open_store(url(path)), add)
    path.write_bytes(path.read_bytes()[:3000])


@pytest.mark.parametrize(
    ("make", "kind", "why"),
    [
        (text, NotAStore, "not a SQLite database"),
        (noise, NotAStore, "not a SQLite database"),
        (foreign, NotAStore, "another application"),
        (marked, NotAStore, "another application"),
        (newer, StoreTooNew, "schema version 4, this Steptrail reads up to 3"),
        (halved, StoreUnavailable, "runs.db"),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"create": False}, {"read_only": True}])
def test_another_file_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], None], kind: type[StoreError], why: str, settings: dict[str, Any]
) -> None:
    path = tmp_path / "runs.db"
    make(path)
    before = contents(tmp_path)
    with pytest.raises(kind, match=why):
        open_store(url(path), **settings)
    assert contents(tmp_path) == before


def test_refusing_a_file_does_not_let_go_of_a_store_that_has_it_open(made: Path) -> None:
    store = open_store(url(made))

    async def scenario(store: RecorderEventStore) -> int:
        head = (await store.read("agent:a")).head
        head = await store.append("agent:a", head, commit_of("c2", Noted()))
        await open_store(url(made), create=False).close()
        # A process that found no lock would fold the log into the file and delete it under our feet.
        subprocess.run([sys.executable, "-c", VISIT, str(made)], check=True)
        assert Path(f"{made}-wal").exists()
        await store.append("agent:a", head, commit_of("c3", Noted()))
        return await store.version("agent:a")

    assert use(store, scenario) == 3
    assert use(open_store(url(made)), lambda store: store.version("agent:a")) == 3


VISIT = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT COUNT(*) FROM stored_events").fetchone()
connection.close()
"""


def test_processes_that_make_one_store_at_once_all_get_it(tmp_path: Path) -> None:
    script = [sys.executable, "-c", MAKE, url(tmp_path / "runs.db")]
    processes = [subprocess.Popen([*script, str(i)]) for i in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    names = use(open_store(url(tmp_path / "runs.db")), lambda store: store.streams("agent:"))
    assert sorted(names) == ["agent:0", "agent:1", "agent:2"]


MAKE = """
import asyncio, sys
from steptrail.domain.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.sqlite_errors import translate
from steptrail.infrastructure.store.sqlite_version import known_fault
from steptrail.testing.store_contract import Noted, commit_of

async def main():
    store = open_store(sys.argv[1])
    await store.append("agent:" + sys.argv[2], EMPTY_STREAM, commit_of("c1", Noted()))
    await store.close()

asyncio.run(main())
"""


# Rights mean nothing to root: these tests give them up for a while.


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="steptrail-", dir="/tmp"))
    folder.chmod(0o777)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    own = folder / "own"
    own.mkdir()
    try:
        yield own
    finally:
        own.chmod(0o777)
        if root:
            os.seteuid(0)
        shutil.rmtree(folder)


def test_a_file_without_the_right_to_write_is_read_only(unprivileged: Path) -> None:
    path = unprivileged / "runs.db"
    use(open_store(url(path)), add)
    path.chmod(0o444)
    before = contents(unprivileged)
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        open_store(url(path))
    assert use(open_store(url(path), read_only=True), texts) == ["kept"]
    assert contents(unprivileged) == before


def test_a_folder_without_the_right_to_write_is_read_only(unprivileged: Path) -> None:
    path = unprivileged / "runs.db"
    use(open_store(url(path)), add)
    shutil.rmtree(f"{path}-leases", ignore_errors=True)
    before = contents(unprivileged)
    unprivileged.chmod(0o555)
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        open_store(url(path))
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        open_store(url(unprivileged / "new.db"))
    assert use(open_store(url(path), read_only=True), texts) == ["kept"]
    assert contents(unprivileged) == before


def test_a_file_without_the_right_to_read_is_told(unprivileged: Path) -> None:
    path = unprivileged / "runs.db"
    use(open_store(url(path)), add)
    path.chmod(0)
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        open_store(url(path), read_only=True)
    unprivileged.chmod(0)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        open_store(url(path), read_only=True)


def test_reading_leaves_no_trace(made: Path) -> None:
    before = sorted(path.name for path in made.parent.iterdir()), contents(made.parent)

    async def scenario(store: RecorderEventStore) -> list[str]:
        with pytest.raises(StoreReadOnly, match="for reading only"):
            await add(store)
        with pytest.raises(StoreReadOnly, match="for reading only"):
            await store.acquire("agent:a", owner="me")
        assert await store.streams("agent:") == ["agent:a"]
        assert len([entry async for entry in store.log()]) == 1
        assert await store.verify("agent:a") is None
        return await texts(store)

    assert use(open_store(url(made), read_only=True), scenario) == ["kept"]
    assert (sorted(path.name for path in made.parent.iterdir()), contents(made.parent)) == before


def test_a_reader_sees_what_a_writer_adds_before_and_after_it_came(made: Path) -> None:
    async def scenario(reader: RecorderEventStore) -> None:
        assert await reader.version("agent:a") == 1
        writer = open_store(url(made))
        head = (await writer.read("agent:a")).head
        head = await writer.append("agent:a", head, commit_of("c2", Noted()))
        assert await reader.version("agent:a") == 2
        await writer.append("agent:a", head, commit_of("c3", Noted()))
        assert await reader.version("agent:a") == 3
        await writer.close()
        assert await reader.version("agent:a") == 3

    use(open_store(url(made), read_only=True), scenario)


HALF_A_WRITE = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN")
connection.execute("UPDATE theirs SET body = zeroblob(5000)")
os._exit(0)
"""


@pytest.mark.parametrize("settings", [{}, {"create": False}, {"read_only": True}])
def test_the_file_of_another_program_that_died_while_it_wrote_is_left_as_it_is(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE theirs (body BLOB)")
        connection.executemany("INSERT INTO theirs VALUES (?)", [(bytes(3000),)] * 20)
    subprocess.run([sys.executable, "-c", HALF_A_WRITE, str(path)], check=True)
    before = contents(tmp_path)
    assert sorted(before) == ["theirs.db", "theirs.db-journal"]
    with pytest.raises(NotAStore, match="another application"):
        open_store(url(path), **settings)
    assert contents(tmp_path) == before


HALF_A_STORE = """
import os, sqlite3, sys, time
from contextlib import closing
from steptrail.infrastructure.store.schema import ddl

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
# A slow disk: most of it is written, and the first page says nothing yet.
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
for statement in ddl():
    connection.execute(statement)
connection.execute("INSERT INTO blobs VALUES (x'00', zeroblob(1000000))")
connection.execute("DELETE FROM blobs")
print("half", flush=True)
if sys.stdin.readline() == "go on\\n":
    connection.execute("COMMIT")
    connection.close()
os._exit(0)
"""


def half_a_store(path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HALF_A_STORE, str(path)]
    making = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert making.stdout is not None
    assert making.stdout.readline() == "half\n"
    assert path.stat().st_size > 0
    return making


def end(making: "subprocess.Popen[str]", word: str) -> None:
    making.communicate(word, timeout=60)
    assert making.returncode == 0


@pytest.mark.parametrize("settings", [{}, {"create": False}, {"read_only": True}])
def test_who_comes_while_a_store_is_made_waits_for_it(tmp_path: Path, settings: dict[str, Any]) -> None:
    making = half_a_store(tmp_path / "runs.db")
    with pytest.raises(StoreLocked):
        open_store(url(tmp_path / "runs.db"), busy_timeout=0.05, **settings)
    soon = threading.Timer(0.3, end, (making, "go on\n"))
    soon.start()
    use(open_store(url(tmp_path / "runs.db"), busy_timeout=30, **settings), texts)
    soon.join()


def test_a_store_whose_maker_died_is_made_and_until_then_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    end(half_a_store(path), "")
    before = contents(tmp_path)
    with pytest.raises(StoreReadOnly, match="cut off: open it once for writing"):
        open_store(url(path), read_only=True)
    assert contents(tmp_path) == before
    with pytest.raises(NotAStore, match="is empty"):
        open_store(url(path), create=False)
    use(open_store(url(path)), add)
    assert use(open_store(url(path), read_only=True), texts) == ["kept"]


def pragma(name: str, connection: sqlite3.Connection) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def test_a_sync_reaches_the_disk_on_macos_too(tmp_path: Path) -> None:
    from steptrail.infrastructure.store.connections import FileConnections, file_uri

    for durability, level in (("full", 1), ("normal", 0)):
        connections = FileConnections(
            file_uri(tmp_path / "runs.db", "rwc"), durability="full" if durability == "full" else "normal", patience=0
        )
        for name in ("fullfsync", "checkpoint_fullfsync"):
            assert connections.write(partial(pragma, name)) == level
        connections.close()


def left_with_its_log(made: Path, folder: Path) -> Path:
    """Return a copy of a store as a process leaves it that was killed, on a machine that was started again."""
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.execute("UPDATE stored_events SET segment = 7")
        for name in ("runs.db", "runs.db-wal"):
            shutil.copy(made.with_name(name), folder / name)
    return folder / "runs.db"


def test_a_log_whose_index_cannot_be_made_says_what_to_do(unprivileged: Path) -> None:
    (unprivileged / "left").mkdir()
    use(open_store(url(unprivileged / "runs.db")), add)
    left = left_with_its_log(unprivileged / "runs.db", unprivileged / "left")
    left.parent.chmod(0o555)
    for read_only in (True, False):
        with pytest.raises(StoreReadOnly, match="cannot be written"):
            use(open_store(url(left), create=False, read_only=read_only), texts)
    left.parent.chmod(0o755)


def _answer(said: os.statvfs_result, path: str) -> os.statvfs_result:
    return said


def test_a_log_whose_index_has_no_room_says_that_the_disk_is_full(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "left").mkdir()
    left = left_with_its_log(made, tmp_path / "left")
    full = list(os.statvfs(tmp_path))
    full[4] = 0
    monkeypatch.setattr(os, "statvfs", partial(_answer, os.statvfs_result(full)))
    for code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR_SHMSIZE):
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = code
        assert isinstance(translate(error, str(left)), StoreFull)


def test_a_log_that_only_grows_is_told(
    made: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.store.connections._MUCH_LOG", 1 << 20)
    monkeypatch.setattr("steptrail.infrastructure.store.connections._WAITING_PAGES", 50)

    async def write(store: RecorderEventStore, stream: str) -> None:
        head = EMPTY_STREAM
        for number in range(40):
            head = await store.append(stream, head, commit_of(f"c{number}", Noted(text=f"{number}" * 30_000)))

    with caplog.at_level("WARNING", logger="steptrail.store"):
        use(open_store(url(made)), lambda store: write(store, "agent:copied"))
        assert caplog.messages == []
        with closing(sqlite3.connect(made, isolation_level=None)) as shell:
            shell.execute("BEGIN")
            shell.execute("SELECT COUNT(*) FROM stored_events").fetchone()
            use(open_store(url(made)), lambda store: write(store, "agent:held"))
    assert len(caplog.messages) in {1, 2}
    assert "has grown to 1 MB and is not copied into the file: something has read it" in caplog.messages[0]


@pytest.mark.parametrize(
    ("version", "is_faulty"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 53, 0), False),
    ],
)
def test_a_faulty_sqlite_is_known(version: tuple[int, ...], is_faulty: bool) -> None:
    fault = known_fault(version)
    assert (fault is not None) is is_faulty
    assert fault is None or ".".join(map(str, version)) in fault
