"""The files of a SQLite store tell that nobody has committed, and never so when somebody has."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.store.sqlite import connections
from steptrail.infrastructure.store.sqlite.quiet_files import QuietFiles
from steptrail.testing.store_samples import Noted, commit_of

LONG = 1.5
"""Seconds after which files that have not changed are quiet."""


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["wal", "delete"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A database with a log beside it, and one without."""
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as keeps_the_log:
        keeps_the_log.execute(f"PRAGMA journal_mode = {request.param}")
        keeps_the_log.execute("CREATE TABLE t (x)")
        yield path


def quieted(path: Path) -> tuple[QuietFiles, Clock]:
    """Return files that are quiet by now, and their clock."""
    clock = Clock()
    quiet = QuietFiles(path, clock=clock)
    assert not quiet()
    clock.now = LONG
    assert not quiet()
    assert quiet()
    # As if the last write had been as long ago as the clock says.
    for each in path.parent.iterdir():
        os.utime(each, (1, 1))
    assert not quiet()
    clock.now += LONG
    assert not quiet()
    assert quiet()
    return quiet, clock


def test_after_a_commit_of_another_connection_they_are_not_quiet_for_a_while(database: Path) -> None:
    quiet, clock = quieted(database)
    with closing(sqlite3.connect(database)) as other, other:
        other.execute("INSERT INTO t VALUES (1)")
    assert not quiet()
    # A file system may give the next commit the same time.
    assert not quiet()
    clock.now += LONG
    assert not quiet()
    assert quiet()


def test_they_are_relied_upon_only_for_so_long(database: Path) -> None:
    quiet, clock = quieted(database)
    clock.now += LONG
    assert not quiet()
    assert quiet()


def test_a_log_that_is_written_from_its_beginning_again_is_not_quiet(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        log = path.with_name("runs.db-wal")
        size = log.stat().st_size
        quiet, _ = quieted(path)
        connection.execute("INSERT INTO t VALUES (1)")
        assert log.stat().st_size == size
        assert not quiet()


def test_files_that_are_not_there_are_never_quiet(tmp_path: Path) -> None:
    clock = Clock()
    quiet = QuietFiles(tmp_path / "runs.db", clock=clock)
    for _ in range(3):
        clock.now += LONG
        assert not quiet()
        assert not quiet()


async def test_what_has_grown_costs_the_same_however_much_stands_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, really = 0, connections.connect

    def note() -> None:
        nonlocal steps
        steps += 1

    def connect(uri: str) -> sqlite3.Connection:
        connection = really(uri)
        connection.set_progress_handler(note, 1)
        return connection

    monkeypatch.setattr(connections, "connect", connect)
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}", durability="normal")
    costs: list[int] = []
    for streams in (range(1, 10), range(10, 200)):
        for number in streams:
            await store.append(f"agent:{number}", EMPTY_STREAM, commit_of(f"c{number}", Noted(), Noted()))
        end = await store.last_position()
        before = steps
        assert await store.grown(end - 2) == (end, {f"agent:{streams[-1]}": 2})
        costs.append(steps - before)
    await store.close()
    assert costs[0] == costs[1]
