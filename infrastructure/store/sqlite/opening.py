"""Opens SQLite files, and says what is wrong with the ones it refuses without touching them.

SQLite itself looks at the header, without locks. Python must not open the file: closing it would drop the locks that
SQLite holds on it for another store of this process.

A process that dies while it makes a store leaves a journal that undoes what it wrote. Until then the file may say
anything, and where it was empty before it is nobody's: SQLite undoes it, or waits for the process that is still at it.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from steptrail.domain.errors import NotAStore, StoreError, StoreReadOnly, StoreUnavailable
from steptrail.infrastructure.store.core.durability import Durability
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.lease import FileLeases, MemoryLeases, NoLeases
from steptrail.infrastructure.store.sqlite.connections import (
    FileConnections,
    ReadOnlyConnections,
    connect,
    file_uri,
    head_of_journal,
    is_to_be_undone,
)
from steptrail.infrastructure.store.sqlite.errors import (
    NOT_THERE,
    is_allowed,
    moved,
    primary_code,
    translate,
    translated,
    until_free,
)
from steptrail.infrastructure.store.sqlite.forking import INSIDE
from steptrail.infrastructure.store.sqlite.quiet_files import QuietFiles
from steptrail.infrastructure.store.sqlite.recorder import SqliteRecorder
from steptrail.infrastructure.store.sqlite.schema import check_header, initialise

_MAGIC = bytes.fromhex("d9d505f920a163d7")


def open_file(path: Path, durability: Durability, patience: float, *, create: bool) -> RecorderEventStore:
    """Open a store for writing, and make it when it is not there and `create` allows that."""
    name = str(path)
    version = _look(path, patience, needed=not create, to_write=True)
    if not is_allowed(path.parent, os.W_OK) or (path.exists() and not is_allowed(path, os.W_OK)):
        raise StoreReadOnly(
            f"the store {name} cannot be written: check the rights of the file, and of its folder for the log beside it"
        )
    connections = FileConnections(file_uri(path, "rw"), durability=durability, patience=patience)
    try:
        if not version:
            with INSIDE, closing(connect(file_uri(path, "rwc" if create else "rw"))) as connection:
                # Reading it first undoes what was cut off.
                if not until_free(lambda: check_header(connection, name), patience) and not create:
                    raise _empty(path)
                until_free(lambda: initialise(connection, name), patience)
        connections.write(lambda connection: check_header(connection, name))
    except sqlite3.Error as error:
        connections.close()
        raise translate(error, name) from error
    except StoreError:
        connections.close()
        raise
    recorder = SqliteRecorder(connections, store=name, is_quiet=QuietFiles(path))
    return RecorderEventStore(recorder, FileLeases(path, patience=patience), name=name)


def open_for_reading(path: Path, patience: float) -> RecorderEventStore:
    """Open a store that is there, without writing to it."""
    name = str(path)
    connections = ReadOnlyConnections(path, patience=patience)
    if not _look(path, patience, needed=True, to_write=False):
        version = translated(lambda: connections.read(lambda c: check_header(c, name, to_write=False)), name)
        if not version:
            raise _empty(path)
    recorder = SqliteRecorder(connections, store=name, is_quiet=QuietFiles(path))
    return RecorderEventStore(recorder, NoLeases(path, patience=patience), name=name)


def open_memory(patience: float, *, create: bool) -> RecorderEventStore:
    """Open an empty store that is gone when it is closed."""
    if not create:
        raise StoreUnavailable("a store in memory begins empty: there is nothing to read in it")
    from steptrail.infrastructure.store.library.sqlite import recorder_in_memory

    return RecorderEventStore(recorder_in_memory(patience), MemoryLeases(), name=":memory:", readers=0)


def _is_there(path: Path) -> bool:
    """Tell whether something is there. Raises `OSError` where nobody may look, and for a name that is too long."""
    try:
        path.stat()
    except OSError as error:
        if error.errno not in NOT_THERE:
            raise
        return False
    return True


def _look(path: Path, patience: float, *, needed: bool, to_write: bool) -> int:
    """Return the format of the store that is there, 0 for none and for one that is to be undone first.

    Raises when there is none and it is `needed`, or when none can be there.
    """
    try:
        if path.is_dir():
            raise StoreUnavailable(f"{path} is a folder: name a file in it")
        exists = _is_there(path)
        for name in (path, *(path.with_name(path.name + beside) for beside in ("-journal", "-wal", "-shm"))):
            # SQLite would wait for somebody who writes into a pipe, and begin a file for which no other fits beside it.
            if _is_there(name) and not name.is_file():
                raise NotAStore(f"{name} is a pipe or a device, and no file; it was left as it is")
    except OSError as error:
        raise moved(path, error) from error
    if not path.parent.is_dir():
        raise StoreUnavailable(f"there is no folder {path.parent} for the store {path.name}: create it first")
    if not exists:
        if needed:
            raise StoreUnavailable(f"there is no store {path}: check the path, or run something first")
        return 0
    if not is_allowed(path, os.R_OK):
        raise StoreUnavailable(f"the store {path} cannot be read: check its rights")
    if _pages_before(path) == 0:
        return 0
    version = translated(lambda: _format(path, patience, to_write), str(path))
    if needed and not version:
        raise _empty(path)
    return 0 if is_to_be_undone(path) else version


def _format(path: Path, patience: float, to_write: bool) -> int:
    def checked(connection: sqlite3.Connection) -> int:
        return check_header(connection, str(path), to_write=to_write)

    try:
        with INSIDE, closing(connect(file_uri(path, "ro&immutable=1"))) as connection:
            return until_free(lambda: checked(connection), patience)
    except sqlite3.DatabaseError as error:
        if primary_code(error) not in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise
        if _pages_before(path) == 0:
            return 0
        # Between two pages of a commit or a checkpoint, also of one that a kill has cut off, the bare file contradicts
        # itself.
        connections = ReadOnlyConnections(path, patience=patience)
        return connections.read(checked)


def _pages_before(path: Path) -> int | None:
    """Return how many pages the file had before the change that its journal would undo; None without a journal."""
    head = head_of_journal(path)
    return int.from_bytes(head[16:20], "big") if head.startswith(_MAGIC) and len(head[16:]) == 4 else None


def _empty(path: Path) -> NotAStore:
    return NotAStore(f"{path} is empty: there is no store in it")
