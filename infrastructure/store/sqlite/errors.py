"""The errors of SQLite, in the words of the port, and patience with a lock that another connection holds."""

import errno
import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from steptrail.domain.errors import (
    NotAStore,
    StoreAway,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)
from steptrail.infrastructure.store.core import file_errors
from steptrail.infrastructure.store.sqlite.forking import INSIDE

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""With what a system says that there is no such file."""
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.04

T = TypeVar("T")


class HeldUp(Exception):
    """Raised when work that was to be done at once would have to wait for somebody else. Nothing was done."""


def is_allowed(path: str | Path, right: int) -> bool:
    """Tell whether this process, as who it is at work now, has a right to a file or folder."""
    return os.access(path, right, effective_ids=os.access in os.supports_effective_ids)


def status_of(name: str | Path) -> os.stat_result | None:
    """Return what the disk says of a file; None where there is none, or that cannot be told."""
    try:
        return os.stat(name)
    except OSError:
        return None


def primary_code(error: sqlite3.Error) -> int:
    """Return the SQLite result code without its extension; 0 for an error that Python itself raised."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def moved(store: str | Path, error: OSError | None = None) -> StoreUnavailable:
    """Return the error of a store whose file is another one now, or gone, or nobody can tell, which `error` says.

    What is open stays with the old file.
    """
    if error is not None and error.errno not in NOT_THERE:
        return StoreAway(f"the store {store} cannot be reached: {error.strerror}")
    said = f"the store {store} was moved or deleted while it was open"
    return StoreUnavailable(f"{said}: put it back, or open it anew (start this process again)")


def translate(error: sqlite3.Error, store: str) -> StoreError:
    """Return the error of the port that tells the user of `store` the same."""
    code = primary_code(error)
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
        return moved(store)
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK:
        return StoreReadOnly(f"the last write to the store {store} was cut off: open it once for writing, to undo it")
    if code in _LOCKED:
        return StoreLocked(f"the store {store} is locked by another process: nothing was written, try again")
    if code == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(f"the store {store} cannot be written: check the rights of the file and its folder")
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"no space left for the store {store}: nothing was written, free some and try again")
    if code == sqlite3.SQLITE_NOTADB:
        return NotAStore(f"{store} is not a SQLite database; it was left as it is")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreDamaged(f"the file of the store {store} is damaged ({error}): restore it from a backup")
    if (most := largest_file(error)) is not None:
        return file_errors.too_large(f"the store {store}", most)
    if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR} and file_errors.is_out_of_files():
        return file_errors.too_many(f"the store {store}")
    if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR} and (reason := _room_beside(store)) is not None:
        return reason
    return StoreUnavailable(f"the store {store} cannot be used: {error}")


def largest_file(error: sqlite3.Error) -> int | None:
    """Return how large a file this process may make, if a write failed; None for what else failed, or no limit."""
    if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_IOERR_WRITE:
        return None
    return file_errors.largest_file()


def _room_beside(store: str) -> StoreError | None:
    """Return why SQLite could not make the index of a log (`-shm`) beside the file, or use it; None when it could."""
    folder = os.path.dirname(store)
    try:
        free = os.statvfs(folder).f_bavail if hasattr(os, "statvfs") else 1
    except OSError:
        return None
    if not os.path.exists(store + "-wal"):
        return None
    if not is_allowed(folder, os.W_OK):
        return StoreReadOnly(
            f"the store {store} has a log that a process left behind, and its folder cannot be written: to read it, "
            "open it once where it can be, or copy the file and its -wal to such a folder"
        )
    return StoreFull(f"no space left beside the store {store}: free some and try again") if not free else None


def translated(work: Callable[[], T], store: str) -> T:
    """Return `work()`. Raises the error of the port instead of what SQLite reports."""
    try:
        return work()
    except sqlite3.Error as error:
        raise translate(error, store) from error


def until_free(work: Callable[[], T], patience: float) -> T:
    """Return `work()`, called again while another connection holds a lock it needs, for `patience` seconds at most.

    SQLite's own waiting is unfair between processes, so the pauses here are short and jittered. `work` must undo itself
    when it fails. Raises what `work` raises.
    """
    deadline: float | None = None
    pause = _FIRST_WAIT
    while True:
        try:
            with INSIDE:
                return work()
        except UnicodeDecodeError as error:
            # What is damaged in the file stands in SQLite's message, which Python then cannot read.
            damaged = sqlite3.DatabaseError("malformed database schema")
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged from error
        except sqlite3.OperationalError as error:
            if primary_code(error) not in _LOCKED:
                raise
            now = time.monotonic()
            deadline = now + patience if deadline is None else deadline
            if now >= deadline:
                raise
            time.sleep(min(pause * random.uniform(0.5, 1.0), deadline - now))  # noqa: S311 - spreads waiters
            pause = min(pause * 1.6, _LONGEST_WAIT)


def at_once(work: Callable[[], T]) -> T:
    """Return `work()`. Raises `HeldUp` where `until_free` would wait for a lock that another connection holds."""
    try:
        return until_free(work, 0)
    except sqlite3.OperationalError as error:
        if primary_code(error) in _LOCKED:
            raise HeldUp from error
        raise
