"""A fork beside threads that use SQLite: none is inside while the process is copied, so that no child hangs."""

import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from eventsourcing.sqlite import SQLiteDatastore

from steptrail.infrastructure.store.library.sqlite import PooledConnections
from steptrail.infrastructure.store.sqlite.connections import FileConnections, connect, disconnect
from steptrail.infrastructure.store.sqlite.forking import INSIDE

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

MOMENT = 0.05


@pytest.fixture
def connections(tmp_path: Path) -> Iterator[FileConnections]:
    made = FileConnections(f"file:{tmp_path / 'runs.db'}?mode=rwc", durability="normal", patience=1)
    made.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
    yield made
    made.close()


@contextmanager
def somebody_inside(connections: FileConnections) -> Generator[Callable[[], None]]:
    """Have a thread be in the middle of a question; yield what lets it go on."""
    is_inside, may_leave = threading.Event(), threading.Event()

    def wait(_: sqlite3.Connection) -> None:
        is_inside.set()
        may_leave.wait()

    def ask() -> None:
        connections.read(wait)

    thread = threading.Thread(target=ask)
    thread.start()
    assert is_inside.wait(60)
    try:
        yield may_leave.set
    finally:
        may_leave.set()
        thread.join()


def forked(in_child: Callable[[], object]) -> int:
    """Fork, and return how the child ended: 0 when nothing was raised in it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            in_child()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def do_beside_a_fork(*works: Callable[[], None], done: Sequence[object]) -> None:
    """Begin with the works, each in a thread of its own; see that nothing is `done` before the fork is over."""
    threads = [threading.Thread(target=work) for work in works]
    INSIDE.begin_fork()
    try:
        for thread in threads:
            thread.start()
            thread.join(MOMENT)
        assert done == []
    finally:
        INSIDE.end_fork()
    for thread in threads:
        thread.join()


def test_a_fork_waits_until_a_thread_is_out_of_sqlite(connections: FileConnections) -> None:
    ends: list[int] = []
    with somebody_inside(connections) as let_go:
        forking = threading.Thread(target=lambda: ends.append(forked(lambda: None)))
        forking.start()
        forking.join(MOMENT)
        assert ends == []
        let_go()
        forking.join()
    assert ends == [0]


def test_a_fork_does_not_wait_for_ever_and_the_child_is_free_to_use_its_own_file(
    connections: FileConnections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steptrail.infrastructure.store.sqlite.forking._PATIENCE_SECONDS", MOMENT)

    def use_another() -> None:
        mine = FileConnections(f"file:{tmp_path / 'mine.db'}?mode=rwc", durability="normal", patience=1)
        mine.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0

    with somebody_inside(connections):
        assert forked(use_another) == 0


def test_no_thread_goes_in_while_the_process_forks(connections: FileConnections) -> None:
    answers: list[object] = []

    def ask() -> None:
        answers.append(connections.read(lambda found: found.execute("SELECT 1").fetchone()))

    do_beside_a_fork(ask, done=answers)
    assert answers == [(1,)]


def test_no_file_is_opened_or_closed_while_the_process_forks(connections: FileConnections, tmp_path: Path) -> None:
    connections.read(lambda found: found.execute("SELECT 1").fetchone())
    done: list[str] = []

    def open_and_close() -> None:
        disconnect(connect(f"file:{tmp_path / 'other.db'}?mode=rwc"))
        done.append("opened")

    def close() -> None:
        connections.close()
        done.append("closed")

    do_beside_a_fork(open_and_close, close, done=done)
    assert sorted(done) == ["closed", "opened"]


def test_no_database_in_memory_is_opened_or_closed_while_the_process_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    really = SQLiteDatastore.get_connection

    def get_connection(datastore: SQLiteDatastore, *, commit: bool) -> object:
        done.append("opened")
        return really(datastore, commit=commit)

    monkeypatch.setattr(SQLiteDatastore, "get_connection", get_connection)

    def in_memory(name: str) -> PooledConnections:
        datastore = SQLiteDatastore(f"file:{name}?mode=memory&cache=shared", originator_id_type="text")
        return PooledConnections(datastore, patience=1)

    def close() -> None:
        in_memory("closed").close()
        done.append("closed")

    opened = in_memory("opened")

    def ask() -> None:
        opened.read(lambda found: found.execute("SELECT 1").fetchone())

    do_beside_a_fork(ask, close, done=done)
    opened.close()
    assert sorted(done) == ["closed", "opened"]


def test_who_forks_from_inside_does_not_wait_for_itself(connections: FileConnections) -> None:
    assert connections.read(lambda _: connections.write(lambda _: forked(lambda: None))) == 0
    assert connections.read(lambda found: found.execute("SELECT 1").fetchone()) == (1,)


def test_a_handler_of_a_signal_may_fork_and_ask_while_its_thread_goes_in(connections: FileConnections) -> None:
    ends: list[object] = []

    def handle(*_: object) -> None:
        ends.append(forked(lambda: None))
        ends.append(connections.read(lambda found: found.execute("SELECT 1").fetchone()))

    with vars(INSIDE)["_lock"]:  # where the thread is when the signal comes
        handle()
    assert ends == [0, (1,)]


def test_two_threads_that_fork_take_turns(connections: FileConnections) -> None:
    ends: list[int] = []
    with somebody_inside(connections) as let_go:
        forking = [threading.Thread(target=lambda: ends.append(forked(lambda: None))) for _ in range(3)]
        for thread in forking:
            thread.start()
        let_go()
        for thread in forking:
            thread.join()
    assert ends == [0] * 3
