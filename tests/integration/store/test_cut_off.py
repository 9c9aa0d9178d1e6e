"""Files that a process left behind that died while it wrote, and those of others that look alike."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steptrail.domain.errors import NotAStore, StoreFull, StoreLocked, StoreReadOnly
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.sqlite.connections import in_transaction
from steptrail.infrastructure.store.sqlite.errors import translate
from tests.integration.store.kit import add, contents, texts, url, use

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
from steptrail.infrastructure.store.sqlite.schema import ddl

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
async def test_who_comes_while_a_store_is_made_waits_for_it(tmp_path: Path, settings: dict[str, Any]) -> None:
    making = half_a_store(tmp_path / "runs.db")
    with pytest.raises(StoreLocked):
        open_store(url(tmp_path / "runs.db"), busy_timeout=0.05, **settings)
    soon = threading.Timer(0.3, end, (making, "go on\n"))
    soon.start()
    await use(open_store(url(tmp_path / "runs.db"), busy_timeout=30, **settings), texts)
    soon.join()


async def test_a_store_whose_maker_died_is_made_and_until_then_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    end(half_a_store(path), "")
    before = contents(tmp_path)
    with pytest.raises(StoreReadOnly, match="cut off: open it once for writing"):
        open_store(url(path), read_only=True)
    assert contents(tmp_path) == before
    with pytest.raises(NotAStore, match="is empty"):
        open_store(url(path), create=False)
    await use(open_store(url(path)), add)
    assert await use(open_store(url(path), read_only=True), texts) == ["kept"]


class Struck(sqlite3.Connection):
    """A connection of a thread in which the handler of a signal raises as soon as a transaction has begun."""

    def execute(self, statement: str, *given: Any) -> sqlite3.Cursor:
        done = super().execute(statement, *given)
        if statement.startswith("BEGIN"):
            raise KeyboardInterrupt
        return done


def test_given_a_signal_that_raises_when_a_transaction_has_begun_then_others_write(tmp_path: Path) -> None:
    def opened(factory: type[sqlite3.Connection]) -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "runs.db", timeout=0, isolation_level=None, factory=factory)

    with closing(opened(Struck)) as struck, closing(opened(sqlite3.Connection)) as other:
        with pytest.raises(KeyboardInterrupt):
            in_transaction(struck, lambda _: None)
        in_transaction(other, lambda connection: connection.execute("CREATE TABLE theirs (body)"))


def left_with_its_log(made: Path, folder: Path) -> Path:
    """Return a copy of a store as a process leaves it that was killed, on a machine that was started again."""
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.execute("UPDATE commits SET segment = 7")
        for name in ("runs.db", "runs.db-wal"):
            shutil.copy(made.with_name(name), folder / name)
    return folder / "runs.db"


async def test_a_log_whose_index_cannot_be_made_says_what_to_do(unprivileged: Path) -> None:
    (unprivileged / "left").mkdir()
    await use(open_store(url(unprivileged / "runs.db")), add)
    left = left_with_its_log(unprivileged / "runs.db", unprivileged / "left")
    left.parent.chmod(0o555)
    for read_only in (True, False):
        with pytest.raises(StoreReadOnly, match="cannot be written"):
            await use(open_store(url(left), create=False, read_only=read_only), texts)
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
