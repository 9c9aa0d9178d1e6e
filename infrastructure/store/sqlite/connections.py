"""The connections to the database file: one for writing and one for reading, each behind its own lock.

A file is used through two connections, so reading never waits for a commit. A store opened for reading only opens and
closes its connection around each question, because whether it needs the write-ahead log can change while it waits.
"""

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from steptrail.domain.errors import StoreReadOnly, StoreUnavailable
from steptrail.infrastructure.store.core.durability import Durability
from steptrail.infrastructure.store.sqlite.errors import HeldUp, at_once, moved, status_of, until_free
from steptrail.infrastructure.store.sqlite.forking import INSIDE

_JOURNAL_HEAD = 20
"""How many bytes of a journal say how many pages the file had before it."""
_MUCH_LOG = 64 * 1024 * 1024
"""Bytes of a log that SQLite should have copied into the file long ago: it does so every 4 MB."""
_WAITING_PAGES = 4_000
_WRITES_A_LOOK = 16
"""How many writes pass between two looks at the size of the log."""
SECURE_DELETE = "PRAGMA secure_delete = ON"
"""Overwrites what is deleted or replaced. It begins with the first page: SQLite leaves copies where it moves rows."""
SYNC_ON_MACOS = ("PRAGMA fullfsync = ON", "PRAGMA checkpoint_fullfsync = ON")
"""Pragmas for systems where an ordinary sync leaves the data in the memory of the disk. Others ignore them."""

_log = logging.getLogger("steptrail.store")

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Connections(Protocol):
    """Runs work on a connection. Both raise what the work raises, `sqlite3.Error` included."""

    def read(self, work: Work[T]) -> T:
        """Return `work(connection)`; it reads only."""
        ...

    def write(self, work: Work[T]) -> T:
        """Return `work(connection)` with no other writer of this process beside it; repeated while it is locked out."""
        ...

    def write_at_once(self, work: Work[T]) -> T:
        """Return what `write` returns. Raises `HeldUp` when that would have to wait for somebody."""
        ...

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        ...


def in_transaction(connection: sqlite3.Connection, work: Work[T]) -> T:
    """Return `work(connection)` with all it writes stored together; an exception undoes all of it."""
    try:
        # A handler of a signal may raise right behind this: a transaction that stays open locks all others out.
        connection.execute("BEGIN IMMEDIATE")
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def file_uri(path: Path, mode: str) -> str:
    """Return the address of a database file; `mode` is `ro`, `rw` or `rwc`, with more settings behind it."""
    return f"file:{quote(str(path), safe='/')}?mode={mode}"


def head_of_journal(path: Path) -> bytes:
    """Return how the journal of a file begins that is written without a log; nothing of one that cannot be read."""
    try:
        with path.with_name(path.name + "-journal").open("rb") as journal:
            return journal.read(_JOURNAL_HEAD)
    except OSError:
        return b""


def is_to_be_undone(path: Path) -> bool:
    """Tell whether a process is writing the file without a log, or has died while it did.

    The file alone does not show that yet.
    """
    return head_of_journal(path)[:1] not in {b"", b"\0"}


def connect(uri: str) -> sqlite3.Connection:
    """Open a connection that never waits by itself and begins no transaction unasked."""
    with INSIDE:
        return sqlite3.connect(
            uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
        )


def disconnect(connection: sqlite3.Connection) -> None:
    """Close a connection."""
    with INSIDE:
        connection.close()


def fetch_all(connection: sqlite3.Connection, statement: str, parameters: Sequence[str | int | bytes]) -> list[Any]:
    """Return the rows of a query. Text that is not text is made visible, so that it hides no row but its own."""
    try:
        return connection.execute(statement, parameters).fetchall()
    except sqlite3.OperationalError as error:
        if "decode to UTF-8" not in str(error):
            raise
    connection.text_factory = _readable
    try:
        return connection.execute(statement, parameters).fetchall()
    finally:
        connection.text_factory = str


class FileConnections:
    """Two connections to a file; opened when first used."""

    def __init__(self, database: str, *, durability: Durability, patience: float) -> None:
        self._database, self._durability, self._patience = database, durability, patience
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._name = ""
        """The name that SQLite has for the file, once a connection was opened."""
        self._files: dict[str, tuple[int, int] | None] = {}
        """The file, its log and the index of that log, and which file of the disk each of them was at first."""
        self._much_log, self._writes = _MUCH_LOG, 0
        self._is_closed = False

    def read(self, work: Work[T]) -> T:
        """Return `work(connection)` of the reading connection."""
        with self._read_lock:
            return until_free(lambda: work(self._open_reader()), self._patience)

    def write(self, work: Work[T]) -> T:
        """Return `work(connection)` of the writing connection."""
        with self._write_lock:
            done = until_free(lambda: work(self._open_writer()), self._patience)
            self._look_at_log()
            return done

    def write_at_once(self, work: Work[T]) -> T:
        """Return `work(connection)` of the writing connection. Raises `HeldUp` while somebody else writes."""
        if not self._write_lock.acquire(blocking=False):
            raise HeldUp
        try:
            done = at_once(lambda: work(self._open_writer()))
            self._look_at_log()
        finally:
            self._write_lock.release()
        return done

    def close(self) -> None:
        """Close both connections. Safe to call twice."""
        with self._write_lock, self._read_lock:
            for connection in (self._reader, self._writer):
                if connection is not None:
                    disconnect(connection)
            self._reader = self._writer = None
            self._is_closed = True

    def _open_writer(self) -> sqlite3.Connection:
        self._check_files(with_log=True)
        if self._writer is None:
            self._writer = self._opened(
                "PRAGMA journal_mode = WAL",
                SECURE_DELETE,
                *(SYNC_ON_MACOS if self._durability == "full" else ()),
                f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}",
            )
        return self._writer

    def _open_reader(self) -> sqlite3.Connection:
        self._check_files(with_log=False)
        if self._reader is None:
            self._reader = self._opened("PRAGMA query_only = ON")
        return self._reader

    def _look_at_log(self) -> None:
        """Tell of a log that only grows, because SQLite keeps silent about copying that fails after a commit."""
        if len(self._files) == 1:
            self._know_log()
        self._writes += 1
        if self._writes % _WRITES_A_LOOK or self._writer is None:
            return
        if (size := _size(self._name + "-wal")) < self._much_log:
            return
        self._much_log = 2 * size
        try:
            with INSIDE:
                _, pages, copied = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            why = str(error)
        else:
            why = "something has read it for a long time, such as a shell or a backup with an open transaction"
            if pages - copied < _WAITING_PAGES:
                return
        _log.warning(
            "the log of the store %s has grown to %d MB and is not copied into the file: %s",
            self._name,
            size >> 20,
            why,
        )

    def _check_files(self, *, with_log: bool) -> None:
        # SQLite goes on writing to a file or a log that was deleted, and nobody else ever finds the commits. What is
        # read from such a log was stored, so a reader spares the time.
        for name, known in self._files.items() if with_log else [*self._files.items()][:1]:
            try:
                found = os.stat(name)  # here and not by a call: every step passes
            except OSError as error:
                raise moved(name, error) from error
            if (found.st_dev, found.st_ino) != known:
                raise moved(name)

    def _know_log(self) -> None:
        """Note which files the log and its index are: the same ones while a connection that has used them is open."""
        beside = {name: file_identity(name) for name in (f"{self._name}-wal", f"{self._name}-shm")}
        if None not in beside.values():
            self._files = self._files | beside  # in one go: another thread may be looking

    def _opened(self, *settings: str) -> sqlite3.Connection:
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        connection = connect(self._database)
        try:
            for setting in settings:
                connection.execute(setting).fetchall()
            if not self._files:
                self._name = connection.execute("PRAGMA database_list").fetchone()[2]
                self._files = {self._name: file_identity(self._name)}
        except BaseException:
            connection.close()
            raise
        return connection


class ReadOnlyConnections:
    """Reads a file and never writes, not even the shared memory of the write-ahead log when that is absent."""

    def __init__(self, path: Path, *, patience: float) -> None:
        self._path, self._patience = path, patience
        self._log = path.with_name(path.name + "-wal")

    def read(self, work: Work[T]) -> T:
        """Return `work(connection)` of a connection made for it."""
        # Without the log nobody is writing: `immutable` then reads the bare file and leaves no trace. If a writer came
        # while we read, the answer, or the error, is thrown away and asked for again through the log.
        before = self._mark()
        if before is None:
            return self._ask("ro", work)
        try:
            answer = self._ask("ro&immutable=1", work)
        except sqlite3.DatabaseError:
            if self._mark() == before:
                raise
        else:
            if self._mark() == before:
                return answer
        return self._ask("ro", work)

    def write(self, work: Work[T]) -> T:
        """Raise `StoreReadOnly`."""
        raise StoreReadOnly(f"the store {self._path} was opened for reading only")

    def write_at_once(self, work: Work[T]) -> T:
        """Raise `StoreReadOnly`."""
        return self.write(work)

    def close(self) -> None:
        """Do nothing: no connection outlives a question."""

    def _mark(self) -> tuple[int, int] | None:
        try:
            if self._log.exists() or is_to_be_undone(self._path):
                return None
            status = self._path.stat()
        except OSError as error:
            raise moved(self._path, error) from error
        return status.st_mtime_ns, status.st_size

    def _ask(self, mode: str, work: Work[T]) -> T:
        def once() -> T:
            with closing(connect(file_uri(self._path, mode))) as connection:
                return work(connection)

        return until_free(once, self._patience)


def _size(name: str) -> int:
    status = status_of(name)
    return status.st_size if status else 0


def file_identity(name: str | Path) -> tuple[int, int] | None:
    """Return which file of the disk is there by that name; None for none, or where that cannot be told."""
    status = status_of(name)
    return (status.st_dev, status.st_ino) if status else None


def _readable(text: bytes) -> str:
    return text.decode(errors="backslashreplace")
