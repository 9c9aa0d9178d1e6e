"""Opens SQLite files, and says what is wrong with the ones it refuses without touching them.

SQLite itself looks at the header, without locks. Python must not open the file: closing it would drop the locks that
SQLite holds on it for another store of this process.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from steptrail.domain.errors import NotAStore, StoreAway, StoreError, StoreReadOnly, StoreUnavailable
from steptrail.infrastructure.store.connections import (
    FileConnections,
    ReadOnlyConnections,
    connect,
    file_uri,
)
from steptrail.infrastructure.store.event_store import RecorderEventStore
from steptrail.infrastructure.store.lease import FileLeases, MemoryLeases, NoLeases
from steptrail.infrastructure.store.opening import Durability
from steptrail.infrastructure.store.recorder import SCHEMA_VERSION
from steptrail.infrastructure.store.schema import check_header, initialise
from steptrail.infrastructure.store.sqlite_errors import primary_code, translate, until_free
from steptrail.infrastructure.store.sqlite_recorder import SqliteRecorder

__all__ = ["open_file", "open_for_reading", "open_memory"]


def open_file(path: Path, durability: Durability, patience: float, *, create: bool) -> RecorderEventStore:
    """Open a store for writing, and make it when it is not there and `create` allows that."""
    name = str(path)
    version = _look(path, patience, needed=not create)
    if not _allowed(path.parent, os.W_OK) or (path.exists() and not _allowed(path, os.W_OK)):
        msg = (
            f"the store {name} cannot be written: check the rights of the file, and of its folder for the log beside it"
        )
        raise StoreReadOnly(msg)
    connections = FileConnections(file_uri(path, "rw"), durability=durability, patience=patience)
    try:
        if version < SCHEMA_VERSION:
            with closing(connect(file_uri(path, "rwc"))) as connection:
                until_free(lambda: initialise(connection, name), patience)
        connections.write(lambda connection: check_header(connection, name))
    except sqlite3.Error as error:
        connections.close()
        raise translate(error, name) from error
    except StoreError:
        connections.close()
        raise
    recorder = SqliteRecorder(file_uri(path, "rw"), connections, store=name)
    return RecorderEventStore(recorder, FileLeases(path, patience=patience), name=name)


def open_for_reading(path: Path, patience: float) -> RecorderEventStore:
    """Open a store that is there, and write nothing."""
    _look(path, patience, needed=True)
    connections = ReadOnlyConnections(path, patience=patience)
    recorder = SqliteRecorder(file_uri(path, "ro"), connections, store=str(path))
    return RecorderEventStore(recorder, NoLeases(path, patience=patience), name=str(path))


def open_memory(patience: float, *, create: bool) -> RecorderEventStore:
    """Open an empty store that is gone when it is closed."""
    if not create:
        msg = "a store in memory begins empty: there is nothing to read in it"
        raise StoreUnavailable(msg)
    from steptrail.infrastructure.store.sqlite_library import recorder_in_memory

    return RecorderEventStore(recorder_in_memory(patience), MemoryLeases(), name=":memory:", readers=0)


def _look(path: Path, patience: float, *, needed: bool) -> int:
    """Return the schema version of the store that is there, 0 for none.

    Raises when there is none and it is `needed`, or when none can be there.
    """
    try:
        if path.is_dir():
            msg = f"{path} is a folder: name a file in it"
            raise StoreUnavailable(msg)
        exists = path.exists()
    except OSError as error:
        msg = f"the store {path} cannot be reached: {error.strerror}"
        raise StoreAway(msg) from error
    if not path.parent.is_dir():
        msg = f"there is no folder {path.parent} for the store {path.name}: create it first"
        raise StoreUnavailable(msg)
    if not exists:
        if needed:
            msg = f"there is no store {path}: check the path, or run something first"
            raise StoreUnavailable(msg)
        return 0
    if not _allowed(path, os.R_OK):
        msg = f"the store {path} cannot be read: check its rights"
        raise StoreUnavailable(msg)
    try:
        version = _version(path, patience)
    except sqlite3.Error as error:
        raise translate(error, str(path)) from error
    if needed and not version:
        msg = f"{path} is empty: there is no store in it"
        raise NotAStore(msg)
    return version


def _version(path: Path, patience: float) -> int:
    try:
        with closing(connect(file_uri(path, "ro&immutable=1"))) as connection:
            return check_header(connection, str(path))
    except sqlite3.DatabaseError as error:
        if primary_code(error) != sqlite3.SQLITE_CORRUPT:
            raise
        # Between two pages of a checkpoint, also of one that a kill has cut off, the bare file contradicts itself.
        connections = ReadOnlyConnections(path, patience=patience)
        return connections.read(lambda connection: check_header(connection, str(path)))


def _allowed(path: Path, right: int) -> bool:
    return os.access(path, right, effective_ids=os.access in os.supports_effective_ids)
