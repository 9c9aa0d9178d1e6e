"""Files that are opened, and files that are refused and left as they are."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steptrail.domain.errors import (
    NotAStore,
    StoreAway,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
)
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.tables import MEANINGS
from steptrail.infrastructure.store.sqlite.connections import connect, file_uri
from steptrail.infrastructure.store.sqlite.version import known_fault
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.ready_python import ready_python
from tests.integration.store.kit import add, contents, texts, url, use


async def test_the_rows_of_a_step_leave_little_of_the_file_empty(tmp_path: Path) -> None:
    # Eight events of a step, at the sizes that they have with a reply of 200 characters and a result of 500.
    sizes = (500, 180), (540, 45, 940, 95, 15, 135)
    texts = [[Noted(text="x" * size) for size in commit] for commit in sizes]

    async def work(store: RecorderEventStore) -> None:
        head = EMPTY_STREAM
        for number in range(1200):
            head = await store.append("agent:a", head, commit_of(f"{number:038}", *texts[number % 2]))

    path = tmp_path / "runs.db"
    await use(open_store(url(path)), work)
    with closing(sqlite3.connect(path)) as connection:
        filled = connection.execute(
            "SELECT sum(length(state) + ifnull(length(content), 0)) FROM stored_events"
        ).fetchone()[0]
    assert path.stat().st_size < 1.4 * filled


def test_the_file_says_what_it_is(made: Path) -> None:
    with closing(sqlite3.connect(made)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (0x53747054,)
        assert connection.execute("PRAGMA user_version").fetchone() == (10,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT * FROM store").fetchall() == [(10, 10)]


def test_a_shell_shows_what_each_column_holds(made: Path) -> None:
    with closing(sqlite3.connect(made)) as connection:
        tables = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
        assert set(tables) == set(MEANINGS) - {"leases"}
        for table, schema in tables.items():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            assert columns == list(MEANINGS[table])
            assert [meaning in schema for meaning in MEANINGS[table].values()] == [True] * len(columns)


async def test_people_see_each_event_with_all_names_and_with_its_commit(made: Path) -> None:
    async def more(store: RecorderEventStore) -> None:
        head = (await store.read("agent:a")).head
        await store.append("agent:a", head, commit_of("c2", Noted(text="x"), Noted(text="y")))

    await use(open_store(url(made)), more)
    with closing(sqlite3.connect(made)) as connection:
        shown = connection.execute(
            "SELECT position, stream, version, type, json_extract(CAST(content AS TEXT), '$.text'), "
            "commit_version, commit_id, actor FROM stored_events ORDER BY position"
        ).fetchall()
    assert shown == [
        (1, "agent:a", 1, "test.noted.v1", "kept", 1, "c1", "tester"),
        (2, "agent:a", 2, "test.noted.v1", "x", 2, "c2", "tester"),
        (3, "agent:a", 3, "test.noted.v1", "y", 2, "c2", "tester"),
    ]


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_durability_is_what_was_asked_for(tmp_path: Path, durability: str, level: int) -> None:
    from steptrail.infrastructure.store.sqlite.connections import FileConnections, file_uri

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
async def test_a_store_whose_owner_was_killed_in_a_checkpoint_is_opened_and_whole(
    made: Path, tmp_path: Path, read_only: bool
) -> None:
    (tmp_path / "left").mkdir()
    left = in_the_middle_of_a_checkpoint(made, tmp_path / "left")
    with (
        pytest.raises(sqlite3.DatabaseError, match="malformed"),
        closing(connect(file_uri(left, "ro&immutable=1"))) as bare,
    ):
        bare.execute("PRAGMA user_version").fetchone()
    assert await use(open_store(url(left), read_only=read_only), texts) == ["kept"]


async def test_a_position_is_used_once_where_a_row_behind_the_end_is_left_for_what_is_removed(made: Path) -> None:
    with closing(sqlite3.connect(made)) as connection, connection:
        # A row of a stream of the remover's own.
        connection.execute("INSERT INTO streams (id) VALUES ('removed:')")
        connection.execute("INSERT INTO events SELECT position + 1, 2, 1, type, at, state, content FROM events")
        connection.execute("DELETE FROM events WHERE position = 1")

    async def log(store: RecorderEventStore) -> list[int]:
        await store.append("agent:b", EMPTY_STREAM, commit_of("c1", Noted()))
        return [position async for position, _, _ in store.log()]

    assert await use(open_store(url(made)), log) == [2, 3]


async def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch()
    await use(open_store(url(path)), add)
    assert await use(open_store(url(path), create=False), texts) == ["kept"]


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


async def text(path: Path) -> None:
    path.write_text("hello")


async def noise(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 80)


async def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE stored_events (stream TEXT)")


async def marked(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA application_id = 99")


async def newer(path: Path) -> None:
    await use(open_store(url(path)), add)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 11")
        connection.execute("UPDATE store SET min_reader = 11")


async def halved(path: Path) -> None:
    await use(open_store(url(path)), add)
    path.write_bytes(path.read_bytes()[:3000])


@pytest.mark.parametrize(
    ("make", "kind", "why"),
    [
        (text, NotAStore, "not a SQLite database"),
        (noise, NotAStore, "not a SQLite database"),
        (foreign, NotAStore, "another application"),
        (marked, NotAStore, "another application"),
        (newer, StoreTooNew, "has format 11, this Steptrail knows formats up to 10"),
        (halved, StoreUnavailable, "runs.db"),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"create": False}, {"read_only": True}])
async def test_another_file_is_refused_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path], Awaitable[None]], kind: type[StoreError], why: str, settings: dict[str, Any]
) -> None:
    path = tmp_path / "runs.db"
    await make(path)
    before = contents(tmp_path)
    with pytest.raises(kind, match=why):
        open_store(url(path), **settings)
    assert contents(tmp_path) == before


async def test_refusing_a_file_does_not_let_go_of_a_store_that_has_it_open(made: Path) -> None:
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

    assert await use(store, scenario) == 3
    assert await use(open_store(url(made)), lambda store: store.version("agent:a")) == 3


VISIT = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT COUNT(*) FROM stored_events").fetchone()
connection.close()
"""


async def test_processes_that_make_one_store_at_once_all_get_it(tmp_path: Path) -> None:
    script = [ready_python(), "-c", MAKE, url(tmp_path / "runs.db")]
    processes = [subprocess.Popen([*script, str(i)]) for i in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    names = await use(open_store(url(tmp_path / "runs.db")), lambda store: store.streams("agent:"))
    assert sorted(names) == ["agent:0", "agent:1", "agent:2"]


MAKE = """
import asyncio, sys
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.sqlite.errors import translate
from steptrail.infrastructure.store.sqlite.version import known_fault
from steptrail.testing.store_contract import Noted, commit_of

async def main():
    store = open_store(sys.argv[1])
    await store.append("agent:" + sys.argv[2], EMPTY_STREAM, commit_of("c1", Noted()))
    await store.close()

asyncio.run(main())
"""


async def test_a_file_without_the_right_to_write_is_read_only(unprivileged: Path) -> None:
    path = unprivileged / "runs.db"
    await use(open_store(url(path)), add)
    path.chmod(0o444)
    before = contents(unprivileged)
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        open_store(url(path))
    assert await use(open_store(url(path), read_only=True), texts) == ["kept"]
    assert contents(unprivileged) == before


async def test_a_folder_without_the_right_to_write_is_read_only(unprivileged: Path) -> None:
    path = unprivileged / "runs.db"
    await use(open_store(url(path)), add)
    shutil.rmtree(f"{path}-leases", ignore_errors=True)
    before = contents(unprivileged)
    unprivileged.chmod(0o555)
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        open_store(url(path))
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        open_store(url(unprivileged / "new.db"))
    assert await use(open_store(url(path), read_only=True), texts) == ["kept"]
    assert contents(unprivileged) == before


async def test_a_file_without_the_right_to_read_is_told(unprivileged: Path) -> None:
    path = unprivileged / "runs.db"
    await use(open_store(url(path)), add)
    path.chmod(0)
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        open_store(url(path), read_only=True)
    unprivileged.chmod(0)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        open_store(url(path), read_only=True)


async def test_who_may_not_look_into_the_folder_of_an_open_store_any_more_is_told_so(unprivileged: Path) -> None:
    path = unprivileged / "runs.db"
    stores = [open_store(url(path)), open_store(url(path), read_only=True)]
    for store in stores:
        await texts(store)
    unprivileged.chmod(0)
    for store in stores:
        with pytest.raises(StoreAway, match=r"runs\.db cannot be reached: Permission denied"):
            await texts(store)
    unprivileged.chmod(0o755)
    for store in stores:
        await use(store, texts)


async def test_reading_leaves_no_trace(made: Path) -> None:
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

    assert await use(open_store(url(made), read_only=True), scenario) == ["kept"]
    assert (sorted(path.name for path in made.parent.iterdir()), contents(made.parent)) == before


async def test_a_reader_sees_what_a_writer_adds_before_and_after_it_came(made: Path) -> None:
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

    await use(open_store(url(made), read_only=True), scenario)


def pragma(name: str, connection: sqlite3.Connection) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


async def test_a_file_that_is_removed_while_it_is_read_is_told(made: Path) -> None:
    async def work(store: RecorderEventStore) -> None:
        await store.read("agent:a")
        made.unlink()
        with pytest.raises(StoreUnavailable, match=r"runs\.db was moved or deleted .*: put it back, or open it anew"):
            await store.read("agent:a")

    await use(open_store(url(made), read_only=True), work)


def test_a_sync_reaches_the_disk_on_macos_too(tmp_path: Path) -> None:
    from steptrail.infrastructure.store.sqlite.connections import FileConnections, file_uri

    for durability, level in (("full", 1), ("normal", 0)):
        connections = FileConnections(
            file_uri(tmp_path / "runs.db", "rwc"), durability="full" if durability == "full" else "normal", patience=0
        )
        for name in ("fullfsync", "checkpoint_fullfsync"):
            assert connections.write(partial(pragma, name)) == level
        connections.close()


async def test_a_log_that_only_grows_is_told(
    made: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.store.sqlite.connections._MUCH_LOG", 1 << 20)
    monkeypatch.setattr("steptrail.infrastructure.store.sqlite.connections._WAITING_PAGES", 50)

    async def write(store: RecorderEventStore, stream: str) -> None:
        head = EMPTY_STREAM
        for number in range(80):
            head = await store.append(stream, head, commit_of(f"c{number}", Noted(text=f"{number}" * 30_000)))

    with caplog.at_level("WARNING", logger="steptrail.store"):
        await use(open_store(url(made)), lambda store: write(store, "agent:copied"))
        assert caplog.messages == []
        with closing(sqlite3.connect(made, isolation_level=None)) as shell:
            shell.execute("BEGIN")
            shell.execute("SELECT COUNT(*) FROM stored_events").fetchone()
            await use(open_store(url(made)), lambda store: write(store, "agent:held"))
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


@pytest.mark.parametrize("create", [True, False])
def test_a_pipe_is_no_store_and_is_not_waited_for(tmp_path: Path, create: bool) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    with pytest.raises(NotAStore, match="is a pipe or a device"):
        open_store(f"sqlite:///{tmp_path / 'pipe.db'}", create=create)


@pytest.mark.parametrize("beside", ["-journal", "-wal", "-shm"])
async def test_a_pipe_beside_a_store_is_not_waited_for(tmp_path: Path, beside: str) -> None:
    await use(open_store(url(tmp_path / "runs.db")), add)
    os.mkfifo(tmp_path / f"runs.db{beside}")
    with pytest.raises(NotAStore, match=f"runs.db{beside} is a pipe or a device"):
        open_store(f"sqlite:///{tmp_path / 'runs.db'}")


def test_a_name_with_no_room_for_those_of_the_files_beside_it_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="too long"):
        open_store(f"sqlite:///{tmp_path / ('x' * 251)}")
    assert list(tmp_path.iterdir()) == []


def test_links_in_a_circle_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "runs.db").symlink_to("runs.db")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        open_store(f"sqlite:///{tmp_path / 'runs.db'}")
